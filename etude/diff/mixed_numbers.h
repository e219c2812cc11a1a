// SPDX-License-Identifier: Apache-2.0
// Refuses arithmetic between numbers of two unrelated derivatives. Such numbers meet if an inner
// function captures a number of an outer derivative, but its own argument was made from a plain
// number. Comparisons use values. Every other operation is refused with one compiler message. This
// header also defines the result type of a refused call. Used by std_functions.h and refusals.h.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <vector>

#include "etude/base/internal/type_name.h"
#include "etude/diff/active.h"
#include "etude/diff/dual.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The result of a refused call. Any further use of the result compiles without another message.
struct RefusedNumber;
template <class... X>
concept HoldsRefused = (std::is_base_of_v<RefusedNumber, X> || ...);
struct RefusedNumber {
  template <class... X>
  constexpr RefusedNumber operator()(const X&...) const {
    return {};
  }
  template <class I>
  constexpr RefusedNumber operator[](const I&) const {
    return {};
  }
  // The members that programs use on losses and gradients, which may be tensors or numbers.
  template <class T, class... X>
  constexpr T item(const X&...) const {
    return T();
  }
  template <class T, class... X>
  constexpr std::vector<T> to_vector(const X&...) const {
    return {};
  }
  template <class... I>
  constexpr RefusedNumber at(const I&...) const {
    return {};
  }
  constexpr RefusedNumber shape() const { return {}; }
  constexpr RefusedNumber dtype() const { return {}; }
  constexpr int rank() const { return 0; }
  constexpr std::size_t size() const { return 0; }
  constexpr bool has_value() const { return false; }
  constexpr std::string_view to_string() const { return {}; }

  template <class T>
  requires std::is_default_constructible_v<T>
  constexpr operator T() const { return T(); }

#define ETUDE_UNARY(fn, f, dx) \
  friend constexpr RefusedNumber f(const RefusedNumber& x) { return x; }
#define ETUDE_ROUNDING(fn, f) ETUDE_UNARY(fn, f, 0)
#define ETUDE_BINARY(fn, f, da, db) \
  template <class A, class B>       \
  requires HoldsRefused<A, B>       \
  friend constexpr RefusedNumber f(const A&, const B&) { return {}; }
#include "etude/base/scalars/scalar_functions.inc"
#define ETUDE_OPERATOR(op, Result) \
  template <class A, class B>      \
  requires HoldsRefused<A, B>      \
  friend constexpr Result operator op(const A&, const B&) { return {}; }
  ETUDE_OPERATOR(+, RefusedNumber)
  ETUDE_OPERATOR(-, RefusedNumber)
  ETUDE_OPERATOR(*, RefusedNumber)
  ETUDE_OPERATOR(/, RefusedNumber)
  ETUDE_OPERATOR(<, bool)
  ETUDE_OPERATOR(>, bool)
  ETUDE_OPERATOR(<=, bool)
  ETUDE_OPERATOR(>=, bool)
#undef ETUDE_OPERATOR
  friend constexpr RefusedNumber operator-(const RefusedNumber& x) { return x; }
};
// The result of a refused operator.
struct Refused : RefusedNumber {
  constexpr Refused() {}  // not an aggregate: reflection must not visit its fields
  RefusedNumber first, second;
};
// The result of a refused operator, as an object. A static_assert in the class Refusal has the
// compiler message, which appears once per class. kRefused is a variable, since clang omits the
// user's line from the message if the last instantiation is a function.
template <class Refusal>
inline constexpr Refused kRefused = (static_cast<void>(sizeof(Refusal)), Refused());

template <class T>
inline constexpr bool kCarriesDerivatives = IsActive<T>::value;
template <class T, std::size_t n, class Tag>
inline constexpr bool kCarriesDerivatives<Dual<T, n, Tag>> = true;
// Whether A and B carry derivatives, and neither is a constant for the other.
template <class A, class B>
concept Unrelated =
    kCarriesDerivatives<A> && kCarriesDerivatives<B> && !PlainFor<A, B> && !PlainFor<B, A>;

// Refuses to mix A and B.
template <class A, class B>
struct NumbersOfTwoDerivatives {
  static constexpr bool are_nested = !Unrelated<A, B>;
  static_assert(are_nested,
                "etude: a number of an outer derivative is used in an inner one whose own argument "
                "is plain; make the inner argument from the outer one: decltype(x)(1.0) for 1.0");
};
// The same type for a * b and b * a, so that the message appears once.
template <class A, class B>
using RefusedMixture =
    std::conditional_t<(type_name<B>() < type_name<A>()), NumbersOfTwoDerivatives<B, A>,
                       NumbersOfTwoDerivatives<A, B>>;

}  // namespace internal

// The result types are not deduced. Compilers then instantiate the bodies last, and print only the
// user's call. These operators use no macros, since compilers would print the macro definitions
// too.
template <class A, class B>
requires internal::Unrelated<A, B>
constexpr internal::RefusedNumber operator+(const A&, const B&) {
  static_cast<void>(sizeof(internal::RefusedMixture<A, B>));
  return {};
}
template <class A, class B>
requires internal::Unrelated<A, B>
constexpr internal::RefusedNumber operator-(const A&, const B&) {
  static_cast<void>(sizeof(internal::RefusedMixture<A, B>));
  return {};
}
template <class A, class B>
requires internal::Unrelated<A, B>
constexpr internal::RefusedNumber operator*(const A&, const B&) {
  static_cast<void>(sizeof(internal::RefusedMixture<A, B>));
  return {};
}
template <class A, class B>
requires internal::Unrelated<A, B>
constexpr internal::RefusedNumber operator/(const A&, const B&) {
  static_cast<void>(sizeof(internal::RefusedMixture<A, B>));
  return {};
}
template <class A, class B>
requires internal::Unrelated<A, B>
constexpr A& operator+=(A& a, const B&) {
  static_cast<void>(sizeof(internal::RefusedMixture<A, B>));
  return a;
}
template <class A, class B>
requires internal::Unrelated<A, B>
constexpr A& operator-=(A& a, const B&) {
  static_cast<void>(sizeof(internal::RefusedMixture<A, B>));
  return a;
}
template <class A, class B>
requires internal::Unrelated<A, B>
constexpr A& operator*=(A& a, const B&) {
  static_cast<void>(sizeof(internal::RefusedMixture<A, B>));
  return a;
}
template <class A, class B>
requires internal::Unrelated<A, B>
constexpr A& operator/=(A& a, const B&) {
  static_cast<void>(sizeof(internal::RefusedMixture<A, B>));
  return a;
}
#define ETUDE_OPERATOR(op)           \
  template <class A, class B>        \
  requires internal::Unrelated<A, B> \
  constexpr bool operator op(const A& a, const B& b) { return value_of(a) op value_of(b); }
ETUDE_OPERATOR(==)
ETUDE_OPERATOR(<)
ETUDE_OPERATOR(>)
ETUDE_OPERATOR(<=)
ETUDE_OPERATOR(>=)
#undef ETUDE_OPERATOR

}  // namespace etude
