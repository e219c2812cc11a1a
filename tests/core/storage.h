// SPDX-License-Identifier: Apache-2.0
// For tests of shared memory: the address of a tensor's elements, and the first element.
#pragma once

#include "etude/core/tensor.h"

namespace etude::tests {

inline float first(const Tensor& x) { return x.data<float>()[0]; }
inline const void* address(const Tensor& x) { return TensorAccess::data(x); }

}  // namespace etude::tests
