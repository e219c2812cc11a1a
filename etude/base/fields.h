// SPDX-License-Identifier: Apache-2.0
// The fields of a plain struct as a tuple of references, with their names, at compile time. Used by
// structure.h and all code that traverses user types: tangents, checkpoints, parameter groups,
// summaries. An aggregate without base classes and with at most 64 fields needs no annotation. Any
// other class lists its fields with ETUDE_FIELDS. Not a serialiser, and not for types that are
// leaves themselves (strings, containers, tensors).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "etude/base/internal/field_count.h"
#include "etude/version.h"

// Lists the fields of a class. The macro may be in any section of the class body:
//
//   class Dense {
//     Tensor weight_, bias_;
//     ETUDE_FIELDS(Dense, weight_, bias_);
//   };
//
// `Class` must be the class itself: a class derived from Dense does not inherit the list. The
// tangent of a class with ETUDE_FIELDS (diff/) has members with the same names.
#define ETUDE_FIELDS(Class, ...)                                                                \
  friend struct ::etude::internal::FieldAccess;                                                 \
  using EtudeFieldsClass = Class;                                                               \
  static constexpr std::string_view etude_field_names() { return #__VA_ARGS__; }                \
  template <class Ties = ::etude::internal::MemberTies>                                         \
  constexpr auto etude_fields()                                                                 \
      ETUDE_INTERNAL_MEMBERS(__VA_ARGS__) template <class Ties = ::etude::internal::MemberTies> \
      constexpr auto etude_fields()                                                             \
          const ETUDE_INTERNAL_MEMBERS(__VA_ARGS__) template <class Self>                       \
          struct EtudeSlots {                                                                   \
    ETUDE_INTERNAL_EACH(ETUDE_INTERNAL_SLOT, __VA_ARGS__)                                       \
    constexpr auto etude_slots() { return std::tie(__VA_ARGS__); }                              \
    constexpr auto etude_slots() const { return std::tie(__VA_ARGS__); }                        \
  };                                                                                            \
  static_assert(true, "")

// `this->` also finds members of a base that depends on a template parameter. Ties is a template
// parameter so that the tuples of a class are instantiated only when used. All layers together
// would instantiate a hundred tuples, a tenth of the compile time of etude/etude.h.
#define ETUDE_INTERNAL_MEMBERS(...) \
  { return Ties::of(0 ETUDE_INTERNAL_EACH(ETUDE_INTERNAL_MEMBER, __VA_ARGS__)); }
#define ETUDE_INTERNAL_MEMBER(name) , this->name
#define ETUDE_INTERNAL_SLOT(name) \
  typename ::etude::internal::SlotType<decltype(Self::name)>::type name{};
// Expands macro(name) for each name. Each rescan of EXPAND advances the list by one step.
#define ETUDE_INTERNAL_EACH(macro, ...) \
  __VA_OPT__(ETUDE_INTERNAL_EXPAND(ETUDE_INTERNAL_STEP(macro, __VA_ARGS__)))
#define ETUDE_INTERNAL_STEP(macro, name, ...) \
  macro(name) __VA_OPT__(ETUDE_INTERNAL_NEXT ETUDE_INTERNAL_PARENS(macro, __VA_ARGS__))
#define ETUDE_INTERNAL_NEXT() ETUDE_INTERNAL_STEP
#define ETUDE_INTERNAL_PARENS ()
#define ETUDE_INTERNAL_EXPAND(...) \
  ETUDE_INTERNAL_EXPAND16(ETUDE_INTERNAL_EXPAND16(ETUDE_INTERNAL_EXPAND16(__VA_ARGS__)))
#define ETUDE_INTERNAL_EXPAND16(...) \
  ETUDE_INTERNAL_EXPAND4(ETUDE_INTERNAL_EXPAND4(ETUDE_INTERNAL_EXPAND4(__VA_ARGS__)))
#define ETUDE_INTERNAL_EXPAND4(...) \
  ETUDE_INTERNAL_RESCAN(ETUDE_INTERNAL_RESCAN(ETUDE_INTERNAL_RESCAN(__VA_ARGS__)))
#define ETUDE_INTERNAL_RESCAN(...) __VA_ARGS__

// Lists host values of a class. If an object of the class is an argument of a staged function, its
// fields and its host values together identify it (stage/internal/arguments.h). The macro is
// equivalent to
//
//   auto host_values() const { return std::tie(stride_, activation_); }
//
// except that the tuple is instantiated only when used, so that headers with many layers compile
// faster.
#define ETUDE_HOST_VALUES(...)                          \
  template <class Ties = ::etude::internal::MemberTies> \
  auto host_values() const {                            \
    return Ties::of(0, __VA_ARGS__);                    \
  }                                                     \
  static_assert(true, "")

namespace ETUDE_API etude {
namespace internal {

// The type of a field's slot in the tangent of its class; defined in diff/aggregates.h.
template <class Field>
struct SlotType;

struct MemberTies {
  template <class... Field>
  static constexpr std::tuple<Field&...> of(int, Field&... field) {
    return std::tuple<Field&...>(field...);
  }
};

// Accesses the declarations of ETUDE_FIELDS and ETUDE_HOST_VALUES, even if they are private.
struct FieldAccess {
  // A function, not an alias: clang checks the access to a private member at each use of an alias.
  template <class T>
  static constexpr auto slots() {
    return std::type_identity<typename T::template EtudeSlots<T>>();
  }
  template <class T>
  static constexpr bool is_listed() {
    if constexpr (requires { typename T::EtudeFieldsClass; }) {
      return std::is_same_v<typename T::EtudeFieldsClass, T>;
    } else {
      return false;
    }
  }
  template <class T>
  static constexpr std::string_view names() {
    return T::etude_field_names();
  }
  template <class T>
  static constexpr auto fields(T& v) {
    return v.etude_fields();
  }
  template <class T>
  static constexpr bool has_host_values() {
    return requires(const T& v) { v.host_values(); };
  }
  template <class T>
  static constexpr auto host_values(const T& v) {
    return v.host_values();
  }
};

template <class T>
inline constexpr bool kHasListedFields = FieldAccess::is_listed<std::remove_const_t<T>>();

// Whether T is an aggregate, or a class with ETUDE_FIELDS. kFieldsFault reports whether fields()
// can read it.
template <class T>
concept Reflectable = kHasListedFields<T> ||(__is_class(T) && __is_aggregate(T));

// Takes the place of the fields of a struct that has a reference member.
struct ReferenceField {};

// Needs the declared types of the fields: the arguments do not show whether a field is a reference.
template <class... Declared, class... Field>
constexpr auto bind_fields(Field&... field) {
  if constexpr ((std::is_reference_v<Declared> || ...)) {
    return ReferenceField();
  } else {
    return std::tuple<Field&...>(field...);
  }
}

// As fields(), but without an error message, for callers that have checked kFieldsFault. Returns an
// empty tuple if the fields cannot be counted. Compilers instantiate read_fields() twice for each
// struct (const and not const), so it calls no further template.
template <class T>
constexpr auto read_fields(T& v) {
  constexpr std::size_t n = kHasListedFields<T> ? 0 : kFieldCount<std::remove_const_t<T>>.count;
  if constexpr (kHasListedFields<T>) {
    return FieldAccess::fields(v);
  } else if constexpr (n == 0) {
    return std::tuple<>();
  }
#include "etude/base/internal/fields_arms.inc"
}

// Returns the reason why fields() cannot read a T, or kNone. Prints no message: callers explain the
// reason.
template <class T>
constexpr FieldsFault find_fields_fault() {
  if constexpr (kHasListedFields<T>) {
    return FieldsFault::kNone;
  } else if constexpr (kFieldCount<T>.fault != FieldsFault::kNone) {
    return kFieldCount<T>.fault;
  } else {
    return std::is_same_v<decltype(read_fields(std::declval<T&>())), ReferenceField>
               ? FieldsFault::kReference
               : FieldsFault::kNone;
  }
}
template <class T>
inline constexpr FieldsFault kFieldsFault = find_fields_fault<std::remove_const_t<T>>();

// Returns references to the fields of v, in order of declaration. The references are const if v is
// const.
//
// throws: a compile-time error with the remedy if the fields of T cannot be read.
// cost: none at run time.
template <class T>
constexpr auto fields(T& v) {
  if constexpr (kFieldsFault<T> != FieldsFault::kNone) {
    static_cast<void>(sizeof(FieldsNotVisible<std::remove_const_t<T>, kFieldsFault<T>>));
    return std::tuple<>();
  } else {
    return read_fields(v);
  }
}

// The number of fields of T.
//
// throws: as fields.
template <class T>
constexpr std::size_t field_count() {
  return std::tuple_size_v<decltype(fields(std::declval<std::remove_const_t<T>&>()))>;
}

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#pragma clang diagnostic ignored "-Wundefined-internal"
#endif

// `sample` is never defined, since only addresses of its fields are formed.
template <class T>
struct Sample {
  T value;
};
template <class T>
extern Sample<T> sample;

template <class P>
struct Address {
  P p;
};
template <class P>
Address(P) -> Address<P>;

inline constexpr std::string_view kIdentifierChars =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

// Returns the name of the field that A points to: the last identifier in the name of this function,
// "... Dense::bias)}]" for g++ and "... value.bias}]" for clang.
template <auto A>
consteval auto last_identifier() {
  std::string_view text = __PRETTY_FUNCTION__;
  const std::size_t last = text.find_last_of(kIdentifierChars);
  const std::size_t before = text.find_last_not_of(kIdentifierChars, last);
  return text.substr(before + 1, last - before);
}

// Returns the length up to the next comma. Uses a loop, since find() of one character is not a
// constant expression with the undefined behaviour sanitizer of g++ 12.
consteval std::size_t entry_size(std::string_view list) {
  std::size_t size = 0;
  while (size < list.size() && list[size] != ',') ++size;
  return size;
}

// Returns the entry at `index` of a list such as "weight_, bias_".
consteval std::string_view listed_name(std::string_view list, std::size_t index) {
  for (; index > 0; --index) list.remove_prefix(entry_size(list) + 1);
  list = list.substr(0, entry_size(list));
  list.remove_prefix(list.find_first_of(kIdentifierChars));
  return list.substr(0, list.find_last_of(kIdentifierChars) + 1);
}

// Returns the name of field I of T, as in the source. With ETUDE_FIELDS, a last '_' is removed: the
// name of weight_ is "weight".
template <class T, std::size_t I>
consteval std::string_view find_field_name() {
  if constexpr (kHasListedFields<T>) {
    std::string_view name = listed_name(FieldAccess::names<T>(), I);
    if (name.size() > 1 && name.ends_with('_')) name.remove_suffix(1);
    return name;
  } else {
    return last_identifier<Address{&std::get<I>(fields(sample<T>.value))}>();
  }
}

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

template <class T, std::size_t I>
inline constexpr std::string_view field_name = find_field_name<std::remove_const_t<T>, I>();

}  // namespace internal
}  // namespace etude
