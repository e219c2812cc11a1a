// SPDX-License-Identifier: Apache-2.0
// Tangents as vectors: sums, multiples and access by field, for every tangent type. The arithmetic
// operators are for tangents of structs and of containers, since numbers and tensors have operators
// of their own. The operators for containers need `using namespace etude`. Used by
// differentiable.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

#include "etude/diff/aggregates.h"
#include "etude/diff/containers.h"
#include "etude/diff/protocol.h"

namespace ETUDE_API etude {
namespace internal {

// Tangents of structs.
template <class T>
concept StructTangent = IsTangent<T>::value ||(StructOfTangents<T>&& kIsOwnTangent<T>);
// CompositeTangent: the tangent of a struct or of a container. Such a tangent consists of parts and
// has no operators of its own. Overload resolution checks this concept for any two operands, even
// for types whose traits are not specialised yet. So the concept looks at the traits of structs and
// containers only.
template <class T>
concept LooksLikeContainer = requires {
  typename T::value_type;
}
|| requires { std::tuple_size<T>::value; }
|| requires { std::variant_size<T>::value; };
template <class T>
concept ContainerTangent = LooksLikeContainer<T> && Composite<T> && std::is_same_v<tangent_t<T>, T>;
template <class T>
concept CompositeTangent = StructTangent<T> || ContainerTangent<T>;

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#endif

// The index of the field that `field` points to.
template <auto field>
struct FieldIndex;
template <class T, class V, V T::*field>
struct FieldIndex<field> {
  using Value = T;
  static constexpr std::size_t find() {
    std::size_t found = 0;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto compare = [&](const auto* candidate, std::size_t index) {
        if constexpr (std::is_same_v<decltype(candidate), const V*>) {
          if (candidate == &(sample<T>.value.*field)) found = index;
        }
      };
      (compare(&std::get<I>(fields(sample<T>.value)), I), ...);
    }
    (std::make_index_sequence<field_count<T>()>());
    return found;
  }
  static constexpr std::size_t value = find();
};

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

// The number type of the first leaf of T; void if T has no leaf.
template <class T>
struct LeafNumber {
  using type = T;
};
template <class... Part>
struct LeafNumberOf {
  using type = void;
};
template <class Part, class... Rest>
struct LeafNumberOf<Part, Rest...> {
  using First = typename LeafNumber<Part>::type;
  using type = typename std::conditional_t<std::is_void_v<First>, LeafNumberOf<Rest...>,
                                           std::type_identity<First>>::type;
};
template <class List>
struct LeafNumberOfList;
template <class... Part>
struct LeafNumberOfList<TypeList<Part...>> : LeafNumberOf<std::remove_cvref_t<Part>...> {};
template <Composite T>
struct LeafNumber<T> : LeafNumberOfList<typename PartTypes<T>::Types> {};
template <Composite T>
requires requires { typename T::mapped_type; }
struct LeafNumber<T> : LeafNumber<typename T::mapped_type> {};
template <Discrete T>
struct LeafNumber<T> {
  using type = void;
};
template <>
struct LeafNumber<NoTangent> {
  using type = void;
};
template <class T>
using leaf_number_t = typename LeafNumber<T>::type;

// The type of the factor that multiplies a tangent: the type of the leaves if the leaves carry
// derivatives, else double.
template <class T>
struct FactorOf {
  using type = double;
};
template <class T>
requires requires {
  typename leaf_number_t<T>::Value;
} && std::is_convertible_v<double, leaf_number_t<T>>
struct FactorOf<T> {
  using type = leaf_number_t<T>;
};
template <class T>
using factor_t = typename FactorOf<T>::type;
// FactorOf for the operators below, without a member `type` if T is not a CompositeTangent.
// Compilers consider these operators for any two operands. clang 14 forms the parameter types
// before it checks the constraints.
template <class T>
struct TangentFactor {};
template <CompositeTangent T>
struct TangentFactor<T> : FactorOf<T> {};
template <class T>
using tangent_factor_t = typename TangentFactor<T>::type;

}  // namespace internal

