// SPDX-License-Identifier: Apache-2.0
// The functions of <cmath>, std::min, std::max, std::clamp and std::to_string on numbers of a
// derivative, so that code written for double works unchanged: std::sin(x), std::max(x, 0.0).
// Included by scalar_operators.h and scan.h, before the differentiated functions.
//
// The C++ standard forbids additions to namespace std. These overloads accept types of this library
// only, so no existing call changes its meaning. Other derivative libraries also add overloads,
// since much code calls std::sin. A call without std:: finds the function next to the number type,
// by argument-dependent lookup.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include "etude/base/scalars/expression.h"
#include "etude/base/scalars/expression_math.h"
#include "etude/diff/internal/replace_scalars.h"
#include "etude/diff/mixed_numbers.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Numbers of a derivative, and the symbols on which the body of a scan runs.
template <class T>
concept NumberWithRules =
    !std::is_arithmetic_v<T> && (kIsScalar<T> || std::is_same_v<T, scalar::Symbol>);
// Operands of a function on numbers N. Each operand is an N, a plain number, or a number of an
// outer derivative.
template <class N, class... T>
concept MixedNumbers = NumberWithRules<N> &&(PlainFor<T, N>&&...);
template <class A, class B>
struct InnerNumber {
  using type = std::conditional_t<NumberWithRules<A>, A, B>;
};
template <NumberWithRules A, NumberWithRules B>
requires PlainFor<A, B>
struct InnerNumber<A, B> {
  using type = B;
};
template <class A, class B>
using MixedNumber = typename InnerNumber<A, B>::type;
template <class A, class B, class C>
using MixedNumber3 = MixedNumber<MixedNumber<A, B>, C>;

}  // namespace internal
}  // namespace etude

// NOLINTBEGIN(cert-dcl58-cpp): see the top of this file
namespace std {

#define ETUDE_UNARY(fn, f, dx)                   \
  template <etude::internal::NumberWithRules T>  \
  constexpr T f(const T& x) {                    \
    return f(x); /* f is in T's own namespace */ \
  }
#define ETUDE_BINARY(fn, f, da, db)                                                                \
  template <class A, class B>                                                                      \
  requires etude::internal::MixedNumbers<etude::internal::MixedNumber<A, B>, A, B>                 \
  constexpr etude::internal::MixedNumber<A, B> f(const A& a, const B& b) {                         \
    using N = etude::internal::MixedNumber<A, B>;                                                  \
    return f(N(a), N(b));                                                                          \
  }                                                                                                \
  template <class A, class B>                                                                      \
  requires etude::internal::Unrelated<A, B> etude::internal::RefusedNumber f(const A&, const B&) { \
    static_cast<void>(sizeof(etude::internal::RefusedMixture<A, B>));                              \
    return {};                                                                                     \
  }
#define ETUDE_ROUNDING(fn, f) ETUDE_UNARY(fn, f, 0)
#include "etude/base/scalars/scalar_functions.inc"

#define ETUDE_QUESTION(f)                       \
  template <etude::internal::NumberWithRules T> \
  bool f(const T& x) {                          \
    return f(etude::value_of(x));               \
  }
ETUDE_QUESTION(isnan)
ETUDE_QUESTION(isinf)
ETUDE_QUESTION(isfinite)
ETUDE_QUESTION(signbit)
#undef ETUDE_QUESTION

// For a number of a derivative and a plain number, since std::max and std::min require equal types.
#define ETUDE_CHOICE(f, is_first)                                                                  \
  template <class A, class B>                                                                      \
  requires(!std::is_same_v<A, B> &&                                                                \
           etude::internal::MixedNumbers<etude::internal::MixedNumber<A, B>, A,                    \
                                         B>) constexpr etude::internal::MixedNumber<A, B>          \
  f(const A& a, const B& b) {                                                                      \
    using N = etude::internal::MixedNumber<A, B>;                                                  \
    return is_first ? N(a) : N(b);                                                                 \
  }                                                                                                \
  template <class A, class B>                                                                      \
  requires etude::internal::Unrelated<A, B> etude::internal::RefusedNumber f(const A&, const B&) { \
    static_cast<void>(sizeof(etude::internal::RefusedMixture<A, B>));                              \
    return {};                                                                                     \
  }
ETUDE_CHOICE(max, !(a < b))
ETUDE_CHOICE(min, !(b < a))
#undef ETUDE_CHOICE
template <etude::internal::NumberWithRules T, class A, class B>
requires(!(std::is_same_v<A, T> &&
           std::is_same_v<B, T>)&&etude::internal::MixedNumbers<T, A, B>) constexpr T
    clamp(const T& x, const A& low, const B& high) {
  return x < low ? T(low) : high < x ? T(high) : x;
}
template <etude::internal::NumberWithRules T>
long lround(const T& x) {
  return static_cast<long>(round(x));
}
template <etude::internal::NumberWithRules T>
string to_string(const T& x) {
  return to_string(etude::value_of(x));
}
// For three numbers. Some of them may be plain.
template <class A, class B, class C>
requires etude::internal::MixedNumbers<etude::internal::MixedNumber3<A, B, C>, A, B, C>
constexpr auto fma(const A& a, const B& b, const C& c) {
  using N = etude::internal::MixedNumber3<A, B, C>;
  return fma(N(a), N(b), N(c));
}
template <class A, class B, class C>
requires etude::internal::MixedNumbers<etude::internal::MixedNumber3<A, B, C>, A, B, C>
constexpr auto lerp(const A& a, const B& b, const C& t) {
  using N = etude::internal::MixedNumber3<A, B, C>;
  return lerp(N(a), N(b), N(t));
}
template <class A, class B, class C>
requires etude::internal::MixedNumbers<etude::internal::MixedNumber3<A, B, C>, A, B, C>
constexpr auto hypot(const A& a, const B& b, const C& c) { return hypot(hypot(a, b), c); }

}  // namespace std
// NOLINTEND(cert-dcl58-cpp)
