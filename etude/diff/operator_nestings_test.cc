// SPDX-License-Identifier: Apache-2.0
// Every operator inside every other operator: derivatives of functions that compute derivatives, in
// each mix of modes, and that capture numbers of outer derivatives.
//
// All outer operators call one function, and all inner operators another, so that operators with
// the same number type share compiled code.
#include <array>
#include <cmath>
#include <vector>

#include "etude/diff/scalar_expect.h"

namespace etude {
namespace {

// Ways to take a derivative by one number. A gradient by it alone goes forward, by five on a tape.
enum Way {
  kDerivative,
  kGradient,
  kTape,
  kPullback,
  kVjp,
  kJvp,
  kDifferential,
  kJacobian,
  kForwardJacobian,
  kHessian,
  kHvp,
  kHvpOnTape,
  kWays
};
constexpr const char* kNames[kWays] = {
    "derivative",   "gradient", "gradient on a tape", "pullback", "vjp", "jvp",
    "differential", "jacobian", "forward_jacobian",   "hessian",  "hvp", "hvp on a tape"};
constexpr bool is_second(int way) { return way >= kHessian; }

template <class F>
struct OfFirst {
  const F& f;
  template <class V>
  auto operator()(const V& v) const {
    return f(v[0]);
  }
};

// The first derivative of f at x, or the second one.
template <int way, class F, class T>
[[gnu::noinline]] T slope_by(const F& f, const T& x) {
  [[maybe_unused]] const OfFirst<F> of_five{f};
  if constexpr (way == kDerivative) {
    return derivative(f, x);
  } else if constexpr (way == kGradient) {
    return gradient(f, x);
  } else if constexpr (way == kTape) {
    return gradient(of_five, std::vector<T>(5, x))[0];
  } else if constexpr (way == kPullback) {
    return pullback(f, x)(T(1));
  } else if constexpr (way == kVjp) {
    return vjp(f, x, T(1)).second;
  } else if constexpr (way == kJvp) {
    return jvp(f, x, T(1)).second;
  } else if constexpr (way == kDifferential) {
    return differential(f, x)(T(1));
  } else if constexpr (way == kJacobian) {
    return jacobian(f, x);
  } else if constexpr (way == kForwardJacobian) {
    return forward_jacobian(f, x);
  } else if constexpr (way == kHessian) {
    return hessian(f, x);
  } else if constexpr (way == kHvp) {
    return hvp(f, x, T(1));
  } else {
    return hvp(of_five, std::vector<T>(5, x), {T(1), T(0), T(0), T(0), T(0)})[0];
  }
}
template <class F, class T>
[[gnu::noinline]] T slope(int way, const F& f, const T& x) {
  T found(0);
  [&]<int... I>(std::integer_sequence<int, I...>) {
    ((way == I ? static_cast<void>(found = slope_by<I>(f, x)) : void()), ...);
  }
  (std::make_integer_sequence<int, kWays>());
  return found;
}

// a y^3 of a captured number a: at y = 2 both of its derivatives are 12 a.
template <class A>
struct Cubic {
  const A& a;
  template <class Y>
  Y operator()(const Y& y) const {
    return a * y * y * y;
  }
};
// 12 a^2, which takes a derivative.
struct Nested {
  int inner;
  template <class A>
  A operator()(const A& a) const {
    return a * slope(inner, Cubic<A>{a}, A(2));
  }
};

// spec: D27.c
TEST(OperatorNestings, EveryOperatorInsideOfEveryOther) {
  for (int outer = 0; outer < kWays; ++outer) {
    for (int inner = 0; inner < kWays; ++inner) {
      EXPECT_EQ(slope(outer, Nested{inner}, 3.0), is_second(outer) ? 24 : 72)
          << kNames[outer] << " of " << kNames[inner];
    }
  }
}

// Three levels; the innermost captures numbers of both others.
template <class A, class B>
struct OfThird {
  const A& a;
  const B& b;
  template <class C>
  C operator()(const C& c) const {
    return a * b * c * c * c + pow(c, a);
  }
};
template <int third, class A>
struct OfSecond {
  const A& a;
  template <class B>
  B operator()(const B& b) const {
    return b * slope_by<third>(OfThird<A, B>{a, b}, B(2));
  }
};
template <int second, int third>
struct OfThree {
  template <class A>
  A operator()(const A& a) const {
    return a * slope_by<second>(OfSecond<third, A>{a}, A(3));
  }
};
template <int first, int second, int third>
void expect_captures_of_two_levels() {
  // f = a (b (12 a b + a 2^(a-1)))' at b = 3, so f = 72 a^2 + a^2 2^(a-1).
  const double a = 2, power = std::pow(2.0, a - 1);
  EXPECT_NEAR((slope_by<first>(OfThree<second, third>(), a)),
              144 * a + 2 * a * power + a * a * power * std::log(2.0), 1e-10)
      << kNames[first] << " of " << kNames[second] << " of " << kNames[third];
}

// spec: D27.g
TEST(OperatorNestings, CapturesOfTwoLevels) {
  expect_captures_of_two_levels<kDerivative, kDerivative, kDerivative>();
  expect_captures_of_two_levels<kDerivative, kTape, kGradient>();
  expect_captures_of_two_levels<kTape, kDerivative, kTape>();
  expect_captures_of_two_levels<kTape, kTape, kTape>();
  expect_captures_of_two_levels<kGradient, kForwardJacobian, kPullback>();
}

// The same with a Hessian in the middle: f = a (12 a b^2 + b a 2^(a-1))'' by b, which is 24 a^2.
// spec: D27.g
TEST(OperatorNestings, CapturesAroundASecondDerivative) {
  EXPECT_NEAR((slope_by<kDerivative>(OfThree<kHessian, kTape>(), 2.0)), 96, 1e-10);
  EXPECT_NEAR((slope_by<kTape>(OfThree<kHvp, kDerivative>(), 2.0)), 96, 1e-10);
}

}  // namespace
}  // namespace etude
