// SPDX-License-Identifier: Apache-2.0
// A table of small programs: the forms that operators have, the arguments that they take, and
// methods that take derivatives. Each operator inside of each other: operator_nestings_test.cc.
#include "etude/diff/scalar_expect.h"

namespace etude::operator_forms_test {
namespace {

// The derivative of f by one number, where five are recorded.
template <class F, class T>
T slope_by_tape(const F& f, const T& x) {
  return gradient([&](const auto& v) { return f(v[0]); }, std::vector<T>(5, x))[0];
}

// spec: D27.c
TEST(OperatorNesting, FunctionsOfTheStandardTakeNumbersOfSeveralLevels) {
  const auto slope = [](const auto& a) {
    using T = std::remove_cvref_t<decltype(a)>;
    const auto inner = [&](const auto& x) {
      return std::pow(x, a) + std::max(a, x * x) - std::atan2(a, x);
    };
    return derivative(inner, T(2)) + slope_by_tape(inner, T(2));
  };
  // Twice a 2^(a-1) + 4 + a / (4 + a^2), at a = 3.
  EXPECT_NEAR(slope(3.0), 2 * (12 + 4 + 3.0 / 13), 1e-12);
  const double wanted = 2 * (4 + 12 * std::log(2.0) + (4 - 9) / 169.0);
  EXPECT_NEAR(derivative(slope, 3.0), wanted, 1e-12);
  EXPECT_NEAR(slope_by_tape(slope, 3.0), wanted, 1e-12);
}

// Newton's method for y^3 = a, whose steps take derivatives of a function that captures a.
const auto newton_root = [](const auto& a) {
  using T = std::remove_cvref_t<decltype(a)>;
  const auto miss = [&](const auto& y) { return y * y * y - a; };
  T y = 1;
  for (int i = 0; i < 12; ++i) y -= miss(y) / derivative(miss, y);
  return y;
};
// Newton's method for the minimum of two numbers' function, by the Hessian.
const auto newton_minimum = [](const auto& a) {
  using T = std::remove_cvref_t<decltype(a)>;
  const auto f = [&](const auto& v) { return exp(v[0]) - a * v[0] + v[1] * v[1] - v[0] * v[1]; };
  std::array<T, 2> v = {T(0), T(0)};
  for (int i = 0; i < 12; ++i) {
    const auto g = gradient(f, v);
    const auto h = hessian(f, v);
    const T det = h[0][0] * h[1][1] - h[0][1] * h[1][0];
    v[0] -= (h[1][1] * g[0] - h[0][1] * g[1]) / det;
    v[1] -= (h[0][0] * g[1] - h[1][0] * g[0]) / det;
  }
  return v[0];
};

// spec: D27.c
TEST(OperatorNesting, NewtonsMethodInsideOfADerivative) {
  EXPECT_NEAR(newton_root(8.0), 2, 1e-12);
  EXPECT_NEAR(derivative(newton_root, 8.0), 1.0 / 12, 1e-12);
  EXPECT_NEAR(slope_by_tape(newton_root, 8.0), 1.0 / 12, 1e-12);
  // At the minimum exp(v0) - v0 / 2 = a, so that v0' = 1 / (exp(v0) - 1/2).
  const double wanted = 1 / (std::exp(newton_minimum(2.0)) - 0.5);
  EXPECT_NEAR(derivative(newton_minimum, 2.0), wanted, 1e-12);
  EXPECT_NEAR(slope_by_tape(newton_minimum, 2.0), wanted, 1e-12);
}

// spec: D20, D27.g
TEST(OperatorArguments, NumbersOfSeveralKinds) {
  const auto product = [](auto x, auto y) { return x * x * y; };
  EXPECT_EQ(gradient(product, 2.0f, 3.0), (std::tuple<float, double>(12, 4)));
  EXPECT_EQ(gradient(product, 2.0, 3.0f), (std::tuple<double, float>(12, 4)));
  EXPECT_EQ(value_with_gradient(product, 3.0f, 0.1).first, 9 * 0.1);  // in double
  EXPECT_EQ(pullback(product, 2.0f, 3.0)(1), (std::tuple<float, double>(12, 4)));
  EXPECT_EQ(jvp(product, 2.0f, 3.0, 1.0f, 0.0).second, 12);
  EXPECT_EQ(gradient([](const auto& p) { return p.first * p.second; }, std::pair(2.0f, 3.0)),
            (std::pair<float, double>(3, 2)));
  const auto lists = [](const auto& v, auto y) { return v[0] * v[1] * y; };
  EXPECT_EQ(std::get<0>(gradient(lists, std::vector<float>{2, 3}, 4.0)),
            (std::vector<float>{12, 8}));
  // A plain argument together with an argument of an outer derivative: its tangent belongs to the
  // outer derivative too.
  const auto by_plain = [&](auto a) { return std::get<1>(gradient(product, a, 3.0)); };
  EXPECT_EQ(derivative(by_plain, 2.0), 4);
  EXPECT_EQ(slope_by_tape(by_plain, 2.0), 4);
  const auto by_tape = [&](auto a) { return std::get<1>(gradient(lists, Vector{2, 3, 4}, a)); };
  EXPECT_EQ(derivative(by_tape, 2.0), 0);
  // An excluded argument of another type is unchanged.
  const auto data = [](auto x, const std::vector<float>& v) { return x * v[0]; };
  EXPECT_EQ(gradient(data, 2.0, no_derivative(std::vector<float>{3})), 3);
  EXPECT_EQ(gradient([](Real x, double k) { return x * k; }, Real(2), no_derivative(3.0)).value(),
            3);
  // Plain numbers with an excluded outer number: no capture, and no conversion of the plain
  // numbers.
  const auto kept = [&](auto a) { return gradient(product, 2.0, no_derivative(a)); };
  EXPECT_EQ(derivative(kept, 3.0), 4);
  EXPECT_EQ(slope_by_tape(kept, 3.0), 4);
  const auto bent = [&](auto a) { return hessian(lists, Vector{2, 3}, no_derivative(a))[0][1]; };
  EXPECT_EQ(derivative([&](auto a) { return bent(a * a); }, 3.0), 6);
  EXPECT_EQ(slope_by_tape([&](auto a) { return bent(a * a); }, 3.0), 6);
  const auto pulled = [&](auto a) {
    return pullback(lists, five, no_derivative(a))(decltype(a)(1));
  };
  EXPECT_EQ(derivative([&](auto a) { return pulled(a * a)[0]; }, 3.0), 12);
  const auto along = [](auto a) { return jvp([](auto x) { return x * x; }, 2.0, a).second; };
  EXPECT_EQ(derivative(along, 3.0), 4);
}

template <class T>
struct Spring {
  T stiffness, length;
  NoDerivative<T> limit{T(10)};
  std::string name;
};
template <class T>
struct Point {
  T x, y;
};
struct Rates {
  Real fast, slow;
};
using Matrix = std::vector<Vector>;

// spec: D37
TEST(OperatorForms, JacobiansOfAllShapes) {
  const auto pair = [](auto x, auto y) { return std::tuple{x * y, x - y}; };
  using Rows = std::tuple<std::tuple<double, double>, std::tuple<double, double>>;
  EXPECT_EQ(jacobian(pair, 2.0, 3.0), (Rows{{3, 2}, {1, -1}}));
  EXPECT_EQ(forward_jacobian(pair, 2.0, 3.0), (Rows{{3, 2}, {1, -1}}));
  EXPECT_EQ(jacobian(pair, 2.0, no_derivative(3.0)), std::tuple(3, 1));
  EXPECT_EQ(forward_jacobian(pair, 2.0, no_derivative(3.0)), std::tuple(3, 1));
  const auto turned = [](const auto& v) { return std::array{v[1] * v[1], v[0], v[0] * v[1]}; };
  const std::array<std::array<double, 2>, 3> of_array = {{{0, 6}, {1, 0}, {3, 2}}};
  EXPECT_EQ(jacobian(turned, std::array{2.0, 3.0}), of_array);
  EXPECT_EQ(forward_jacobian(turned, std::array{2.0, 3.0}), of_array);
  const auto scaled_by_first = [](auto v) {
    for (auto& e : v) e = e * v[0];
    return v;
  };
  const Vector six = {1, 2, 3, 4, 5, 6};  // two runs of four and two
  EXPECT_EQ(forward_jacobian(scaled_by_first, six), jacobian(scaled_by_first, six));
  EXPECT_EQ(jacobian(product, five), slopes_at_five);

  const auto of_struct = [](const auto& p) { return Point{p.x * p.y, p.x}; };
  const auto rows = jacobian(of_struct, Point<double>{2, 3});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].x, 3);
  EXPECT_EQ(rows[1].y, 0);
  EXPECT_EQ(forward_jacobian(of_struct, Point<double>{2, 3})[0].y, 2);
  const auto on_real = [](const Rates& r) { return Reals{r.fast * r.slow, r.slow}; };
  const auto of_rates = jacobian(on_real, Rates{2, 3});
  EXPECT_EQ(of_rates[0].fast.value(), 3);
  EXPECT_EQ(of_rates[1].slow.value(), 1);
  const auto on_reals = [](const Reals& v) { return Reals{v[0] * v[1]}; };
  EXPECT_EQ(jacobian(on_reals, Vector{2, 3}), (Matrix{{3, 2}}));
}

