// SPDX-License-Identifier: Apache-2.0
// The element and arithmetic types of kernels on floating elements.
#pragma once

#include "etude/base/float16.h"
#include "etude/core/dtype.h"

namespace etude::kernels::cpu {

// Calls f.operator()<T, C>() with the element type T and the arithmetic type C: half types compute
// in float. `dtype` is floating.
template <class F>
auto visit_floating(DType dtype, F&& f) {
  switch (dtype) {
    case kFloat16:
      return f.template operator()<Float16, float>();
    case kBFloat16:
      return f.template operator()<BFloat16, float>();
    case kFloat64:
      return f.template operator()<double, double>();
    default:
      return f.template operator()<float, float>();
  }
}

}  // namespace etude::kernels::cpu
