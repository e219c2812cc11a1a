// SPDX-License-Identifier: Apache-2.0
// Ops on tensors agree with functions of numbers at kinks, poles, infinities and NaN, in both
// modes, for each common function and each composition of two (docs/differentiable.md, "Singular
// points").
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "etude/autodiff/custom_gradient.h"
#include "etude/autodiff/gradient.h"
#include "etude/autodiff/gradient_tape.h"
#include "etude/core/call/builtin.h"
#include "etude/core/context/context.h"
#include "etude/diff.h"
#include "etude/ops.h"
#include "tests/gradient/expect.h"

namespace etude {
namespace {

using std::vector;

constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN();
// Nothing that is denormal, nor whose reciprocal is: kernels take that for 0.
const vector<double> kPoints = {0.0,   -0.0, 1.0,   -1.0,   0.5,    -0.5,    2.0,   -2.0,  kInf,
                                -kInf, kNan, 1e300, -1e300, 1e-300, -1e-300, 600.0, -750.0};
const vector<double> kFew = {0.0, -0.0, 1.0, -2.0, 0.5, kInf, -kInf, kNan, 1e-300, 1e300};

// Functions of one number, and of two, by the names that numbers and ops share.
// clang-format off
#define ETUDE_BOTH(F) \
  F(abs) F(exp) F(exp2) F(expm1) F(log) F(log2) F(log10) F(log1p) F(sqrt) F(cbrt) F(sin) F(cos) \
  F(tan) F(asin) F(acos) F(atan) F(sinh) F(cosh) F(tanh) F(asinh) F(acosh) F(atanh) F(erf) \
  F(erfc) F(lgamma)
// clang-format on
#define ETUDE_BOTH_OF_TWO(F) F(pow) F(atan2) F(hypot) F(copysign)

template <class S>
S call(const std::string& name, const S& a, const S& b) {
#define ETUDE_CASE(f) \
  if (name == #f) return S(f(a));
  ETUDE_BOTH(ETUDE_CASE)
#undef ETUDE_CASE
#define ETUDE_CASE(f) \
  if (name == #f) return S(f(a, b));
  ETUDE_BOTH_OF_TWO(ETUDE_CASE)
#undef ETUDE_CASE
  return a;
}
const vector<std::string>& functions() {
#define ETUDE_NAME(f) #f,
  static const vector<std::string> all = {"", ETUDE_BOTH(ETUDE_NAME) ETUDE_BOTH_OF_TWO(ETUDE_NAME)};
#undef ETUDE_NAME
  return all;
}
bool reads_both(const std::string& name) {
  return name == "pow" || name == "atan2" || name == "hypot" || name == "copysign";
}

struct Slopes {
  vector<double> a, b;
};

// Each point with each of the few, or with 1 where no function reads it.
Slopes grid(bool both) {
  Slopes at;
  for (const double a : both ? kFew : kPoints) {
    for (const double b : both ? kFew : vector{1.0}) at.a.push_back(a), at.b.push_back(b);
  }
  return at;
}
vector<double> values(const Tensor& x, std::size_t size) {
  return x.has_value() ? x.to_vector<double>() : vector<double>(size);
}
// The points at which no operand of asinh has a square that overflows.
Slopes without_large(const std::string& inner, const std::string& outer, const Slopes& all) {
  constexpr double kMost = 1e150;
  Slopes at;
  for (std::size_t i = 0; i < all.a.size(); ++i) {
    const auto f = [&](const auto& a, const auto& b) { return call(inner, a, b); };
    const double within = value_with_gradient(f, all.a[i], all.b[i]).first;
    const bool of_inner = inner == "asinh" && std::abs(all.a[i]) > kMost && !std::isinf(all.a[i]);
    const bool of_outer = outer == "asinh" && std::abs(within) > kMost && !std::isinf(within);
    if (of_inner || of_outer) continue;
    at.a.push_back(all.a[i]), at.b.push_back(all.b[i]);
  }
  return at;
}
template <class F>
Slopes by_tape(const F& f, const Slopes& at, const Tensor& ct = {}) {
  const Tensor a(at.a), b(at.b);
  GradientTape tape({.persistent = true});
  tape.watch(a);
  tape.watch(b);
  Tensor y = f(a, b);
  if (ct.has_value()) y = y * ct;
  tape.stop();
  return {values(tape.gradient(y, a), at.a.size()), values(tape.gradient(y, b), at.a.size())};
}
template <class F>
Slopes by_jvp(const F& f, const Slopes& at, double scale = 1) {
  const Tensor a(at.a), b(at.b), one = scale * ones_like(a), none = zeros_like(a);
  const std::tuple point(a, b);
  return {values(jvp(f, point, std::tuple(one, none)).second, at.a.size()),
          values(jvp(f, point, std::tuple(none, one)).second, at.a.size())};
}

// Numbers and double kernels call the same functions; products may be rounded once more, and
// kernels treat denormal numbers as 0.
bool near(double x, double y) {
  if (x == y || (std::isnan(x) && std::isnan(y))) return true;
  if (!std::isfinite(x) || !std::isfinite(y)) return false;
  return std::abs(x - y) <=
         std::max(std::numeric_limits<double>::min(), 1e-12 * std::max(std::abs(x), std::abs(y)));
}

struct Faults {
  int count = 0;
  void compare(const std::string& what, const Slopes& at, const Slopes& got, const Slopes& want) {
    for (std::size_t i = 0; i < at.a.size(); ++i) {
      for (const auto& [x, y] : {std::pair(got.a[i], want.a[i]), std::pair(got.b[i], want.b[i])}) {
        if (near(x, y) || ++count > 40) continue;
        ADD_FAILURE() << what << " at (" << at.a[i] << ", " << at.b[i] << "): " << x << ", not "
                      << y;
      }
    }
  }
};

// spec: D36
TEST(SingularPointsOfOps, AsOfNumbersInBothModes) {
  Faults faults;
  for (const std::string& inner : functions()) {
    for (const std::string& outer : functions()) {
      if (outer.empty()) continue;
      const auto f = [&](const auto& a, const auto& b) {
        return call(outer, call(inner, a, b), b);
      };
      const std::string what = outer + "(" + inner + ")";
      Slopes at = grid(reads_both(outer) || reads_both(inner));
      // The slope of the op asinh, which complex numbers have too, squares its operand.
      if (outer == "asinh" || inner == "asinh") at = without_large(inner, outer, at);
      Slopes want;
      for (std::size_t i = 0; i < at.a.size(); ++i) {
        const auto [da, db] = gradient(f, at.a[i], at.b[i]);
        want.a.push_back(da), want.b.push_back(db);
      }
      faults.compare("tape: " + what, at, by_tape(f, at), want);
      faults.compare("jvp: " + what, at, by_jvp(f, at), want);
    }
  }
  EXPECT_EQ(faults.count, 0);
}

// Where nothing arrives nothing is given, whatever the slope.
TEST(SingularPointsOfOps, ZerosAreStrong) {
  Faults faults;
  for (const std::string& name : functions()) {
    if (name.empty()) continue;
    const auto f = [&](const auto& a, const auto& b) { return call(name, a, b); };
    const auto times_zero = [&](const auto& a, const auto& b) { return f(a, b) * 0.0; };
    const Slopes at = grid(reads_both(name));
    const vector<double> zeros(at.a.size());
    faults.compare("tape: 0 " + name, at, by_tape(f, at, zeros_like(Tensor(at.a))), {zeros, zeros});
    faults.compare("tape: " + name + " * 0", at, by_tape(times_zero, at), {zeros, zeros});
    faults.compare("jvp: " + name + " * 0", at, by_jvp(times_zero, at), {zeros, zeros});
    faults.compare("jvp: " + name + " along 0", at, by_jvp(f, at, 0), {zeros, zeros});
  }
  EXPECT_EQ(faults.count, 0);
}

// The half that `where` leaves out does not spoil the other.
TEST(SingularPointsOfOps, WhatWhereLeavesOut) {
  const Tensor x(vector<double>{-4, 0, 4});
  const auto f = [](const Tensor& v) { return sum(where(v > 0.0, sqrt(v), v)); };
  EXPECT_EQ(gradient(f, x).to_vector<double>(), (vector<double>{1, 1, 0.25}));
  const auto length = [](const Tensor& v) { return sqrt(sum(v * v)); };
  EXPECT_EQ(gradient(length, zeros_like(x)).to_vector<double>(), (vector<double>(3)));
}

// The middle factor is a constant to derivatives of all orders.
TEST(SingularPointsOfOps, StopGradientStopsAllOrders) {
  const Tensor x(vector<double>{3}), v(vector<double>{1});
  const auto f = [](const Tensor& at) { return sum(at * stop_gradient(at) * at); };
  const auto slope = [&](const Tensor& at) { return sum(gradient(f, at)); };
  EXPECT_EQ(gradient(f, x).to_vector<double>()[0], 18);
  EXPECT_EQ(gradient(slope, x).to_vector<double>()[0], 6);
  EXPECT_EQ(values(jvp(slope, x, v).second, 1)[0], 6);
  EXPECT_EQ(hvp(f, x, v).to_vector<double>()[0], 6);
  const auto along = [&](const Tensor& at) { return jvp(f, at, v).second; };
  EXPECT_EQ(values(jvp(along, x, v).second, 1)[0], 6);
  EXPECT_EQ(gradient(along, x).to_vector<double>()[0], 6);
}

}  // namespace
}  // namespace etude