// spec: D27.b
TEST(OperatorForms, HessiansOfAllShapes) {
  const auto f = [](const auto& v) { return v[0] * v[0] * v[1]; };
  EXPECT_EQ(hessian(f, Vector{2, 3}), (Matrix{{6, 4}, {4, 0}}));
  EXPECT_EQ(hessian(f, std::array{2.0, 3.0}),
            (std::array<std::array<double, 2>, 2>{{{6, 4}, {4, 0}}}));
  EXPECT_EQ(hessian([](auto x) { return x * x * x; }, 2.0), 12);
  const auto g = [](auto x, auto y) { return x * x * y; };
  using Blocks = std::tuple<std::tuple<double, double>, std::tuple<double, double>>;
  EXPECT_EQ(hessian(g, 2.0, 3.0), (Blocks{{6, 4}, {4, 0}}));
  EXPECT_EQ(hessian(g, 2.0, no_derivative(3.0)), 6);
  EXPECT_EQ(hvp(g, std::tuple(2.0, 3.0), {1, 0}), std::tuple(6, 4));
  EXPECT_EQ(hvp(g, 2.0, 3.0, 0.0, 1.0), std::tuple(4, 0));

  const auto energy = [](const auto& s) { return s.stiffness * s.stiffness * s.length; };
  const Spring<double> spring{2, 3, {10}, "left"};
  const auto rows = hessian(energy, spring);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0][&Spring<double>::stiffness], 6);
  EXPECT_EQ(rows[0][&Spring<double>::length], 4);
  EXPECT_EQ(rows[1][&Spring<double>::stiffness], 4);
  auto along = zero_tangent(spring);
  get<&Spring<double>::length>(along) = 1;
  EXPECT_EQ(get<&Spring<double>::stiffness>(hvp(energy, spring, along)), 4);
  EXPECT_EQ(hessian(f, Reals{2, 3})[0][1].value(), 4);
}

