// SPDX-License-Identifier: Apache-2.0
// Tangents of plain structs, by reflection (fields.h), and of classes with ETUDE_FIELDS. A plain
// struct whose fields are their own tangents is its own tangent. Any other struct or class T has
// the tangent Tangent<T>. A field selects its slot: grads[&Dense::weight]. Used by
// differentiable.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "etude/base/fields.h"
#include "etude/diff/protocol.h"

namespace ETUDE_API etude {

template <class T>
struct Tangent;

namespace internal {

template <class T>
struct IsTangent : std::false_type {};
template <class T>
struct IsTangent<Tangent<T>> : std::true_type {};

// std::array is an aggregate, but is handled as a container.
template <class T>
struct IsArray : std::false_type {};
template <class T, std::size_t n>
struct IsArray<std::array<T, n>> : std::true_type {};

// Structs and classes with a synthesised tangent.
template <class T>
concept Struct = Reflectable<T> && !IsArray<T>::value && !IsTangent<T>::value && !Discrete<T> &&
                 kFieldsFault<T> == FieldsFault::kNone;

template <class T>
using FieldsOf = decltype(read_fields(std::declval<T&>()));

template <class Fields>
struct SlotsOf;
template <class... F>
struct SlotsOf<std::tuple<F&...>> {
  static constexpr bool have_tangents = (HasTangent<std::remove_const_t<F>> && ...);
  static constexpr bool are_own = [] {
    if constexpr (have_tangents) {
      return (std::is_same_v<tangent_t<F>, std::remove_const_t<F>> && ...);
    }
    return false;
  }();
};
template <class Fields>
struct SlotTuple;
template <class... F>
struct SlotTuple<std::tuple<F&...>> {
  using type = std::tuple<tangent_t<F>...>;
};

template <class Field>
struct SlotType {
  using type = tangent_t<Field>;
};
// The slots of a tangent: a tuple, or members with the names from ETUDE_FIELDS.
template <class T>
struct TupleOfSlots {
  typename SlotTuple<FieldsOf<T>>::type slots;
  constexpr auto& etude_slots() { return slots; }
  constexpr const auto& etude_slots() const { return slots; }
};
template <class T, bool is_listed>
struct SlotsBase {
  using type = TupleOfSlots<T>;
};
template <class T>
struct SlotsBase<T, true> {
  using type = typename decltype(FieldAccess::slots<T>())::type;
};

// A struct whose fields all have tangents.
template <class T>
concept StructOfTangents = Struct<T> && SlotsOf<FieldsOf<T>>::have_tangents;

// Whether T is its own tangent.
template <class T>
inline constexpr bool kIsOwnTangent = !kHasListedFields<T> && SlotsOf<FieldsOf<T>>::are_own;

// The field names of T in the form of ETUDE_FIELDS: "weight, bias".
template <class T>
struct SlotNames {
  static constexpr std::size_t n = field_count<T>();
  template <std::size_t... I>
  static constexpr std::size_t length(std::index_sequence<I...>) {
    return (std::size_t{0} + ... + (field_name<T, I>.size() + 2));
  }
  static constexpr std::size_t size = length(std::make_index_sequence<n>());
  static constexpr auto text = [] {
    std::array<char, size + 1> out{};
    std::size_t at = 0;
    const auto append = [&](std::string_view name) {
      at = static_cast<std::size_t>(std::copy(name.begin(), name.end(), out.begin() + at) -
                                    out.begin());
      out[at++] = ',';
      out[at++] = ' ';
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) { (append(field_name<T, I>), ...); }
    (std::make_index_sequence<n>());
    return out;
  }();
  static constexpr std::string_view view() { return {text.data(), n == 0 ? 0 : size - 2}; }
};

// Visits fields or slots. Instantiated once for all structs with the same field types.
template <class... X, class Fn>
constexpr void each_of(const std::tuple<X&...>& parts, Fn& fn) {
  [&]<std::size_t... I>(std::index_sequence<I...>) { (each_leaf(std::get<I>(parts), fn), ...); }
  (std::index_sequence_for<X...>());
}
template <class... X, class... U, class Fn>
constexpr void zip_of(const std::tuple<X&...>& values, const std::tuple<U&...>& tangents, Fn& fn) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (zip_leaves(std::get<I>(values), std::get<I>(tangents), fn), ...);
  }
  (std::index_sequence_for<X...>());
}
// Holds the tangents of the fields until the tangent of the struct is constructed. Part I is the
// base class Part<I, T>. One PartList is instantiated per struct, and a std::tuple would compile
// more slowly.
template <std::size_t, class T>
struct Part {
  T value;
};
template <class Indices, class... T>
struct PartList;
template <std::size_t... I, class... T>
struct PartList<std::index_sequence<I...>, T...> : Part<I, T>... {
  // Constructs a Made from the parts. A default construction would run the member initialisers of a
  // user's struct, which may be slow or draw random numbers.
  template <class Made>
  constexpr Made made() && {
    return Made{static_cast<Part<I, T>&&>(*this).value...};
  }
};
// Returns the tangents of the values, in order. Calls fn.enter() first and fn.leave() last, if they
// exist.
template <class... X, class Fn>
constexpr auto parts_of(const std::tuple<X&...>& values, Fn& fn) {
  if constexpr (requires { fn.enter(); }) fn.enter();
  auto parts = [&]<std::size_t... I>(std::index_sequence<I...> all) {
    return PartList<decltype(all), decltype(build_tangent(std::get<I>(values), fn))...>{
        {build_tangent(std::get<I>(values), fn)}...};
  }
  (std::index_sequence_for<X...>());
  if constexpr (requires { fn.leave(); }) fn.leave();
  return parts;
}
// Uninitialised storage for a T. Only the addresses of the fields are used.
template <class T>
union Place {
  constexpr Place() : empty() {}
  constexpr ~Place() {}
  char empty;
  T value;
};
template <class T>
inline Place<T> place;

}  // namespace internal

