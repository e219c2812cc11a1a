// SPDX-License-Identifier: Apache-2.0
// ETUDE_DIFFERENTIABLE: derivatives of ordinary functions that are declared by a mark and defined
// as plain functions, in all operators and at second order.
#include <cmath>
#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/diff.h"

namespace etude::mark_test {

using Doubles = std::vector<double>;

struct Spring {
  double stiffness, length;
  double energy(double x) const { return 0.5 * stiffness * (x - length) * (x - length); }
};
double ridge(double x, double y) { return x * x * y; }
double element(const Doubles& v, std::size_t i) { return v[i]; }
Doubles powers(double x) { return {x * x, x * x * x}; }
double twice(double x) { return 2 * x; }
double twice(int n) { return 2 * n; }
double cubed(double x) noexcept { return x * x * x; }
// With rules that have a jvp alone.
double quartic(double x) { return x * x * x * x; }
struct Drag {
  double k;
  double force(double v) const { return k * v * v; }
};

}  // namespace etude::mark_test

ETUDE_DIFFERENTIABLE(etude::mark_test::Spring::energy);
ETUDE_DIFFERENTIABLE(etude::derivative_of<&etude::mark_test::Spring::energy>::pull);
ETUDE_DIFFERENTIABLE(etude::mark_test::ridge);
ETUDE_DIFFERENTIABLE(etude::derivative_of<&etude::mark_test::ridge>::jvp);
ETUDE_DIFFERENTIABLE(etude::derivative_of<&etude::mark_test::ridge>::pull);
ETUDE_DIFFERENTIABLE(etude::mark_test::element);
ETUDE_DIFFERENTIABLE(etude::mark_test::powers);
ETUDE_DIFFERENTIABLE(etude::mark_test::twice, double (*)(double));
ETUDE_DIFFERENTIABLE(etude::mark_test::cubed);
ETUDE_DIFFERENTIABLE(etude::derivative_of<&etude::mark_test::cubed>::jvp);
ETUDE_DIFFERENTIABLE(
    etude::derivative_of<&etude::derivative_of<&etude::mark_test::cubed>::jvp>::jvp);

template <>
struct etude::derivative_of<&etude::mark_test::quartic> {
  static std::pair<double, double> jvp(double x, double dx) {
    return {x * x * x * x, 4 * x * x * x * dx};
  }
};
template <>
struct etude::derivative_of<&etude::derivative_of<&etude::mark_test::quartic>::jvp> {
  static auto jvp(double x, double dx, double ex, double edx) {
    return std::pair{derivative_of<&etude::mark_test::quartic>::jvp(x, dx),
                     std::pair{4 * x * x * x * ex, 12 * x * x * ex * dx + 4 * x * x * x * edx}};
  }
};
template <>
struct etude::derivative_of<&etude::mark_test::Drag::force> {
  using Drag = etude::mark_test::Drag;
  static std::pair<double, double> jvp(const Drag& d, double v, const Drag& dd, double dv) {
    return {d.force(v), dd.k * v * v + 2 * d.k * v * dv};
  }
};
template <>
struct etude::derivative_of<&etude::derivative_of<&etude::mark_test::Drag::force>::jvp> {
  using Drag = etude::mark_test::Drag;
  static auto jvp(const Drag& d, double v, const Drag& dd, double dv, const Drag& ed, double ev,
                  const Drag& edd, double edv) {
    return std::pair{derivative_of<&Drag::force>::jvp(d, v, dd, dv),
                     std::pair{ed.k * v * v + 2 * d.k * v * ev, edd.k * v * v + 2 * dd.k * v * ev +
                                                                    2 * ed.k * v * dv +
                                                                    2 * d.k * (ev * dv + v * edv)}};
  }
};

