// SPDX-License-Identifier: Apache-2.0
// Tangents of the standard containers: the same container with tangents as elements. Used by
// differentiable.h.
#pragma once

#include <array>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "etude/diff/protocol.h"

namespace ETUDE_API etude {
namespace internal {

template <class... T>
concept SomeMove = (HasTangent<T> && ...) && (!Discrete<std::remove_cvref_t<T>> || ...);

// Traversals of sequences with one element type. A sequence with operator[] is visited by index.
// `Leaves` adds build().
template <class X, class Leaves>
struct SequenceTraits : MoveByLeaves<X, Leaves> {
  template <class Y, class Fn>
  static constexpr void each(Y& x, Fn& fn) {
    for (auto& element : x) each_leaf(element, fn);
  }
  template <class Y, class U, class Fn>
  static constexpr void zip(Y& x, U& t, Fn& fn) {
    if (std::size(x) != t.size()) throw_tangent_length(std::size(x), t.size());
    if constexpr (requires { x[t.size()]; }) {
      for (std::size_t i = 0; i < t.size(); ++i) zip_leaves(x[i], t[i], fn);
    } else {
      auto tangent = t.begin();
      for (auto& element : x) zip_leaves(element, *tangent++, fn);
    }
  }
};

template <class X, class T, class Out>
struct ListTraits : SequenceTraits<X, ListTraits<X, T, Out>> {
  using Tangent = Out;
  template <class Fn>
  static constexpr Out build(const X& x, Fn& fn) {
    Out out;
    if constexpr (requires { out.reserve(x.size()); }) out.reserve(x.size());
    for (const T& element : x) out.push_back(build_tangent(element, fn));
    return out;
  }
};

// The container X with element type T. T replaces the first template argument of X.
template <class X, class T>
struct ContainerOf;
template <template <class...> class C, class Old, class... Rest, class T>
struct ContainerOf<C<Old, Rest...>, T> {
  using type =
      typename std::conditional_t<std::is_same_v<Old, T>, std::type_identity<C<Old, Rest...>>,
                                  std::type_identity<C<T>>>::type;
};

template <class X>
struct ValarrayTraits : SequenceTraits<X, ValarrayTraits<X>> {
  using Tangent = typename ContainerOf<X, tangent_t<typename X::value_type>>::type;
  template <class Fn>
  static Tangent build(const X& x, Fn& fn) {
    Tangent out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = build_tangent(x[i], fn);
    return out;
  }
};

// For arrays, the tangent is constructed from all elements at once.
template <class X, class T, std::size_t n>
struct ArrayTraits : SequenceTraits<X, ArrayTraits<X, T, n>> {
  using Tangent = std::array<tangent_t<T>, n>;
  template <class Fn>
  static constexpr Tangent build(const X& x, Fn& fn) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return Tangent{build_tangent(x[I], fn)...};
    }
    (std::make_index_sequence<n>());
  }
};

// Pairs and tuples, including tuples of references.
template <class X, class Out>
struct TupleTraits : MoveByLeaves<X, TupleTraits<X, Out>> {
  using Tangent = Out;
  template <class Y, class Fn>
  static constexpr void each(Y& x, Fn& fn) {
    std::apply([&](auto&... part) { (each_leaf(part, fn), ...); }, x);
  }
  template <class Fn>
  static constexpr Out build(const X& x, Fn& fn) {
    return std::apply([&](const auto&... part) { return Out{build_tangent(part, fn)...}; }, x);
  }
  template <class Y, class U, class Fn>
  static constexpr void zip(Y& x, U& t, Fn& fn) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (zip_leaves(std::get<I>(x), std::get<I>(t), fn), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<X>>());
  }
};

}  // namespace internal

template <internal::SomeMove T, class A>
struct DifferentiableTraits<std::vector<T, A>>
    : internal::ListTraits<std::vector<T, A>, T, std::vector<tangent_t<T>>> {};
template <internal::SomeMove T, class A>
struct DifferentiableTraits<std::deque<T, A>>
    : internal::ListTraits<std::deque<T, A>, T, std::deque<tangent_t<T>>> {};

template <internal::GrowingSequence X>
requires internal::SomeMove<typename X::value_type>
struct DifferentiableTraits<X>
    : internal::ListTraits<
          X, typename X::value_type,
          typename internal::ContainerOf<X, tangent_t<typename X::value_type>>::type> {
};
template <internal::Valarray X>
requires internal::SomeMove<typename X::value_type>
struct DifferentiableTraits<X> : internal::ValarrayTraits<X> {
};

// A view of elements that are not differentiable has no tangent. A view of differentiable elements
// is refused, since a pullback may outlive the viewed memory.
namespace internal {
template <class T, std::size_t n>
struct PartTypes<std::span<T, n>> {
  using Types = TypeList<std::remove_const_t<T>>;
};
}  // namespace internal