// The slot of a field in the tangent of a struct, found at compile time: get<&Dense::bias>(g).
template <auto field, internal::StructTangent G>
constexpr auto& get(G& grads) {
  if constexpr (internal::IsTangent<G>::value) {
    using Slot = std::tuple_element_t<internal::FieldIndex<field>::value, typename G::Slots>;
    static_assert(!std::is_same_v<Slot, NoTangent>,
                  "etude: this field carries no derivative, so it has no slot");
    return std::get<internal::FieldIndex<field>::value>(grads.etude_slots());
  } else {
    return grads.*field;
  }
}
template <auto field, internal::StructTangent G>
constexpr const auto& get(const G& grads) {
  return get<field>(const_cast<G&>(grads));
}

// into += from, in place.
//
// throws: kInvalidArgument if lengths or shapes differ.
template <class T>
constexpr void accumulate(T& into, const T& from) {
  etude::move(into, from);
}

// Returns t times a number, leaf by leaf; in place if t was moved in. The factor may belong to an
// outer derivative if the leaves of t do.
template <class T>
[[nodiscard]] constexpr T scaled(T t, internal::factor_t<T> by) {
  auto each = [&by](auto& leaf) {
    leaf = static_cast<std::remove_reference_t<decltype(leaf)>>(std::move(leaf) * by);
  };
  internal::each_leaf(t, each);
  return t;
}

// Returns the tangent with fn(leaf) for each leaf of t; in place if t was moved in.
template <internal::Composite T, class Fn>
[[nodiscard]] constexpr T map_leaves(T t, const Fn& fn) {
  auto each = [&fn](auto& leaf) {
    leaf = static_cast<std::remove_reference_t<decltype(leaf)>>(fn(std::move(leaf)));
  };
  internal::each_leaf(t, each);
  return t;
}

// Returns the leaves of x as a tangent of x, without parts that are excluded from derivatives. For
// weight decay, norms and saving.
template <Differentiable T>
[[nodiscard]] constexpr tangent_t<T> vector_view(const T& x) {
  auto each = [](const auto& leaf) -> tangent_t<decltype(leaf)> { return leaf; };
  return internal::build_tangent(x, each);
}

// Returns the inner product of t and u: the sum of the products of their leaves, which are numbers.
//
// throws: kInvalidArgument if lengths differ.
template <class T>
requires(!internal::holds_other_leaf<T>())
    [[nodiscard]] constexpr auto dot(const T& t, const T& u) {
  internal::leaf_number_t<T> sum(0);
  auto each = [&](const auto& a, const auto& b) { sum += a * b; };
  internal::zip_leaves(t, u, each);
  return sum;
}
namespace internal {

// The largest absolute value of the leaves. A number of a derivative counts with its plain value.
struct LargestLeaf {
  template <class S>
  void operator()(const S& leaf) {
    if constexpr (std::is_floating_point_v<S>) {
      largest = std::max(largest, static_cast<double>(std::abs(leaf)));
    } else if constexpr (requires { value_of(leaf); }) {
      (*this)(value_of(leaf));
    }
  }
  double largest = 0;
};

// The sum of the squares of the leaves, divided by the square of the scale.
template <class T>
auto scaled_squares(const T& t, double scale) {
  leaf_number_t<T> sum(0);
  auto each = [&](const auto& leaf) {
    const auto part = leaf / scale;
    sum += part * part;
  };
  each_leaf(t, each);
  return sum;
}

}  // namespace internal

