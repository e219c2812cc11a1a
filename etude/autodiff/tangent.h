// SPDX-License-Identifier: Apache-2.0
// Makes tensors Differentiable: the tangent of a tensor is a tensor of the same type.
#pragma once

#include <type_traits>
#include <vector>

#include "etude/base/structure.h"
#include "etude/core/shape.h"
#include "etude/core/tensor.h"
#include "etude/diff/differentiable.h"
#include "etude/diff/tangent_math.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// The tangent of an integer or bool tensor is absent. Moving by an absent tangent does nothing.
template <>
inline constexpr bool internal::kIsOtherLeaf<Tensor> = true;
template <>
struct DifferentiableTraits<Tensor> {
  using Tangent = Tensor;
  // Returns zeros of the shape, dtype and device of x; absent for an integer or bool tensor.
  static Tensor zero(const Tensor& x);
  // Adds `by` to x, in place if x is unshared. Repeated rows of a sparse `by` add up.
  static void move(Tensor& x, const Tensor& by);
};

namespace internal {
template <>
inline constexpr bool kIsDiscreteValue<Shape> = true;

template <class T>
concept TangentWithTensors = Composite<T> && holds_other_leaf<T>();

// A type that specialises DifferentiableTraits and has a tangent with tensors, such as a unit
// vector. Derivatives are first taken with respect to the tensors among its fields. Then they are
// pulled back through move() to the tangent of the type, as for manifolds of numbers.
template <class T>
concept TensorManifold =
    HasTangent<T> && !Composite<T> && !kIsOtherLeaf<T> && holds_other_leaf<tangent_t<T>>();

struct ManifoldOfTensors {
  static constexpr bool explains = false;
  template <class T>
  static constexpr bool is = TensorManifold<T>;
};
template <class T>
constexpr bool holds_tensor_manifold() {
  return finds_kind<ManifoldOfTensors, Marked::kSkip, T>();
}
template <class Result>
struct ResultHasOwnTangent {
  static constexpr bool is_plain = !holds_tensor_manifold<Result>();
  static_assert(is_plain,
                "etude: the result of a function of tensors is of a type with a tangent of its own "
                "(DifferentiableTraits), to which no derivative leads; return its tensors");
};

template <class X>
struct ManifoldShowsTensors {
  static constexpr bool shows_tensors = HasLeaf<X, Tensor>::value;
  static_assert(shows_tensors,
                "etude: a type whose DifferentiableTraits have a tangent with tensors must show "
                "its own tensors: make it a plain struct, or list its fields with ETUDE_FIELDS");
};

// Calls fn(tensor) for each tensor of a manifold.
template <class X, class Fn>
void each_tensor_of(X& x, Fn&& fn) {
  if constexpr (HasLeaf<X, Tensor>::value) {
    for_each_leaf<Tensor>(x, fn);
  } else {
    static_cast<void>(sizeof(ManifoldShowsTensors<std::remove_const_t<X>>));
  }
}

// Sums the dot products of pairs of leaves. Absent tensors count as zeros.
class DotOfLeaves {
 public:
  void operator()(const Tensor& a, const Tensor& b);
  template <class S>
  void operator()(const S& a, const S& b) {
    (*this)(Tensor(a), Tensor(b));
  }
  Tensor sum;
};

// Computes the length of a tangent from its leaves. Absent leaves count as zeros.
class LengthOfLeaves {
 public:
  void operator()(const Tensor& leaf);
  template <class S>
  void operator()(const S& leaf) {
    (*this)(Tensor(leaf));
  }
  // Returns the root of the sum of squares, in the real dtype to which the leaves promote. Returns
  // 0 if there are no leaves.
  Tensor length() const;

 private:
  std::vector<Tensor> leaves_;
};

}  // namespace internal

// Returns the sum of the dot products of the leaves of t and u, which are pytrees with tensors. The
// result is a scalar of the dtype of the leaves. Differentiable.
//
// throws: kInvalidArgument if shapes, lengths or dtypes differ.
template <internal::TangentWithTensors T>
[[nodiscard]] Tensor dot(const T& t, const T& u) {
  internal::DotOfLeaves all;
  internal::zip_leaves(t, u, all);
  return all.sum.has_value() ? all.sum : Tensor(0.0F);
}
// Returns the square root of the sum of the squares of all leaves of one or more tangents. The
// squares neither overflow nor underflow. The derivative at 0 is 0.
template <internal::TangentWithTensors... T>
requires(sizeof...(T) > 0) [[nodiscard]] Tensor global_norm(const T&... t) {
  internal::LengthOfLeaves all;
  (internal::each_leaf(t, all), ...);
  return all.length();
}
template <internal::TangentWithTensors T>
[[nodiscard]] Tensor norm(const T& t) {
  return global_norm(t);
}

}  // namespace etude