// The tangent of a C array is a std::array, since a std::array can be copied.
template <internal::SomeMove T, std::size_t n>
struct DifferentiableTraits<T[n]> : internal::ArrayTraits<T[n], T, n> {};
template <internal::SomeMove T, std::size_t n>
struct DifferentiableTraits<std::array<T, n>> : internal::ArrayTraits<std::array<T, n>, T, n> {};

template <class... T>
requires internal::SomeMove<T...>
struct DifferentiableTraits<std::tuple<T...>>
    : internal::TupleTraits<std::tuple<T...>, std::tuple<tangent_t<T>...>> {
};

template <class A, class B>
requires internal::SomeMove<A, B>
struct DifferentiableTraits<std::pair<A, B>>
    : internal::TupleTraits<std::pair<A, B>, std::pair<tangent_t<A>, tangent_t<B>>> {
};

// An empty optional has an empty tangent.
template <internal::SomeMove T>
struct DifferentiableTraits<std::optional<T>>
    : internal::MoveByLeaves<std::optional<T>, DifferentiableTraits<std::optional<T>>> {
  using Tangent = std::optional<tangent_t<T>>;
  template <class Y, class Fn>
  static constexpr void each(Y& x, Fn& fn) {
    if (x) internal::each_leaf(*x, fn);
  }
  template <class Fn>
  static constexpr Tangent build(const std::optional<T>& x, Fn& fn) {
    return x ? Tangent(internal::build_tangent(*x, fn)) : Tangent();
  }
  // An empty tangent moves nothing.
  template <class Y, class U, class Fn>
  static constexpr void zip(Y& x, U& t, Fn& fn) {
    if (t && !x) internal::throw_tangent_holds();
    if (t) internal::zip_leaves(*x, *t, fn);
  }
};

namespace internal {

// The tangent may lack keys of the map. The values of the missing keys do not move.
template <class X, class Out>
struct MapTraits : MoveByLeaves<X, MapTraits<X, Out>> {
  using Tangent = Out;
  template <class Y, class Fn>
  static constexpr void each(Y& x, Fn& fn) {
    for (auto& entry : x) internal::each_leaf(entry.second, fn);
  }
  template <class Fn>
  static constexpr Tangent build(const X& x, Fn& fn) {
    Tangent out;
    for (const auto& [key, value] : x) out.emplace(key, internal::build_tangent(value, fn));
    return out;
  }
  template <class Y, class U, class Fn>
  static constexpr void zip(Y& x, U& t, Fn& fn) {
    for (const auto& entry : t) {
      if (x.find(entry.first) == x.end()) throw_tangent_key(key_text(entry.first));
    }
    for (auto& [key, value] : x) {  // in the order of each()
      const auto found = t.find(key);
      if (found != t.end()) zip_leaves(value, found->second, fn);
    }
  }
};

}  // namespace internal

template <class Key, internal::SomeMove T, class C, class A>
struct DifferentiableTraits<std::map<Key, T, C, A>>
    : internal::MapTraits<std::map<Key, T, C, A>, std::map<Key, tangent_t<T>, C>> {};
template <class Key, internal::SomeMove T, class H, class E, class A>
struct DifferentiableTraits<std::unordered_map<Key, T, H, E, A>>
    : internal::MapTraits<std::unordered_map<Key, T, H, E, A>,
                          std::unordered_map<Key, tangent_t<T>, H, E>> {};

// The tangent holds the same alternative as the value.
template <class... T>
requires internal::SomeMove<T...>
struct DifferentiableTraits<std::variant<T...>>
    : internal::MoveByLeaves<std::variant<T...>, DifferentiableTraits<std::variant<T...>>> {
  using X = std::variant<T...>;
  using Tangent = std::variant<tangent_t<T>...>;
  template <class Y, class Fn>
  static constexpr void each(Y& x, Fn& fn) {
    std::visit([&](auto& held) { internal::each_leaf(held, fn); }, x);
  }
  template <class Fn>
  static constexpr Tangent build(const X& x, Fn& fn) {
    return build_at<0>(x, fn);
  }
  template <class Y, class U, class Fn>
  static constexpr void zip(Y& x, U& t, Fn& fn) {
    if (x.index() != t.index()) internal::throw_tangent_holds();
    at_index(x, [&]<std::size_t i>() { internal::zip_leaves(std::get<i>(x), std::get<i>(t), fn); });
  }

 private:
  // Constructs, in place, the tangent of the alternative that x holds. The index of the alternative
  // is at least i.
  template <std::size_t i, class Fn>
  static constexpr Tangent build_at(const X& x, Fn& fn) {
    if constexpr (i + 1 < sizeof...(T)) {
      if (x.index() != i) return build_at<i + 1>(x, fn);
    }
    return Tangent(std::in_place_index<i>, internal::build_tangent(std::get<i>(x), fn));
  }
  template <class Fn>
  static constexpr void at_index(const X& x, Fn&& fn) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((x.index() == I ? fn.template operator()<I>() : void()), ...);
    }
    (std::index_sequence_for<T...>());
  }
};

}  // namespace etude
