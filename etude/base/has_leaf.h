// SPDX-License-Identifier: Apache-2.0
// HasLeaf: whether a structure type can hold a leaf of a given type, decided at compile time.
// NoDerivative: a wrapper that hides a field from most traversals. Used by structure.h, and by
// templates that accept "a structure of tensors". PartTypes lists the containers that structure.h
// traverses.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "etude/base/fields.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Wraps a value without a derivative. Traversals skip the value, except with Marked::kVisit.
template <class T>
struct NoDerivative {
  T value{};
  constexpr operator const T&() const { return value; }
};

// Whether a traversal visits NoDerivative fields.
enum class Marked { kSkip, kVisit };

namespace internal {

// The leaf type with which for_each_struct visits all structs.
struct EveryStruct;

template <class T, class... Types>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Types> || ...);

// The types of the direct parts of a T.
template <class... Types>
struct TypeList {};

// GrowingSequence (std::list and similar containers) and Valarray recognise containers by their
// operations. So this header does not include the headers of these containers, and it accepts
// containers of other libraries.
template <class T>
concept GrowingSequence = requires(T& x, typename T::value_type& element) {
  typename T::allocator_type;
  x.push_back(element);
  x.begin();
};
template <class T>
concept Valarray = requires(T& x) {
  typename T::value_type;
  x.cshift(1);
  x[x.size()];
};

template <class... F>
TypeList<std::remove_const_t<F>...> types_of(std::tuple<F&...>*);

// Whether T is a struct whose fields cannot be read. Such a struct has no parts.
template <class T>
constexpr bool is_hidden_struct() {
  if constexpr (!GrowingSequence<T> && !Valarray<T> && Reflectable<T>) {
    return kFieldsFault<T> != FieldsFault::kNone;
  }
  return false;
}
template <class T>
struct PartTypes {
  static constexpr bool is_hidden = is_hidden_struct<T>();
  static constexpr auto find() {
    if constexpr (GrowingSequence<T> || Valarray<T>) {
      return TypeList<typename T::value_type>();
    } else if constexpr (Reflectable<T> && !is_hidden) {
      return decltype(types_of(static_cast<decltype(read_fields(std::declval<T&>()))*>(nullptr)))();
    } else {
      return TypeList<>();
    }
  }
  using Types = decltype(find());
};
template <class T, class A>
struct PartTypes<std::vector<T, A>> {
  using Types = TypeList<T>;
};
template <class A>
struct PartTypes<std::vector<bool, A>> {  // holds no bool objects
  using Types = TypeList<>;
};
template <class T, class A>
struct PartTypes<std::deque<T, A>> {
  using Types = TypeList<T>;
};
template <class T, std::size_t n>
struct PartTypes<std::array<T, n>> {
  using Types = TypeList<T>;
};
template <class T, std::size_t n>
struct PartTypes<T[n]> {
  using Types = TypeList<std::remove_const_t<T>>;
};
template <class T>
struct PartTypes<std::optional<T>> {
  using Types = TypeList<T>;
};
template <class T, class C, class A>
struct PartTypes<std::map<std::string, T, C, A>> {
  using Types = TypeList<T>;
};
template <class T, class H, class E, class A>
struct PartTypes<std::unordered_map<std::string, T, H, E, A>> {
  using Types = TypeList<T>;
};
template <class... T>
struct PartTypes<std::tuple<T...>> {
  using Types = TypeList<T...>;
};
template <class A, class B>
struct PartTypes<std::pair<A, B>> {
  using Types = TypeList<A, B>;
};
template <class... T>
struct PartTypes<std::variant<T...>> {
  using Types = TypeList<T...>;
};

template <class T>
struct IsNoDerivative : std::false_type {};
template <class T>
struct IsNoDerivative<NoDerivative<T>> : std::true_type {};

// A Kind describes the leaves that a search looks for. Kind::is<T>: whether a T is such a leaf.
// Kind::explains: whether a struct with unreadable fields is a compile-time error. If it is false,
// the search treats such a struct as empty. Exactly<Leaf>: the leaves of type Leaf.
template <class Leaf>
struct Exactly {
  static constexpr bool explains = true;
  template <class T>
  static constexpr bool is = std::is_same_v<T, Leaf>;
};
template <>
struct Exactly<EveryStruct> {
  static constexpr bool explains = true;
  template <class T>
  static constexpr bool is = Reflectable<T>;
};

// Whether a traversal can find a leaf of this Kind in a T. `Open` are the types that enclose T.
// They are not searched again, so the search of a recursive type ends.
template <class Kind, Marked marked, class T, class... Open>
constexpr bool finds_kind();

template <class Kind, Marked marked, class... Open, class... Types>
constexpr bool finds_kind_in(TypeList<Types...>) {
  return (finds_kind<Kind, marked, std::remove_cvref_t<Types>, Open...>() || ...);
}

template <class Kind, Marked marked, class T, class... Open>
constexpr bool finds_kind() {
  if constexpr (Kind::template is<T>) {
    return true;
  } else if constexpr (kIsOneOf<T, Open...>) {
    return false;
  } else if constexpr (IsNoDerivative<T>::value && marked == Marked::kSkip) {
    return false;
  } else {
    if constexpr (Kind::explains && requires { requires PartTypes<T>::is_hidden; }) {
      static_cast<void>(sizeof(FieldsNotVisible<T, kFieldsFault<T>>));
    }
    return finds_kind_in<Kind, marked, T, Open...>(typename PartTypes<T>::Types());
  }
}

}  // namespace internal

// Whether a traversal of a T can find a Leaf.
template <class T, class Leaf, Marked marked = Marked::kSkip>
struct HasLeaf
    : std::bool_constant<
          internal::finds_kind<internal::Exactly<Leaf>, marked, std::remove_cvref_t<T>>()> {};

}  // namespace etude
