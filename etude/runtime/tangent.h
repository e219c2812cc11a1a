// SPDX-License-Identifier: Apache-2.0
// How tensors join the Differentiable protocol: the tangent of a tensor is a tensor of its type.
#pragma once

#include "etude/core/shape.h"
#include "etude/core/tensor.h"
#include "etude/diff/differentiable.h"
#include "etude/diff/tangent_math.h"
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

template <class T>
concept TangentWithTensors = Composite<T> && holds_other_leaf<T>();

// Adds the products of leaves. Absent tensors count as zeros.
class DotOfLeaves {
 public:
  void operator()(const Tensor& a, const Tensor& b);
  template <class S>
  void operator()(const S& a, const S& b) {
    (*this)(Tensor(a), Tensor(b));
  }
  // The square root of the sum; of 0 if there were no leaves.
  Tensor root() const;
  Tensor sum;
};

}  // namespace internal

// The sum of products of the leaves of t and u, structures with tensors: a scalar of the dtype of
// their leaves, so all that a derivative can do with it.
//
// throws: kInvalidArgument where shapes, lengths or dtypes differ.
template <internal::TangentWithTensors T>
[[nodiscard]] Tensor dot(const T& t, const T& u) {
  internal::DotOfLeaves all;
  internal::zip_leaves(t, u, all);
  return all.sum.has_value() ? all.sum : Tensor(0.0F);
}
// The square root of the sum of the squares of all leaves, over one tangent or several.
template <internal::TangentWithTensors... T>
requires(sizeof...(T) > 0) [[nodiscard]] Tensor global_norm(const T&... t) {
  internal::DotOfLeaves all;
  (internal::zip_leaves(t, t, all), ...);
  return all.root();
}
template <internal::TangentWithTensors T>
[[nodiscard]] Tensor norm(const T& t) {
  return global_norm(t);
}

}  // namespace etude
