// SPDX-License-Identifier: Apache-2.0
// How tensors join the Differentiable protocol: the tangent of a tensor is a tensor of its type.
#pragma once

#include "etude/core/shape.h"
#include "etude/core/tensor.h"
#include "etude/diff/differentiable.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// The tangent of an integer or bool tensor is absent; an absent tangent moves nothing.
template <>
inline constexpr bool internal::kIsOtherLeaf<Tensor> = true;
template <>
struct DifferentiableTraits<Tensor> {
  using Tangent = Tensor;
  // Zeros of x's shape and dtype, on its device.
  static Tensor zero(const Tensor& x);
  // In place when x is not shared; rows of a sparse tangent are added one by one.
  static void move(Tensor& x, const Tensor& by);
};

namespace internal {
template <>
inline constexpr bool kIsDiscreteValue<Shape> = true;
}

}  // namespace etude
