// SPDX-License-Identifier: Apache-2.0
// One table of derivatives for all modes: each function of base/scalars/scalar_functions.inc, and
// each composition of two, at special values, by dual numbers, by a tape, by scans and by nestings
// of two derivatives.
// spec: D36
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "etude/diff.h"

namespace etude::singular_points_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN();

enum Fn {
#define ETUDE_UNARY(fn, f, dx) fn_##f,
#define ETUDE_BINARY(fn, f, da, db)
#define ETUDE_ROUNDING(fn, f) ETUDE_UNARY(fn, f, 0)
#include "etude/base/scalars/scalar_functions.inc"
  kUnary,
  kBeforeBinary = kUnary - 1,
#define ETUDE_UNARY(fn, f, dx)
#define ETUDE_BINARY(fn, f, da, db) fn_##f,
#define ETUDE_ROUNDING(fn, f)
#include "etude/base/scalars/scalar_functions.inc"
  kFunctions
};

const char* name_of(int fn) {
  switch (fn) {
#define ETUDE_UNARY(fn, f, dx) \
  case fn_##f:                 \
    return #f;
#define ETUDE_BINARY(fn, f, da, db) ETUDE_UNARY(fn, f, da)
#define ETUDE_ROUNDING(fn, f) ETUDE_UNARY(fn, f, 0)
#include "etude/base/scalars/scalar_functions.inc"
    default:
      return "x";
  }
}

template <class S>
S call(int fn, const S& a, const S& b) {
  using namespace internal::scalar_math;  // NOLINT(google-build-using-namespace)
  switch (fn) {
#define ETUDE_UNARY(fn, f, dx) \
  case fn_##f:                 \
    return S(f(a));
#define ETUDE_BINARY(fn, f, da, db) \
  case fn_##f:                      \
    return S(f(a, b));
#define ETUDE_ROUNDING(fn, f) ETUDE_UNARY(fn, f, 0)
#include "etude/base/scalars/scalar_functions.inc"
    default:
      return a;
  }
}

// A function of two numbers: outer(inner(a, b), b), or outer(a, inner(b, a)).
struct Composition {
  int outer = -1, inner = -1;
  bool second = false;
  template <class S>
  S operator()(const S& a, const S& b) const {
    return second ? call(outer, a, call(inner, b, a)) : call(outer, call(inner, a, b), b);
  }
  std::string text() const {
    return std::string(name_of(outer)) + (second ? "(a, " : "(") + name_of(inner) + "(..))";
  }
};

const std::vector<double>& points() {
  static const std::vector<double> all = {0.0,
                                          -0.0,
                                          1.0,
                                          -1.0,
                                          0.5,
                                          -0.5,
                                          2.0,
                                          -2.0,
                                          3.0,
                                          kInf,
                                          -kInf,
                                          kNan,
                                          1e300,
                                          -1e300,
                                          1e-300,
                                          -1e-300,
                                          5e-324,
                                          -5e-324,
                                          710.0,
                                          -750.0,
                                          172.0,
                                          1.7e308,
                                          0x1.fffffffffffffp-1,
                                          0x1.0000000000001p0};
  return all;
}
const std::vector<double>& few_points() {
  static const std::vector<double> few = {0.0,   -0.0, 1.0,    -2.0,  0.5,   kInf,
                                          -kInf, kNan, 1e-300, 1e300, 5e-324};
  return few;
}

// Equal bits, except for the sign of 0; or both NaN.
bool same(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

using Pair = std::array<double, 2>;
using Five = std::array<double, 5>;

struct Faults {
  int count = 0;
  void compare(const char* mode, const std::string& what, double a, double b, const Pair& got,
               const Pair& want) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (same(got[i], want[i]) || ++count > 40) continue;
      ADD_FAILURE() << what << " at (" << a << ", " << b << ") by " << mode << ", argument " << i
                    << ": " << got[i] << ", forward " << want[i];
    }
  }
};

template <class F>
Pair forward(const F& f, double a, double b) {
  const auto [da, db] = gradient(f, a, b);
  return {da, db};
}
// The same with four numbers, in forward mode together: derivatives by independent numbers stay 0.
template <class F>
Pair by_four(const F& f, double a, double b) {
  const std::array<double, 4> g =
      gradient([&](const auto& v) { return f(v[0], v[1]); }, std::array<double, 4>{a, b, 1, kInf});
  EXPECT_TRUE(g[2] == 0 && g[3] == 0) << g[2] << " " << g[3];
  return {g[0], g[1]};
}
// With five numbers, which takes a tape.
template <class F>
Pair by_tape(const F& f, double a, double b) {
  const Five g = gradient([&](const auto& v) { return f(v[0], v[1]); }, Five{a, b});
  return {g[0], g[1]};
}
template <class F>
Pair by_pullback(const F& f, double a, double b) {
  const auto [da, db] = pullback(f, a, b)(1.0);
  return {da, db};
}
template <class F>
Pair by_jvp(const F& f, double a, double b) {
  const std::tuple at(a, b);
  return {jvp(f, at, std::tuple(1.0, 0.0)).second, jvp(f, at, std::tuple(0.0, 1.0)).second};
}