// Returns the square root of the sum of the squares of all leaves, over one or several tangents.
// The squares do not overflow or underflow, for float and double.
template <class... T>
requires(sizeof...(T) > 0 && !(internal::holds_other_leaf<T>() || ...))
    [[nodiscard]] auto global_norm(const T&... t) {
  using std::sqrt;
  internal::LargestLeaf size;
  (internal::each_leaf(t, size), ...);
  // If all squares stay in the range of float, no scale is needed.
  constexpr double kSafe = 0x1p40;
  const bool is_safe = size.largest < kSafe && size.largest > 1 / kSafe;
  if (is_safe || !(size.largest > 0) || std::isinf(size.largest)) return sqrt((dot(t, t) + ...));
  const double scale = std::exp2(std::floor(std::log2(size.largest)));
  return decltype(sqrt((dot(t, t) + ...)))(sqrt((internal::scaled_squares(t, scale) + ...)) *
                                           scale);
}
template <class T>
requires(!internal::holds_other_leaf<T>()) [[nodiscard]] auto norm(const T& t) {
  return global_norm(t);
}

template <internal::CompositeTangent T>
constexpr T& operator+=(T& a, const T& b) {
  accumulate(a, b);
  return a;
}
template <internal::CompositeTangent T>
[[nodiscard]] constexpr T operator+(T a, const T& b) {
  accumulate(a, b);
  return a;
}
template <internal::CompositeTangent T>
[[nodiscard]] constexpr T operator-(T a) {
  return scaled(std::move(a), -1);
}
template <internal::CompositeTangent T>
[[nodiscard]] constexpr T operator-(T a, T b) {
  accumulate(a, scaled(std::move(b), -1));
  return a;
}
template <internal::CompositeTangent T>
[[nodiscard]] constexpr T operator*(internal::tangent_factor_t<T> by, T t) {
  return scaled(std::move(t), by);
}
template <internal::CompositeTangent T>
[[nodiscard]] constexpr T operator*(T t, internal::tangent_factor_t<T> by) {
  return scaled(std::move(t), by);
}
template <internal::CompositeTangent T>
[[nodiscard]] constexpr T operator/(T t, internal::tangent_factor_t<T> by) {
  return map_leaves(std::move(t), [&by](auto leaf) { return leaf / by; });
}
template <internal::CompositeTangent T>
constexpr T& operator-=(T& a, const T& b) {
  accumulate(a, scaled(b, -1));
  return a;
}
template <internal::CompositeTangent T>
constexpr T& operator*=(T& t, internal::tangent_factor_t<T> by) {
  return t = scaled(std::move(t), by);
}
// Adds a number to each leaf.
template <internal::CompositeTangent T>
[[nodiscard]] constexpr T operator+(T t, internal::tangent_factor_t<T> by) {
  return map_leaves(std::move(t), [&by](auto leaf) { return leaf + by; });
}
template <internal::CompositeTangent T>
[[nodiscard]] constexpr T operator-(T t, internal::tangent_factor_t<T> by) {
  return map_leaves(std::move(t), [&by](auto leaf) { return leaf - by; });
}

// Moves several values at once, along a gradient with respect to several arguments:
//
//   move(std::tie(x, y), -0.1 * gradient(f, x, y));
template <class... X>
constexpr void move(std::tuple<X&...> x, const std::tuple<tangent_t<X>...>& by) {
  DifferentiableTraits<std::tuple<X&...>>::move(x, by);
}

// The functions of <cmath> on tangents, leaf by leaf: leafwise::sqrt(t). They have a namespace of
// their own, since programs pass tanh to a layer as its activation. The name tanh must then denote
// one function only.
namespace leafwise {
#define ETUDE_UNARY(fn, f, dx)                      \
  template <internal::Composite T>                  \
  [[nodiscard]] T f(T t) {                          \
    return map_leaves(std::move(t), [](auto leaf) { \
      using std::f;                                 \
      return f(leaf);                               \
    });                                             \
  }
#define ETUDE_BINARY(fn, f, da, db)
#define ETUDE_ROUNDING(fn, f) ETUDE_UNARY(fn, f, 0)
#include "etude/base/scalars/scalar_functions.inc"
template <internal::Composite T>
[[nodiscard]] constexpr T reciprocal(T t) {
  return map_leaves(std::move(t), [](auto leaf) { return 1.0 / leaf; });
}
}  // namespace leafwise

}  // namespace etude
