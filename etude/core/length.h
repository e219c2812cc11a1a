// SPDX-License-Identifier: Apache-2.0
// The length of tensors as one vector, for tangents. Complements builtin.h.
#pragma once

#include <span>

#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The root of the sum of the squares of all elements, a float64 scalar (op length). Squares do not
// overflow or underflow. Parts have floating or complex dtypes.
Tensor length(std::span<const Tensor> parts);

}  // namespace internal
}  // namespace etude
