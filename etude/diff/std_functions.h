// SPDX-License-Identifier: Apache-2.0
// The functions of <cmath>, and std::min and std::max, on numbers of a derivative, as programs call
// them that were written for double: std::sin(x), std::max(x, 0.0). Included by scalar_operators.h
// and scan.h, before the functions that are differentiated.
//
// The standard asks programs to leave the namespace std alone. These overloads take types of this
// library and nothing else, so that no call changes its meaning; libraries of derivatives have them
// because std::sin is what reasonable code says. Without std:: the functions of the types are
// found.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "etude/base/expression.h"
#include "etude/base/expression_math.h"
#include "etude/diff/replace_scalars.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Numbers of a derivative, and symbols, which bodies of scan are run on.
template <class T>
concept NumberWithRules =
    !std::is_arithmetic_v<T> && (kIsScalar<T> || std::is_same_v<T, scalar::Symbol>);
// Operands of which one is such a number, and the others are it, plain, or of a derivative around.
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

}  // namespace internal
}  // namespace etude

// NOLINTBEGIN(cert-dcl58-cpp): as the head says
namespace std {

#define ETUDE_UNARY(fn, f, dx)                   \
  template <etude::internal::NumberWithRules T>  \
  constexpr T f(const T& x) {                    \
    return f(x); /* that of T's own namespace */ \
  }
#define ETUDE_BINARY(fn, f, da, db)                                                \
  template <class A, class B>                                                      \
  requires etude::internal::MixedNumbers<etude::internal::MixedNumber<A, B>, A, B> \
  constexpr etude::internal::MixedNumber<A, B> f(const A& a, const B& b) {         \
    using N = etude::internal::MixedNumber<A, B>;                                  \
    return f(N(a), N(b));                                                          \
  }
#define ETUDE_ROUNDING(fn, f) ETUDE_UNARY(fn, f, 0)
#include "etude/base/scalar_functions.inc"

template <etude::internal::NumberWithRules T>
bool isnan(const T& x) {
  return isnan(x);
}
template <etude::internal::NumberWithRules T>
bool isfinite(const T& x) {
  return isfinite(x);
}

// Of a number and a plain one: std::max asks for two of one type.
template <class A, class B>
requires(!std::is_same_v<A, B> &&
         etude::internal::MixedNumbers<etude::internal::MixedNumber<A, B>, A, B>)
    etude::internal::MixedNumber<A, B> max(const A& a, const B& b) {
  using N = etude::internal::MixedNumber<A, B>;
  return a < b ? N(b) : N(a);
}
template <class A, class B>
requires(!std::is_same_v<A, B> &&
         etude::internal::MixedNumbers<etude::internal::MixedNumber<A, B>, A, B>)
    etude::internal::MixedNumber<A, B> min(const A& a, const B& b) {
  using N = etude::internal::MixedNumber<A, B>;
  return b < a ? N(b) : N(a);
}

}  // namespace std
// NOLINTEND(cert-dcl58-cpp)