void compare_first(Faults& faults, const Composition& f, double a, double b) {
  const Pair want = forward(f, a, b);
  faults.compare("four", f.text(), a, b, by_four(f, a, b), want);
  faults.compare("tape", f.text(), a, b, by_tape(f, a, b), want);
  faults.compare("pullback", f.text(), a, b, by_pullback(f, a, b), want);
  faults.compare("jvp", f.text(), a, b, by_jvp(f, a, b), want);
}

template <class Fn>
void each_composition(const Fn& fn) {
  for (int inner = -1; inner < kFunctions; ++inner) {
    for (int outer = -1; outer < kFunctions; ++outer) {
      if (outer < 0 && inner >= 0) continue;
      fn(Composition{outer, inner, false});
      if (outer >= kUnary && inner >= 0) fn(Composition{outer, inner, true});
    }
  }
}
bool reads_both(const Composition& f) { return f.outer >= kUnary || f.inner >= kUnary; }

TEST(SingularPoints, ModesAgree) {
  Faults faults;
  each_composition([&](const Composition& f) {
    for (const double a : reads_both(f) ? few_points() : points()) {
      if (!reads_both(f)) {
        compare_first(faults, f, a, 1.0);
        continue;
      }
      for (const double b : few_points()) compare_first(faults, f, a, b);
    }
  });
  EXPECT_EQ(faults.count, 0);
}

// The derivatives of the slope by argument i, where the slope is taken one way and its derivative
// another.
template <class F>
auto slope_forward(const F& f, int i) {
  return [f, i](const auto& a, const auto& b) {
    const auto [da, db] = gradient(f, a, b);
    return i == 0 ? da : db;
  };
}
template <class F>
auto slope_by_tape(const F& f, int i) {
  return [f, i](const auto& a, const auto& b) {
    using S = std::decay_t<decltype(a)>;
    const auto of_five = [&](const auto& v) { return f(v[0], v[1]); };
    return gradient(of_five, std::array<S, 5>{a, b, S(0), S(0), S(0)})[static_cast<std::size_t>(i)];
  };
}

// Terms are added and multiplied in another order. Where infinite ones of opposite signs meet, over
// two paths through one number, one mode has NaN and another need not.
bool may_differ(const Composition& f, double reverse, double forward) {
  if (f.inner >= 0 && (std::isnan(reverse) || std::isnan(forward))) return true;
  if (!std::isfinite(reverse) || !std::isfinite(forward)) return same(reverse, forward);
  const double scale = std::max({1.0, std::abs(reverse), std::abs(forward)});
  return std::abs(reverse - forward) <= 1e-12 * scale;
}

TEST(SingularPoints, ModesAgreeInSecondDerivatives) {
  Faults faults;
  const std::vector<double> in_range = {0.0, -0.0, 1.0, -1.0, -2.0, 0.5, kInf, -kInf, kNan};
  each_composition([&](const Composition& f) {
    for (const double a : in_range) {
      for (const double b : reads_both(f) ? in_range : std::vector{1.0}) {
        for (int i = 0; i < 2; ++i) {
          Pair want = forward(slope_forward(f, i), a, b);
          const std::string what = f.text() + ", slope " + std::to_string(i);
          const auto compare = [&](const char* mode, const Pair& got) {
            for (std::size_t j = 0; j < 2; ++j) {
              if (may_differ(f, got[j], want[j])) want[j] = got[j];
            }
            faults.compare(mode, what, a, b, got, want);
          };
          compare("forward over tape", forward(slope_by_tape(f, i), a, b));
          compare("tape over forward", by_tape(slope_forward(f, i), a, b));
          compare("tape over tape", by_tape(slope_by_tape(f, i), a, b));
        }
      }
    }
  });
  EXPECT_EQ(faults.count, 0);
}

// All functions of two numbers as the results of one step: the reverse pass meets infinite slopes
// of other results.
struct AllAtOnce {
  template <class S, class P>
  constexpr auto operator()(const S&, const P& x) const {
    using N = std::decay_t<decltype(x[0])>;
    const N &a = x[0], &b = x[1];
    return std::array<N, kFunctions>{
#define ETUDE_UNARY(fn, f, dx) N(f(a)),
#define ETUDE_BINARY(fn, f, da, db)
#define ETUDE_ROUNDING(fn, f) ETUDE_UNARY(fn, f, 0)
#include "etude/base/scalars/scalar_functions.inc"
#define ETUDE_UNARY(fn, f, dx)
#define ETUDE_BINARY(fn, f, da, db) N(f(a, b)),
#define ETUDE_ROUNDING(fn, f)
#include "etude/base/scalars/scalar_functions.inc"
    };
  }
};

