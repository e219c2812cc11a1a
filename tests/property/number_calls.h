// SPDX-License-Identifier: Apache-2.0
// Functions that programs on numbers (number_machine.h) call: by value and by reference, with rules
// of their own, recursive, through closures, and with derivatives inside. Each is written once for
// numbers of any kind. The text of a program that failed includes this file.
#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include "etude/diff.h"

namespace etude::programs {

// Within a half of zero.
template <class T>
T small(const T& v) {
  return v / (1.0 + v * v);
}
// A quarter or more.
template <class T>
T positive(const T& v) {
  return v * v + 0.25;
}

// The struct of a program, besides its numbers and its array.
template <class T>
struct Body {
  T mass, spring;
  std::array<T, 2> position;

  T& at(int i) {
    return i == 0 ? mass : i == 1 ? spring : position[static_cast<std::size_t>(i - 2)];
  }
};
template <class T>
struct Thrown {
  T value;
};

// Keeps a number small.
template <class T>
void settle(T& v) {
  if (v > 6 || v < -6) v /= 1.0 + 0.0625 * v * v;
}

// A result with a name: an operand that stays.
template <class T>
const T& named(const T& v) {
  return v;
}
template <class T>
T pass_on(T v) {
  return v;
}
template <class T>
T mean(T u, const T& v) {
  u += v;
  return std::move(u) * 0.5;
}
// May all be of one number.
template <class T>
void trade(T& to, const T& from, T by) {
  to += from;
  by *= to;
  to -= by * 0.25;
}
template <class T>
void turn(T& a, T& b, T&& c) {
  T kept = std::move(a);
  a = std::move(b);
  b = kept - c;
  a += std::move(c);
  b -= kept;
}
template <class T>
void gather(T& to, const T& start, const T& v) {
  T sum = 0;
  sum += start;
  sum -= v;
  to += sum;
  sum *= to;
  to = sum - T(1);
}

template <class T>
T power(T x, int n) {
  return n == 0 ? T(1) : x * power(x, n - 1);
}

template <class T>
T damped_of(const T& u, const T& v) {
  using std::exp;
  return u * exp(-(v * v));
}
template <class T>
T waved_of(const T& u, const T& v) {
  using std::sin;
  return sin(u) * v;
}
inline double damped(double u, double v) { return damped_of(u, v); }
inline double waved(double u, double v) { return waved_of(u, v); }

template <class T>
T by_closure(const T& u, const T& v) {
  auto scaled = [factor = u](const T& x) { return factor * x; };
  auto counted = [sum = u, &v](int n) mutable {
    for (int i = 0; i < n; ++i) sum += v;
    return sum;
  };
  return scaled(v) - scaled(T(0.5)) + counted(2);
}
template <class T>
T by_function(const T& u, const T& v) {
  std::function<T(T, T)> f = [](T a, T b) {
    a *= b;
    return a - b;
  };
  const std::function<T(T, T)> g = [f](T a, T b) { return f(b, std::move(a)); };
  return f(u, v) + g(u, v);
}

// The derivative of u^2 sin(v) + u, as a rule.
struct CustomRule {
  template <class U>
  auto operator()(const U& u, const U& v) const {
    using std::cos, std::sin;
    return std::pair{u * u * sin(v) + u, [u, v](const U& dy) {
                       using std::cos, std::sin;
                       return std::tuple{dy * (2.0 * u * sin(v) + 1.0), dy * (u * u) * cos(v)};
                     }};
  }
};
struct Recomputed {
  template <class U>
  U operator()(const U& u, const U& v) const {
    using std::tanh;
    U w = u * v;
    w += tanh(u);
    for (int i = 0; i < 2; ++i) w *= v * 0.5;
    return w;
  }
};
struct TwoResults {
  template <class U>
  std::pair<U, U> operator()(U u, U v) const {
    using std::sin;
    const U before = u;
    u *= v;
    v -= sin(before);
    return {u + v, u * v};
  }
};

// The derivative of w^2 sin(w) + v w by w at u, where v belongs to the outer program.
template <class T>
T inner_derivative(const T& u, const T& v) {
  return derivative(
      [&v](const auto& w) {
        using std::sin;
        return w * w * sin(w) + w * v;
      },
      u);
}
template <class T>
T inner_gradient(const T& u, const T& v) {
  const auto f = [](auto w, auto z) {
    using std::cos;
    w *= w * z;
    z = cos(z) * w;
    return z + w;
  };
  const auto [du, dv] = gradient(f, u, v);
  return du * v - dv;
}
template <class T>
T inner_pullback(const T& u, const T& v) {
  const auto pull = pullback(TwoResults(), u, v);
  const auto [du, dv] = pull({T(1), v});
  const auto [eu, ev] = pull({u, T(0)});
  return du + dv * 0.5 - eu * ev;
}

}  // namespace etude::programs

template <>
struct etude::derivative_of<&etude::programs::damped> {
  template <class U>
  static auto vjp(const U& u, const U& v) {
    using std::exp;
    const U e = exp(-(v * v));
    return std::pair{u * e, [u, v, e](const U& dy, U& du, U& dv) {
                       du += dy * e;
                       dv -= 2.0 * dy * u * e * v;
                     }};
  }
};
template <>
struct etude::derivative_of<&etude::programs::waved> {
  template <class U>
  static U joint(const U& u, const U& v, U& du, U& dv) {
    using std::cos, std::sin;
    const U s = sin(u);
    du += cos(u) * v;
    dv += s;
    return s * v;
  }
};
