// SPDX-License-Identifier: Apache-2.0
// Counts the fields of a plain struct by the number of initialisers that its braces accept, and
// classifies structs that cannot be counted. Part of fields.h only. The method is from Boost.PFR;
// the handling of C arrays, which accept one initialiser per element, and the check for base
// classes are our own.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "etude/base/internal/field_faults.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

inline constexpr std::size_t kMaxFields = 64;  // as MAX_FIELDS in tools/generate/gen_fields.py

// Converts to the type of any field of Owner, but not to Owner or its bases. The conversions have
// bodies because constructor templates of fields (std::optional) need them; they are never called.
// Uses compiler builtins: std::is_base_of would instantiate a class for each struct.
template <class Owner>
struct AnyField {
  template <class T>
  requires(!__is_base_of(T, Owner)) constexpr operator T&() const& noexcept {
    __builtin_unreachable();
  }
  template <class T>
  requires(!__is_base_of(T, Owner)) constexpr operator T&&() const&& noexcept {
    __builtin_unreachable();
  }
};

// Converts to the bases of Owner only.
template <class Owner>
struct AnyBase {
  template <class T>
  requires(__is_base_of(T, Owner) && !std::is_same_v<T, Owner>) constexpr operator T&&()
      const&& noexcept {
    __builtin_unreachable();
  }
};

struct NoField {};  // converts to nothing

// The Owner for initialiser I of n of a T. A single initialiser could convert to a copy of T. Of
// several initialisers only the first could convert to a base, and has_base() has excluded that. So
// for n > 1 the type is the same for all T, and compilers search for a conversion once.
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

// Whether T can be initialised with n values of any type.
template <class T, std::size_t... I>
constexpr bool takes_values(std::index_sequence<I...>) {
  return requires { T{AnyFieldAt<T, sizeof...(I), I>{}...}; };
}

// Whether T can be initialised with values, a braced list of values, and more values.
template <class T, std::size_t... Before, std::size_t... Inside, std::size_t... After>
constexpr bool takes_braced(std::index_sequence<Before...>, std::index_sequence<Inside...>,
                            std::index_sequence<After...>) {
  constexpr std::size_t n = sizeof...(Before) + sizeof...(Inside) + sizeof...(After);
  return requires {
    T{AnyFieldAt<T, n, Before>{}..., {AnyFieldAt<T, n, Inside>{}...}, AnyFieldAt<T, n, After>{}...};
  };
}

// The largest number of initialisers that T accepts, at most `kMaxFields + 1`. Fields without a
// default initialiser set a minimum, so numbers before the first accepted number are skipped.
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

// The guessed number of fields: as many as fit into a T if all are numbers or pointers of one size.
// 0 if the number is too small or too large for a guess.
template <class T>
inline constexpr std::size_t kGuess = sizeof(T) / alignof(T) > 2 &&
                                              sizeof(T) / alignof(T) < kMaxFields
                                          ? sizeof(T) / alignof(T)
                                          : 0;

// count_values(), with fewer instantiations if the guess is right.
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

// A C array accepts one initialiser per element, but only one braced list. `count` is
// count_values<T>().
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

// Whether every initialiser of T may be a braced list: then none initialises an array element. One
// test for most structs, where a test for each field would be a dozen times slower.
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

// The number of braced initialisers that T accepts: its number of fields, if each accepts braces. 0
// if another field follows that accepts only a plain value.
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
// The size of the C array at `at`: with the array in braces, correspondingly fewer initialisers
// follow.
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
// The number of fields of a T with C arrays, which accepts `count` initialisers; 0 if it cannot be
// determined.
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

// Whether the counted fields are followed by a field that can be neither copied nor moved.
template <class T, std::size_t... I>
constexpr bool has_immovable_after(std::index_sequence<I...>) {
  return requires { T{AnyFieldAt<T, sizeof...(I) + 1, I>{}..., {}}; };
}

// The number of fields of a T, or the reason why they cannot be read. References are detected
// later, on bound fields: fields.h.
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
    // That many fields accept a braced value each, so none of them is an array, and no value
    // follows: most structs need no further test.
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