TEST(SingularPoints, ScansAgree) {
  Faults faults;
  const auto all = [](const auto& v) {
    using S = std::decay_t<decltype(v[0])>;
    std::array<S, kFunctions> start;
    start.fill(S(0));
    return scan(1, start, v, AllAtOnce());
  };
  for (const double a : points()) {
    for (const double b : few_points()) {
      const auto pull = pullback(all, Pair{a, b});
      for (int fn = 0; fn < kFunctions; ++fn) {
        std::array<double, kFunctions> unit{};
        unit[static_cast<std::size_t>(fn)] = 1;
        const Composition f{fn};
        faults.compare("scan", f.text(), a, b, pull(unit), forward(f, a, b));
      }
    }
  }
  EXPECT_EQ(faults.count, 0);
}

// The sum over steps, which lanes take at once, of all functions times weights: all but one are 0,
// and then nothing of a function counts, not even its infinite slope.
struct Weighted {
  template <class S, class P, class N>
  constexpr auto operator()(const S& sum, const P& weights, const N& a, const N& b) const {
    const auto values = AllAtOnce()(sum, std::array<N, 2>{a, b});
    N y = weights[0] * values[0];
    for (std::size_t i = 1; i < kFunctions; ++i) y = y + weights[i] * values[i];
    return sum + y;
  }
};

TEST(SingularPoints, LanesAgree) {
  Faults faults;
  const std::vector<double>& x = points();
  std::vector<double> y(x.size());
  for (const double b : few_points()) {
    std::fill(y.begin(), y.end(), b);
    for (int fn = 0; fn < kFunctions; ++fn) {
      std::array<double, kFunctions> weights{};
      weights[static_cast<std::size_t>(fn)] = 1;
      const auto sum = [&](const auto& u, const auto& v) {
        using S = std::decay_t<decltype(u[0])>;
        return scan(u.size(), S(0), weights, Weighted(), u, v);
      };
      const auto [dx, dy] = gradient(sum, x, y);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const Composition f{fn};
        faults.compare("lanes", f.text(), x[i], b, {dx[i], dy[i]}, forward(f, x[i], b));
      }
    }
  }
  EXPECT_EQ(faults.count, 0);
}

// Products of zeros and infinite slopes.
TEST(SingularPoints, ZerosAreStrong) {
  const auto both = [](const auto& f, double a, double want) {
    EXPECT_EQ(derivative(f, a), want);
    EXPECT_EQ(gradient(f, a), want);
    EXPECT_EQ(pullback(f, a)(1.0), want);
    EXPECT_EQ(gradient([&](const auto& v) { return f(v[0]); }, Five{a})[0], want);
  };
  both([](auto x) { return sqrt(x); }, 0, kInf);
  both([](auto x) { return 0.0 * sqrt(x); }, 0, 0);
  both([](auto x) { return sqrt(x) * (x - x); }, 0, 0);
  both([](auto x) { return sqrt(x * x); }, 0, 0);
  both([](auto x) { return norm(std::array{x, x, x}); }, 0, 0);
  both([](auto x) { return log1p(exp(x)); }, 1000, 0);
  both([](auto x) { return x + 0.0 * log(x - 2.0); }, 1, 1);
  // A value that is not used does not matter, whatever it is.
  both(
      [](auto x) {
        const auto root = sqrt(x);
        return x < 1.0 ? x * x : root;
      },
      -3, -6);
  EXPECT_EQ(gradient([](const auto& v) { return norm(v); }, Five{}), Five{});
}

// spec: D27.b
TEST(SingularPoints, TheHessianOfPowIsSymmetric) {
  const auto power = [](const auto& v) { return pow(v[0], v[1]); };
  for (const auto& [a, b] :
       std::vector<Pair>{{2, 0}, {2, -0.0}, {0.5, 0}, {2, 1}, {3, 2}, {0, 2}}) {
    const auto h = hessian(power, std::vector{a, b});
    const double mixed = a == 0 ? 0 : std::pow(a, b - 1) * (1 + b * std::log(a));
    EXPECT_NEAR(h[0][1], mixed, 1e-14) << a << " " << b;
    EXPECT_NEAR(h[1][0], mixed, 1e-14) << a << " " << b;
  }
  EXPECT_EQ(forward(slope_forward(Composition{fn_pow}, 0), 2, 0)[1], 0.5);
  EXPECT_EQ(forward(slope_forward(Composition{fn_pow}, 1), 2, 0)[0], 0.5);
}

TEST(SingularPoints, SquaresNeitherOverflowNorVanish) {
  const auto angle = [](auto y, auto x) { return atan2(y, x); };
  for (const double scale : {1e-200, 1.0, 1e200}) {
    const auto [dy, dx] = gradient(angle, 3 * scale, 4 * scale);
    EXPECT_NEAR(dy * scale, 4.0 / 25, 1e-15) << scale;
    EXPECT_NEAR(dx * scale, -3.0 / 25, 1e-15) << scale;
  }
  EXPECT_NEAR(derivative([](auto x) { return asinh(x); }, 1e200) * 1e200, 1, 1e-15);
  EXPECT_NEAR(derivative([](auto x) { return acosh(x); }, 1e200) * 1e200, 1, 1e-15);
}

}  // namespace
}  // namespace etude::singular_points_test
