// SPDX-License-Identifier: Apache-2.0
// Counts the fields of a plain struct by trying how many values its braces take, and finds out
// which kind of struct cannot be counted. Part of fields.h, and for it only. The way is that of
// Boost.PFR; C arrays, which take a value for each element, and the check for base classes are
// ours.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "etude/base/field_faults.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

inline constexpr std::size_t kMaxFields = 64;  // as MAX_FIELDS in tools/generate/gen_fields.py

// Converts to the type of any field of Owner, never to Owner itself or to a base of it. The bodies
// are there because constructor templates of fields (std::optional) name them; nothing calls them.
// Owners are asked of the compiler: std::is_base_of would be a class for each struct.
template <class Owner>
struct AnyField {
  template <class T>
  requires(!__is_base_of(T, Owner)) constexpr operator T&()
      const& noexcept {  // NOLINT(google-explicit-constructor): that is its use
    __builtin_unreachable();
  }
  template <class T>
  requires(!__is_base_of(T, Owner)) constexpr operator T&&()
      const&& noexcept {  // NOLINT(google-explicit-constructor): as above
    __builtin_unreachable();
  }
};

// Converts to the bases of Owner only.
template <class Owner>
struct AnyBase {
  template <class T>
  requires(__is_base_of(T, Owner) && !std::is_same_v<T, Owner>) constexpr operator T&&()
      const&& noexcept {  // NOLINT(google-explicit-constructor): as above
    __builtin_unreachable();
  }
};

struct NoField {};  // converts to nothing

// What takes the place of value I of n in the braces of a T. One value alone may be taken for a
// copy of T; of more the first can only be taken for a base, and has_base() is asked before. So
// these are of one type for all T: compilers then look for a conversion once.
template <bool is_alone>
struct OwnerOfValues {
  template <class>
  using of = void;
};
template <>
struct OwnerOfValues<true> {
  template <class T>
  using of = T;
};
template <class T, std::size_t n, std::size_t>
using AnyFieldAt = AnyField<typename OwnerOfValues<(n < 2)>::template of<T>>;

// Whether T can be initialised from n values of any type.
template <class T, std::size_t... I>
constexpr bool takes_values(std::index_sequence<I...>) {
  return requires { T{AnyFieldAt<T, sizeof...(I), I>{}...}; };
}

// Whether T can be initialised from values, one braced list of values, and values again.
template <class T, std::size_t... Before, std::size_t... Inside, std::size_t... After>
constexpr bool takes_braced(std::index_sequence<Before...>, std::index_sequence<Inside...>,
                            std::index_sequence<After...>) {
  constexpr std::size_t n = sizeof...(Before) + sizeof...(Inside) + sizeof...(After);
  return requires {
    T{AnyFieldAt<T, n, Before>{}..., {AnyFieldAt<T, n, Inside>{}...}, AnyFieldAt<T, n, After>{}...};
  };
}

// The largest number of values that T takes, at most `kMaxFields + 1`. A field without a default
// makes T take no fewer values than reach it, so numbers below the first accepted one are skipped.
template <class T, std::size_t n = 0, bool found = false>
constexpr std::size_t count_values() {
  constexpr bool takes = takes_values<T>(std::make_index_sequence<n>());
  if constexpr (found && !takes) {
    return n - 1;
  } else if constexpr (n > kMaxFields) {
    return takes ? n : 0;
  } else {
    return count_values<T, n + 1, takes>();
  }
}

// The number of fields of one size, as numbers or pointers, that fit into a T; 0: too few or many
// to guess by.
template <class T>
inline constexpr std::size_t kGuess = sizeof(T) / alignof(T) > 2 &&
                                              sizeof(T) / alignof(T) < kMaxFields
                                          ? sizeof(T) / alignof(T)
                                          : 0;

// count_values() with fewer questions where the guess is right.
template <class T>
constexpr std::size_t count_values_guessed() {
  if constexpr (kGuess<T> == 0) {
    return count_values<T>();
  } else if constexpr (takes_values<T>(std::make_index_sequence<kGuess<T>>()) &&
                       !takes_values<T>(std::make_index_sequence<kGuess<T> + 1>())) {
    return kGuess<T>;
  } else {
    return count_values<T>();
  }
}

template <class T>
constexpr bool has_base() {
  return requires { T{AnyBase<T>{}}; }
  &&!requires { T{NoField{}}; };
}

// A C array takes one value per element, but only one braced list. `count` is count_values<T>().
template <class T, std::size_t count, std::size_t at, std::size_t inside = 0>
constexpr bool is_c_array_at() {
  if constexpr (at + inside > count) {
    return false;
  } else if constexpr (takes_braced<T>(std::make_index_sequence<at>(),
                                       std::make_index_sequence<inside>(),
                                       std::index_sequence<>())) {
    return !takes_braced<T>(std::make_index_sequence<at>(), std::make_index_sequence<inside>(),
                            std::make_index_sequence<count - at - 1>());
  } else {
    return is_c_array_at<T, count, at, inside + 1>();
  }
}

