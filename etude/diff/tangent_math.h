// SPDX-License-Identifier: Apache-2.0
// Tangents as vectors: sums, multiples and access by field, for every tangent type. The operators
// are for tangents of structs; numbers and tensors have their own. Used by differentiable.h.
#pragma once

#include <cstddef>
#include <utility>

#include "etude/diff/aggregates.h"
#include "etude/diff/containers.h"
#include "etude/diff/protocol.h"

namespace ETUDE_API etude {
namespace internal {

// Tangents of structs: those that have no operators of their own.
template <class T>
concept StructTangent = IsTangent<T>::value ||(StructOfTangents<T>&& kIsOwnTangent<T>);

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#endif

// The number of the field that `field` points to.
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

}  // namespace internal

// The slot of a field, found at compile time, whatever the tangent type is: get<&Dense::bias>(g).
template <auto field, internal::StructTangent G>
constexpr auto& get(G& grads) {
  if constexpr (internal::IsTangent<G>::value) {
    using Slot = std::tuple_element_t<internal::FieldIndex<field>::value, typename G::Slots>;
    static_assert(!std::is_same_v<Slot, NoTangent>,
                  "etude: this field carries no derivative, so it has no slot");
    return std::get<internal::FieldIndex<field>::value>(grads.slots);
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
// throws: kInvalidArgument where lengths or shapes differ.
template <class T>
constexpr void accumulate(T& into, const T& from) {
  etude::move(into, from);
}

// t times a number, leaf by leaf; in place where t was moved in.
template <class T>
[[nodiscard]] constexpr T scaled(T t, double by) {
  auto each = [by](auto& leaf) {
    leaf = static_cast<std::remove_reference_t<decltype(leaf)>>(std::move(leaf) * by);
  };
  internal::each_leaf(t, each);
  return t;
}

template <internal::StructTangent T>
constexpr T& operator+=(T& a, const T& b) {
  accumulate(a, b);
  return a;
}
template <internal::StructTangent T>
[[nodiscard]] constexpr T operator+(T a, const T& b) {
  accumulate(a, b);
  return a;
}
template <internal::StructTangent T>
[[nodiscard]] constexpr T operator-(T a) {
  return scaled(std::move(a), -1);
}
template <internal::StructTangent T>
[[nodiscard]] constexpr T operator-(T a, T b) {
  accumulate(a, scaled(std::move(b), -1));
  return a;
}
template <internal::StructTangent T>
[[nodiscard]] constexpr T operator*(double by, T t) {
  return scaled(std::move(t), by);
}
template <internal::StructTangent T>
[[nodiscard]] constexpr T operator*(T t, double by) {
  return scaled(std::move(t), by);
}

}  // namespace etude