// The tangent of a struct T: one slot per field, in order. The slot of a field without a tangent is
// a NoTangent and cannot be accessed. If T lists its fields with ETUDE_FIELDS, the slots are
// members with the same names.
template <class T>
struct Tangent : internal::SlotsBase<T, internal::kHasListedFields<T>>::type {
  using Value = T;
  using Slots = typename internal::SlotTuple<internal::FieldsOf<T>>::type;
  using Base = typename internal::SlotsBase<T, internal::kHasListedFields<T>>::type;

  // Makes a tangent with one slot for each of `values`. The values are the fields of a struct or
  // the slots of a tangent.
  template <class Values, class Fn>
  static constexpr Tangent made_of(const Values& values, Fn& fn) {
    if constexpr (internal::kHasListedFields<T>) {
      return {internal::parts_of(values, fn).template made<Base>()};
    } else {
      return {Base{internal::parts_of(values, fn).template made<Slots>()}};
    }
  }
  template <class... U>
  static constexpr Tangent of_slots(U&&... slot) {
    if constexpr (internal::kHasListedFields<T>) {
      return {Base{std::forward<U>(slot)...}};
    } else {
      return {Base{Slots{std::forward<U>(slot)...}}};
    }
  }

  // The slot of a field: grads[&Dense::weight]. cost: one comparison per field of that type.
  template <class V>
  constexpr tangent_t<V>& operator[](V T::*field) {
    return *find(*this, field);
  }
  template <class V>
  constexpr const tangent_t<V>& operator[](V T::*field) const {
    return *find(*this, field);
  }

  // Traversals by name visit the tangent like the struct.
  using EtudeFieldsClass = Tangent;
  static constexpr std::string_view etude_field_names() { return internal::SlotNames<T>::view(); }
  constexpr auto etude_fields() {
    return std::apply([](auto&... slot) { return std::tie(slot...); }, this->etude_slots());
  }
  constexpr auto etude_fields() const {
    return std::apply([](const auto&... slot) { return std::tie(slot...); }, this->etude_slots());
  }

 private:
  template <class Self, class V>
  static constexpr auto find(Self& self, V T::*field) {
    static_assert(Differentiable<V>, "etude: this field carries no derivative, so it has no slot");
    std::conditional_t<std::is_const_v<Self>, const tangent_t<V>*, tangent_t<V>*> found = nullptr;
    auto& value = internal::place<T>.value;
    const V* wanted = &(value.*field);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      const auto compare = [&](const auto* candidate, auto& slot) {
        if constexpr (std::is_same_v<decltype(candidate), const V*>) {
          if (candidate == wanted) found = &slot;
        }
      };
      auto all = internal::read_fields(value);
      auto&& slots = self.etude_slots();
      (compare(std::addressof(std::get<I>(all)), std::get<I>(slots)), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<Slots>>());
    return found;
  }
};

// A struct that is its own tangent.
template <internal::StructOfTangents T>
requires internal::kIsOwnTangent<T>
struct DifferentiableTraits<T> : internal::MoveByLeaves<T, DifferentiableTraits<T>> {
  using Tangent = T;
  template <class Y, class Fn>
  static constexpr void each(Y& x, Fn& fn) {
    internal::each_of(internal::read_fields(x), fn);
  }
  template <class Fn>
  static constexpr T build(const T& x, Fn& fn) {
    return internal::parts_of(internal::read_fields(x), fn).template made<T>();
  }
  template <class Y, class U, class Fn>
  static constexpr void zip(Y& x, U& t, Fn& fn) {
    internal::zip_of(internal::read_fields(x), internal::read_fields(t), fn);
  }
};

template <internal::StructOfTangents T>
requires(!internal::kIsOwnTangent<T>) struct DifferentiableTraits<T>
    : internal::MoveByLeaves<T, DifferentiableTraits<T>> {
  using Tangent = etude::Tangent<T>;
  template <class Y, class Fn>
  static constexpr void each(Y& x, Fn& fn) {
    internal::each_of(internal::read_fields(x), fn);
  }
  template <class Fn>
  static constexpr Tangent build(const T& x, Fn& fn) {
    return Tangent::made_of(internal::read_fields(x), fn);
  }
  template <class Y, class U, class Fn>
  static constexpr void zip(Y& x, U& t, Fn& fn) {
    internal::zip_of(internal::read_fields(x), t.etude_fields(), fn);
  }
};

template <class T>
struct DifferentiableTraits<Tangent<T>>
    : internal::MoveByLeaves<Tangent<T>, DifferentiableTraits<Tangent<T>>> {
  using Tangent = etude::Tangent<T>;
  template <class Y, class Fn>
  static constexpr void each(Y& x, Fn& fn) {
    internal::each_of(x.etude_fields(), fn);
  }
  template <class Fn>
  static constexpr Tangent build(const Tangent& x, Fn& fn) {
    return Tangent::made_of(x.etude_fields(), fn);
  }
  template <class Y, class U, class Fn>
  static constexpr void zip(Y& x, U& t, Fn& fn) {
    internal::zip_of(x.etude_fields(), t.etude_fields(), fn);
  }
};

}  // namespace etude