// spec: D22
TEST(OperatorForms, AnAuxiliaryResultBesideTheValue) {
  const auto loss = [](const auto& v) {
    auto squares = v;
    auto sum = v[0] * 0.0;
    for (auto& e : squares) sum += e *= e;
    return with_aux(sum, std::pair(std::string("squares"), squares));
  };
  const auto [taped, slopes] = value_with_gradient(loss, five);
  EXPECT_EQ(taped.value, 55);
  EXPECT_EQ(taped.aux.first, "squares");
  EXPECT_EQ(taped.aux.second, (Vector{1, 4, 9, 16, 25}));
  EXPECT_EQ(slopes, (Vector{2, 4, 6, 8, 10}));
  const auto [forward, few] = value_with_gradient(loss, std::array{1.0, 2.0});
  EXPECT_EQ(forward.value, 5);
  EXPECT_EQ(forward.aux.second, (std::array{1.0, 4.0}));
  EXPECT_EQ(few, (std::array{2.0, 4.0}));
  EXPECT_EQ(gradient(loss, five), slopes);
  const auto nested = [](auto a) {
    const auto inner = [&](auto x) { return with_aux(a * x * x, a * x); };
    const auto [result, slope] = value_with_gradient(inner, decltype(a)(2));
    return slope * result.aux;  // 4 a * 2 a
  };
  EXPECT_EQ(derivative(nested, 3.0), 48);
  EXPECT_EQ(slope_by_tape(nested, 3.0), 48);
}

