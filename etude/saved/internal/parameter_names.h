// SPDX-License-Identifier: Apache-2.0
// The names of the parameters of a staged function, found from the names of the leaves of a trace.
#pragma once

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "etude/base/fields.h"
#include "etude/core/tensor.h"
#include "etude/parts/parts.h"
#include "etude/stage/internal/arguments.h"
#include "etude/variables/variable.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace saved::internal {

using etude::internal::ArgumentNames;

// Reads the names of arguments from the names of their leaves.
class ArgumentCursor {
 public:
  enum class First : uint8_t { kNone, kTensor, kWord, kObject };

  explicit ArgumentCursor(const ArgumentNames& names) : names_(names) {}
  // The name of the next argument, whose first leaf is of this kind.
  std::string next(First first);

 private:
  const ArgumentNames& names_;
  std::size_t tensor_ = 0, word_ = 0, object_ = 0, argument_ = 0;
};

using First = ArgumentCursor::First;

template <class T>
constexpr First first_leaf();

template <class... T>
constexpr First first_of_all(std::tuple<T...>*) {
  First first = First::kNone;
  ((first = first == First::kNone ? first_leaf<std::remove_cvref_t<T>>() : first), ...);
  return first;
}

template <class T>
inline constexpr bool kIsTuple = false;
template <class... T>
inline constexpr bool kIsTuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool kIsTuple<std::pair<A, B>> = true;
template <class T>
inline constexpr bool kIsShared = false;
template <class T>
inline constexpr bool kIsShared<std::shared_ptr<T>> = true;
template <class T>
inline constexpr bool kHasLengthWord = std::is_convertible_v<T, std::string_view>;
template <class T, class A>
inline constexpr bool kHasLengthWord<std::vector<T, A>> = true;
template <class T, class A>
inline constexpr bool kHasLengthWord<std::deque<T, A>> = true;
template <class T, std::size_t n>
inline constexpr bool kHasLengthWord<std::array<T, n>> = true;
template <class T>
inline constexpr bool kHasLengthWord<std::optional<T>> = true;
template <class T>
inline constexpr bool kHasLengthWord<std::complex<T>> = true;
template <class... T>
inline constexpr bool kHasLengthWord<std::variant<T...>> = true;
template <class T, class C, class A>
inline constexpr bool kHasLengthWord<std::map<std::string, T, C, A>> = true;
template <class T, class H, class E, class A>
inline constexpr bool kHasLengthWord<std::unordered_map<std::string, T, H, E, A>> = true;

// The kind of the first leaf of a T, in the order of etude::internal::ArgumentFlattener.
template <class T>
constexpr First first_leaf() {
  using namespace etude::internal;
  if constexpr (std::is_same_v<T, Tensor>) {
    return First::kTensor;
  } else if constexpr (std::is_same_v<T, Variable> || std::is_arithmetic_v<T> ||
                       std::is_enum_v<T> || FunctionPointer<T> || HasHostKey<T> ||
                       kHasLengthWord<T> || std::is_same_v<T, Described> || RuntimeStructure<T>) {
    return First::kWord;
  } else if constexpr (kIsShared<T>) {
    return First::kObject;
  } else if constexpr (kIsTuple<T>) {
    if constexpr (requires { std::get<0>(std::declval<T&>()); }) {
      return []<std::size_t... I>(std::index_sequence<I...>) {
        return first_of_all(static_cast<std::tuple<std::tuple_element_t<I, T>...>*>(nullptr));
      }
      (std::make_index_sequence<std::tuple_size_v<T>>());
    } else {
      return First::kNone;
    }
  } else if constexpr (IsNoDerivative<T>::value) {
    return first_leaf<std::remove_cvref_t<decltype(std::declval<T&>().value)>>();
  } else if constexpr (Reflectable<T>) {
    using Fields = decltype(fields(std::declval<T&>()));
    constexpr First first = first_of_all(static_cast<std::remove_cvref_t<Fields>*>(nullptr));
    return first == First::kNone && HasHostValues<T> ? First::kWord : first;
  } else {
    return First::kObject;
  }
}

}  // namespace saved::internal
}  // namespace etude