namespace etude {

using mark_test::Doubles;
using mark_test::Spring;
using Energy = derivative_of<&Spring::energy>;
using EnergyPull = derivative_of<&Energy::pull>;
using Ridge = derivative_of<&mark_test::ridge>;
using RidgeJvp = derivative_of<&Ridge::jvp>;
using RidgePull = derivative_of<&Ridge::pull>;
using Element = derivative_of<&mark_test::element>;
using Powers = derivative_of<&mark_test::powers>;
using Twice = derivative_of<static_cast<double (*)(double)>(&mark_test::twice)>;
using Cubed = derivative_of<&mark_test::cubed>;
using CubedJvp = derivative_of<&Cubed::jvp>;
using CubedJvp2 = derivative_of<&CubedJvp::jvp>;

// The declared forms.
static_assert(
    std::is_same_v<decltype(&Energy::jvp),
                   std::pair<double, double> (*)(const Spring&, double, const Spring&, double)>);
static_assert(std::is_same_v<decltype(&Energy::vjp),
                             std::pair<double, Energy::Pullback> (*)(const Spring&, double)>);
static_assert(
    std::is_same_v<decltype(&Energy::joint), double (*)(const Spring&, double, Spring&, double&)>);
static_assert(std::is_same_v<decltype(&Energy::pull),
                             std::tuple<Spring, double> (*)(const Spring&, double, double)>);
static_assert(std::is_same_v<decltype(&Element::jvp),
                             std::pair<double, double> (*)(const Doubles&, std::size_t,
                                                           const Doubles&, NoTangent)>);
static_assert(
    std::is_same_v<decltype(&Powers::vjp), std::pair<Doubles, Powers::Pullback> (*)(double)>);
static_assert(std::is_invocable_v<Powers::Pullback, const Doubles&, double&>);

double Energy::joint(const Spring& s, double x, Spring& ds, double& dx) {
  const double d = x - s.length;
  ds.stiffness += 0.5 * d * d;
  ds.length -= s.stiffness * d;
  dx += s.stiffness * d;
  return 0.5 * s.stiffness * d * d;
}
std::pair<double, Energy::Pullback> Energy::vjp(const Spring& s, double x) {
  return {s.energy(x), [s, x](double dy, Spring& ds, double& dx) {
            const double d = x - s.length;
            ds.stiffness += dy * 0.5 * d * d;
            ds.length -= dy * s.stiffness * d;
            dx += dy * s.stiffness * d;
          }};
}
std::pair<double, double> Energy::jvp(const Spring& s, double x, const Spring& ds, double dx) {
  const double d = x - s.length;
  return {s.energy(x), 0.5 * ds.stiffness * d * d + s.stiffness * d * (dx - ds.length)};
}
std::tuple<Spring, double> Energy::pull(const Spring& s, double x, double dy) {
  const double d = x - s.length;
  return {Spring{dy * 0.5 * d * d, -dy * s.stiffness * d}, dy * s.stiffness * d};
}
std::pair<std::tuple<Spring, double>, std::tuple<Spring, double>> EnergyPull::jvp(
    const Spring& s, double x, double dy, const Spring& ds, double dx, double ddy) {
  const double d = x - s.length, dd = dx - ds.length;
  const double moved = ddy * s.stiffness * d + dy * ds.stiffness * d + dy * s.stiffness * dd;
  return {Energy::pull(s, x, dy), {Spring{ddy * 0.5 * d * d + dy * d * dd, -moved}, moved}};
}

double Ridge::joint(double x, double y, double& dx, double& dy) {
  dx += 2 * x * y;
  dy += x * x;
  return x * x * y;
}
std::pair<double, double> Ridge::jvp(double x, double y, double dx, double dy) {
  return {x * x * y, 2 * x * y * dx + x * x * dy};
}
std::tuple<double, double> Ridge::pull(double x, double y, double dr) {
  return {dr * 2 * x * y, dr * x * x};
}
std::pair<std::pair<double, double>, std::pair<double, double>> RidgeJvp::jvp(
    double x, double y, double dx, double dy, double ex, double ey, double edx, double edy) {
  const double of_tangent =
      (2 * y * dx + 2 * x * dy) * ex + 2 * x * dx * ey + 2 * x * y * edx + x * x * edy;
  return {Ridge::jvp(x, y, dx, dy), {2 * x * y * ex + x * x * ey, of_tangent}};
}
std::pair<std::pair<double, double>, RidgeJvp::Pullback> RidgeJvp::vjp(double x, double y,
                                                                       double dx, double dy) {
  return {Ridge::jvp(x, y, dx, dy), [=](const std::pair<double, double>& c, double& ex, double& ey,
                                        double& edx, double& edy) {
            ex += c.first * 2 * x * y + c.second * (2 * y * dx + 2 * x * dy);
            ey += c.first * x * x + c.second * 2 * x * dx;
            edx += c.second * 2 * x * y;
            edy += c.second * x * x;
          }};
}
std::pair<std::tuple<double, double>, std::tuple<double, double>> RidgePull::jvp(
    double x, double y, double dr, double ex, double ey, double edr) {
  return {Ridge::pull(x, y, dr),
          {edr * 2 * x * y + dr * 2 * (ex * y + x * ey), edr * x * x + dr * 2 * x * ex}};
}
std::pair<std::tuple<double, double>, RidgePull::Pullback> RidgePull::vjp(double x, double y,
                                                                          double dr) {
  return {Ridge::pull(x, y, dr),
          [=](const std::tuple<double, double>& c, double& ex, double& ey, double& edr) {
            const auto [a, b] = c;
            ex += dr * (2 * y * a + 2 * x * b);
            ey += dr * 2 * x * a;
            edr += 2 * x * y * a + x * x * b;
          }};
}

double Element::joint(const Doubles& v, std::size_t i, Doubles& dv, NoTangent&) {
  dv[i] += 1;
  return v[i];
}
std::pair<double, Element::Pullback> Element::vjp(const Doubles& v, std::size_t i) {
  return {v[i], [i](double dy, Doubles& dv, NoTangent&) { dv[i] += dy; }};
}
std::pair<double, double> Element::jvp(const Doubles& v, std::size_t i, const Doubles& dv,
                                       NoTangent) {
  return {v[i], dv[i]};
}

std::pair<Doubles, Powers::Pullback> Powers::vjp(double x) {
  return {mark_test::powers(x),
          [x](const Doubles& dy, double& dx) { dx += 2 * x * dy[0] + 3 * x * x * dy[1]; }};
}
std::pair<Doubles, Doubles> Powers::jvp(double x, double dx) {
  return {mark_test::powers(x), {2 * x * dx, 3 * x * x * dx}};
}

double Twice::joint(double x, double& dx) {
  dx += 2;
  return 2 * x;
}

std::pair<double, double> Cubed::jvp(double x, double dx) { return {x * x * x, 3 * x * x * dx}; }
double Cubed::joint(double x, double& dx) {
  dx += 3 * x * x;
  return x * x * x;
}
std::pair<std::pair<double, double>, std::pair<double, double>> CubedJvp::jvp(double x, double dx,
                                                                              double ex,
                                                                              double edx) {
  return {Cubed::jvp(x, dx), {3 * x * x * ex, 6 * x * ex * dx + 3 * x * x * edx}};
}
std::pair<std::pair<std::pair<double, double>, std::pair<double, double>>,
          std::pair<std::pair<double, double>, std::pair<double, double>>>
CubedJvp2::jvp(double x, double dx, double ex, double edx, double fx, double fdx, double fex,
               double fedx) {
  return {
      CubedJvp::jvp(x, dx, ex, edx),
      {{3 * x * x * fx, 6 * x * fx * dx + 3 * x * x * fdx},
       {6 * x * fx * ex + 3 * x * x * fex, 6 * fx * ex * dx + 6 * x * fex * dx + 6 * x * ex * fdx +
                                               6 * x * fx * edx + 3 * x * x * fedx}}};
}

namespace mark_test {
namespace {

using Pair = std::tuple<double, double>;
constexpr auto kRidge = [](auto x, auto y) { return differentiable<&ridge>(x, y); };

// spec: GEN1, D40.a
TEST(Marks, DeclareTheDerivative) {
  const auto [value, both] = value_with_gradient<&Spring::energy>(Spring{2, 1}, 3.0);
  EXPECT_EQ(value, 4);
  EXPECT_EQ(std::get<0>(both).stiffness, 2);
  EXPECT_EQ(std::get<0>(both).length, -4);
  EXPECT_EQ(std::get<1>(both), 4);
  EXPECT_EQ(gradient<static_cast<double (*)(double)>(&twice)>(3.0), 2);
  EXPECT_EQ(gradient<&cubed>(2.0), 12);
  const auto f = [](auto x) { return differentiable<&Spring::energy>(Spring{2, 1}, x * x); };
  EXPECT_EQ(gradient(f, 2.0), 24);
  EXPECT_EQ(pullback(f, 2.0)(1.0), 24);
  EXPECT_EQ(f(2.0), 9);
}

// The operators call the members themselves, so structs of plain numbers can be arguments.
// spec: D41, D24
TEST(Marks, ServeOperatorsOnPlainStructs) {
  const Spring spring{2, 1};
  EXPECT_EQ(jvp<&Spring::energy>(spring, 3.0, Spring{1, 1}, 1.0), std::pair(4.0, 2.0));
  EXPECT_EQ(differential<&Spring::energy>(spring, 3.0)(Spring{0, 0}, 10.0), 40);
  const auto [ds, dx] = pullback<&Spring::energy>(spring, 3.0)(10.0);
  EXPECT_EQ(std::pair(ds.stiffness, ds.length), std::pair(20.0, -40.0));
  EXPECT_EQ(dx, 40);
  EXPECT_EQ(derivative<&cubed>(2.0), 12);
  EXPECT_EQ(value_with_derivative<&cubed>(2.0), std::pair(8.0, 12.0));
  // A jvp alone: one run for each number.
  const auto [dd, dv] = gradient<&Drag::force>(Drag{2}, 3.0);
  EXPECT_EQ(std::pair(dd.k, dv), std::pair(9.0, 12.0));
}

// spec: D41, D24
TEST(Marks, ServeForwardAndReverseMode) {
  EXPECT_EQ(gradient(kRidge, 3.0, 2.0), Pair(12, 9));
  EXPECT_EQ(jvp(kRidge, 3.0, 2.0, 1.0, 10.0), std::pair(18.0, 102.0));
  EXPECT_EQ(pullback(kRidge, 3.0, 2.0)(10.0), Pair(120, 90));
  const auto fifth = [](auto x) {  // x^5, by a function with several results
    const auto p = differentiable<&powers>(x * 1.0);
    return p[0] * p[1];
  };
  EXPECT_EQ(gradient(fifth, 2.0), 80);
  EXPECT_EQ(derivative(fifth, 2.0), 80);
  EXPECT_EQ(pullback(fifth, 2.0)(1.0), 80);
  EXPECT_EQ(jvp<&powers>(2.0, 10.0), std::pair(Doubles({4, 8}), Doubles({40, 120})));
  const auto [value, pull] = value_with_pullback<&powers>(2.0);
  EXPECT_EQ(value, Doubles({4, 8}));
  EXPECT_EQ(pull({1, 10}), 124);
  try {
    pull({1, 10, 100});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("pullback: "), std::string::npos) << error.what();
  }
  const auto of_element = [](const auto& v) { return differentiable<&element>(v, 1UL) * v[0]; };
  EXPECT_EQ(gradient(of_element, Doubles{2, 3, 4, 5, 6}), Doubles({3, 2, 0, 0, 0}));
  EXPECT_EQ(jvp(of_element, Doubles{2, 3}, Doubles{1, 10}), std::pair(6.0, 23.0));
}

// Of x^4, in all nestings of two modes.
template <class F>
void expect_fourth_power(const F& f) {
  const auto forward = [&](auto x) { return derivative(f, x); };
  const auto reverse = [&](auto x) { return pullback(f, x)(decltype(x)(1.0)); };
  EXPECT_EQ(derivative(forward, 2.0), 48);
  EXPECT_EQ(derivative(reverse, 2.0), 48);
  EXPECT_EQ(pullback(forward, 2.0)(1.0), 48);
  EXPECT_EQ(pullback(reverse, 2.0)(1.0), 48);
  EXPECT_EQ(gradient([&](auto x) { return gradient(f, x); }, 2.0), 48);
}

// spec: D27.c
TEST(Marks, OfMarksAreSecondDerivatives) {
  expect_fourth_power([](auto x) { return differentiable<&ridge>(x, x * x); });
  expect_fourth_power([](auto x) { return differentiable<&quartic>(x); });  // by jvp alone
  EXPECT_EQ(hessian(kRidge, 3.0, 2.0), std::tuple(Pair(4, 6), Pair(6, 0)));
  EXPECT_EQ(hessian<&ridge>(3.0, 2.0), std::tuple(Pair(4, 6), Pair(6, 0)));
  EXPECT_EQ(hvp(kRidge, 3.0, 2.0, 1.0, 10.0), Pair(64, 6));
  EXPECT_EQ(hvp<&ridge>(3.0, 2.0, 1.0, 10.0), Pair(64, 6));
  const auto of_five = [](const auto& v) { return differentiable<&ridge>(v[0], v[1]) + v[2]; };
  EXPECT_EQ(hvp(of_five, Doubles{3, 2, 0, 0, 0}, Doubles{1, 10, 0, 0, 0}),
            Doubles({64, 6, 0, 0, 0}));
  // Structs of plain numbers, by the derivative of pull, and of jvp.
  const auto [ds, dx] = hvp<&Spring::energy>(Spring{2, 1}, 3.0, Spring{1, 0}, 0.0);
  EXPECT_EQ(std::pair(ds.stiffness, ds.length), std::pair(0.0, -2.0));
  EXPECT_EQ(dx, 2);
  const auto [dd, dv] = hvp<&Drag::force>(Drag{2}, 3.0, Drag{1}, 0.0);
  EXPECT_EQ(std::pair(dd.k, dv), std::pair(0.0, 6.0));
  // Third order: a mark of a mark of a mark.
  const auto slope = [](auto x) { return derivative(differentiable<&cubed>, x); };
  const auto second = [&](auto x) { return derivative(slope, x); };
  EXPECT_EQ(second(2.0), 12);
  EXPECT_EQ(derivative(second, 2.0), 6);
}

}  // namespace
}  // namespace mark_test
}  // namespace etude