constexpr auto cube = [](auto x) { return x * x * x; };
constexpr auto powers = [](auto x) {
  decltype(x) sum = 0;
  for (int i = 0; i < 3; ++i) sum += i * x * x;
  return sum;
};
static_assert(gradient(cube, 2.0) == 12 && derivative(cube, 2.0) == 12);
static_assert(value_with_gradient(powers, 2.0) == std::pair(12.0, 12.0));
static_assert(gradient([](auto x, auto y) { return x / y; }, 6.0, 2.0) == std::tuple(0.5, -1.5));
static_assert(gradient([](const auto& p) { return p.x * p.y; }, Point<double>{2, 3}).x == 3);
static_assert(gradient([](auto x) { return gradient(cube, x); }, 2.0) == 12);
constexpr auto volume = [](auto x, auto y) { return x * x * y; };
static_assert(jvp(cube, 2.0, 0.5) == std::pair(8.0, 6.0));
static_assert(jvp(volume, 2.0, 3.0, 1.0, 0.5) == std::pair(12.0, 14.0));
static_assert(differential(volume, 2.0, 3.0)(1.0, 0.5) == 14);
static_assert(jvp([](const auto& p) { return p.x * p.y; }, Point<double>{2, 3}, {1, 0}).second ==
              3);
static_assert(forward_jacobian([](auto x) { return std::array{x, x * x}; }, 2.0)[1] == 4);
static_assert(hessian(cube, 2.0) == 12 && hvp(cube, 2.0, 0.5) == 6);
static_assert(hessian(volume, 2.0, 3.0) == std::tuple(std::tuple(6.0, 4.0), std::tuple(4.0, 0.0)));
static_assert(hessian([](const auto& v) { return v[0] * v[0] * v[1]; }, std::array{2.0, 3.0}) ==
              std::array{std::array{6.0, 4.0}, std::array{4.0, 0.0}});
static_assert(hvp(volume, 2.0, 3.0, 0.0, 1.0) == std::tuple(4.0, 0.0));
static_assert(derivative([](auto x) { return jvp(cube, x, x).second; }, 2.0) == 36);

// spec: D30
TEST(OperatorForms, ScansWithoutParameters) {
  const auto doubled = [](auto s) { return scan(3, s, [](auto at) { return 2.0 * at; }); };
  EXPECT_EQ(doubled(1.0), 8);
  EXPECT_EQ(pullback(doubled, 1.0)(1), 8);
  EXPECT_EQ(derivative(doubled, 1.0), 8);
  const auto chain = [](const auto& v) {
    return scan(
        v.size(), 1.0, [](auto at, auto e) { return at * e; }, v);
  };
  EXPECT_EQ(gradient(chain, five), slopes_at_five);
  const auto sum = [](const auto& v) {
    return scan(
        v.size(), 0.0, [](auto at, auto e) { return at + e * e; }, v);
  };
  EXPECT_EQ(gradient(sum, five), (Vector{2, 4, 6, 8, 10}));
}

}  // namespace
}  // namespace etude::operator_forms_test