// Whether T takes a braced value for each value: then none of them is an element of an array. One
// question for most structs, where field by field takes the compiler a dozen.
template <class T, std::size_t... I>
constexpr bool takes_each_braced(std::index_sequence<I...>) {
  return requires { T{{AnyFieldAt<T, sizeof...(I), I>{}}...}; };
}

template <class T, std::size_t count, std::size_t at = 0>
constexpr bool has_c_array() {
  if constexpr (at >= count) {
    return false;
  } else if constexpr (at == 0 && takes_each_braced<T>(std::make_index_sequence<count>())) {
    return false;
  } else if constexpr (is_c_array_at<T, count, at>()) {
    return true;
  } else {
    return has_c_array<T, count, at + 1>();
  }
}

// The number of braced values that T takes, which is that of its fields where each takes one; 0
// where a further one follows that takes a value only.
template <class T, std::size_t n = 0, bool found = false>
constexpr std::size_t count_braced() {
  constexpr bool takes = takes_each_braced<T>(std::make_index_sequence<n>());
  if constexpr (found && !takes) {
    return n - 1;
  } else if constexpr (n > kMaxFields) {
    return takes ? n : 0;
  } else {
    return count_braced<T, n + 1, takes>();
  }
}
template <class T, std::size_t... I>
constexpr bool takes_value_after_braced(std::index_sequence<I...>) {
  return requires { T{{AnyFieldAt<T, sizeof...(I) + 1, I>{}}..., AnyField<T>{}}; };
}
// The elements of the C array at `at`: behind its braces so many values fewer follow.
template <class T, std::size_t count, std::size_t at, std::size_t inside = 0, std::size_t n = 1>
constexpr std::size_t c_array_size() {
  if constexpr (at + n >= count || at + inside > count) {
    return count - at;
  } else if constexpr (!takes_braced<T>(std::make_index_sequence<at>(),
                                        std::make_index_sequence<inside>(),
                                        std::index_sequence<>())) {
    return c_array_size<T, count, at, inside + 1, n>();
  } else if constexpr (takes_braced<T>(std::make_index_sequence<at>(),
                                       std::make_index_sequence<inside>(),
                                       std::make_index_sequence<count - at - n>())) {
    return n;
  } else {
    return c_array_size<T, count, at, inside, n + 1>();
  }
}
template <class T, std::size_t count, std::size_t at = 0, std::size_t fields = 0>
constexpr std::size_t count_by_arrays() {
  if constexpr (at >= count) {
    return fields;
  } else if constexpr (is_c_array_at<T, count, at>()) {
    return count_by_arrays<T, count, at + c_array_size<T, count, at>(), fields + 1>();
  } else {
    return count_by_arrays<T, count, at + 1, fields + 1>();
  }
}
// The fields of a T with C arrays, which takes `count` values; 0 if that is not found out.
template <class T, std::size_t count>
constexpr std::size_t count_with_arrays() {
  constexpr std::size_t kBraced = count_braced<T>();
  if constexpr (kBraced <= kMaxFields &&
                !takes_value_after_braced<T>(std::make_index_sequence<kBraced>())) {
    return kBraced;
  } else if constexpr (count <= kMaxFields) {
    return count_by_arrays<T, count>();
  } else {
    return 0;
  }
}

// Whether a field follows the ones that take values, which can be neither copied nor moved.
template <class T, std::size_t... I>
constexpr bool has_immovable_after(std::index_sequence<I...>) {
  return requires { T{AnyFieldAt<T, sizeof...(I) + 1, I>{}..., {}}; };
}

// The number of fields of a T, or why it has none to read. Whether one of them is a reference, only
// bound fields show: fields.h.
struct FieldCount {
  std::size_t count = 0;
  FieldsFault fault = FieldsFault::kNone;
};
template <class T, std::size_t count>
constexpr FieldCount count_unless_immovable() {
  if constexpr (has_immovable_after<T>(std::make_index_sequence<count>())) {
    return {0, FieldsFault::kImmovable};
  } else {
    return {count, FieldsFault::kNone};
  }
}
template <class T>
constexpr FieldCount find_field_count() {
  if constexpr (!__is_class(T) || !__is_aggregate(T)) {
    return {0, FieldsFault::kClass};
  } else if constexpr (has_base<T>()) {
    return {0, FieldsFault::kBase};
  } else if constexpr (kGuess<T> > 0 &&
                       takes_each_braced<T>(std::make_index_sequence<kGuess<T>>()) &&
                       !takes_values<T>(std::make_index_sequence<kGuess<T> + 1>())) {
    // So many take a braced value each, so that none of them is an array, and no value follows:
    // most structs need no further question.
    return count_unless_immovable<T, kGuess<T>>();
  } else {
    constexpr std::size_t kCount = count_values_guessed<T>();
    if constexpr (has_c_array<T, kCount>()) {
      constexpr std::size_t kWithArrays = count_with_arrays<T, kCount>();
      return {kWithArrays, kWithArrays > 0 ? FieldsFault::kNone : FieldsFault::kArray};
    } else if constexpr (kCount > kMaxFields) {
      return {0, FieldsFault::kTooMany};
    } else {
      return count_unless_immovable<T, kCount>();
    }
  }
}
template <class T>
inline constexpr FieldCount kFieldCount = find_field_count<T>();

}  // namespace internal
}  // namespace etude
