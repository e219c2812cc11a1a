// SPDX-License-Identifier: Apache-2.0
// Other containers and fields than vectors, maps and plain structs: lists, valarrays, C arrays,
// sets of keys, and classes that list their fields. Each by hand and in all modes.
#include <array>
#include <list>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <valarray>

#include <gtest/gtest.h>

#include "etude/diff.h"

namespace etude::container_types_test {
namespace {

// f(x), its gradient g as numbers in order, and agreement of the modes: jvp along 2 g is 2 g.g, and
// the pullback of 3 is 3 g.
template <class F, class X>
void expect_gradient(const F& f, const X& x, double value, const std::vector<double>& want) {
  const auto [got, g] = value_with_gradient(f, x);
  EXPECT_EQ(got, value);
  std::vector<double> numbers;
  auto collect = [&](const double& leaf) { numbers.push_back(leaf); };
  internal::each_leaf(g, collect);
  EXPECT_EQ(numbers, want);
  EXPECT_EQ(jvp(f, x, scaled(g, 2)).second, 2 * dot(g, g));
  EXPECT_EQ(dot(pullback(f, x)(3.0), g), 3 * dot(g, g));
  X moved = x;
  move(moved, scaled(g, 1e-3));
  EXPECT_NEAR(f(moved) - f(x), 1e-3 * dot(g, g), 1e-3 * dot(g, g));
}

// spec: D7.b
TEST(ContainerTypes, ListsAndValarrays) {
  const auto ends = [](const auto& x) {
    auto product = *std::begin(x);
    for (const auto& e : x) product = product * e;
    return product;
  };
  expect_gradient(ends, std::list{2.0, 3.0}, 12, {12, 4});
  expect_gradient(ends, std::valarray{2.0, 3.0}, 12, {12, 4});
  expect_gradient([](const auto& x) { return (x * x).sum(); }, std::valarray{2.0, 3.0}, 13, {4, 6});
  static_assert(std::is_same_v<tangent_t<std::list<double>>, std::list<double>>);
  static_assert(!Differentiable<std::list<int>> && !Differentiable<std::valarray<int>>);
  EXPECT_EQ(zero_tangent(std::list{2.0, 3.0}), (std::list{0.0, 0.0}));
  std::list<double> list{1, 2};
  EXPECT_THROW(move(list, std::list{1.0}), Error);
}

template <class T>
struct Plate {
  T corner[3];
  std::list<T> edges;
  T grid[2][2];
  std::set<int> holes;
  std::map<int, std::string> names;
  char tag[4];
};

// spec: D3, D7.b
TEST(ContainerTypes, FieldsOfEveryKind) {
  const Plate<double> plate{{2, 3, 5}, {7, 11}, {{1, 2}, {3, 4}}, {1, 2}, {{1, "a"}}, "abc"};
  const auto f = [](const auto& p) {
    return p.corner[0] * p.corner[1] * p.edges.back() + p.grid[1][0] * p.grid[0][1] +
           p.corner[2] * static_cast<double>(p.holes.size()) + (p.tag[1] == 'b' ? 1 : 0);
  };
  expect_gradient(f, plate, 83, {33, 22, 2, 0, 6, 0, 3, 2, 0});
  const auto g = gradient(f, plate);
  static_assert(std::is_same_v<tangent_t<double[2][2]>, std::array<std::array<double, 2>, 2>>);
  EXPECT_EQ(g[&Plate<double>::corner], (std::array{33.0, 22.0, 2.0}));
  EXPECT_EQ((get<&Plate<double>::grid>(g)[1][0]), 2);
  EXPECT_EQ((zero_tangent(plate)[&Plate<double>::edges]), (std::list{0.0, 0.0}));
}

// Made by its constructor only, which takes something else than the fields.
template <class T>
class Spring {
 public:
  Spring() = default;
  explicit Spring(const T& period) : stiffness_(T(1) / (period * period)), length_(T(1)) {}
  T energy(const T& x) const { return stiffness_ * (x - length_) * (x - length_); }

 private:
  T stiffness_, length_;
  T limits_[2] = {T(1), T(2)};
  ETUDE_FIELDS(Spring, stiffness_, length_, limits_);
};
template <class T>
struct Named {
  T offset;
};
template <class T>
struct Loaded : Named<T> {
  Spring<T> spring;
  ETUDE_FIELDS(Loaded, offset, spring);
};

// A class that lists no field has a tangent without slots, as layers without parameters do.
class Fixed {
 public:
  explicit Fixed(int size) : size_(size) {}
  int size() const { return size_; }

 private:
  int size_;
  ETUDE_FIELDS(Fixed);
};
static_assert(Differentiable<Fixed>);

// spec: D18
TEST(ContainerTypes, PrivateFieldsConstructorsAndBases) {
  const auto energy = [](const auto& s) {
    using T = std::remove_cvref_t<decltype(s.energy(1.0))>;
    return s.energy(T(3.0));
  };
  const Spring<double> spring(0.5);
  expect_gradient(energy, spring, 16, {4, -16, 0, 0});
  EXPECT_EQ(gradient(energy, spring).length_, -16);
  Loaded<double> loaded;
  loaded.offset = 5;
  loaded.spring = spring;
  const auto f = [&](const auto& l) { return l.offset * energy(l.spring); };
  expect_gradient(f, loaded, 80, {16, 20, -80, 0, 0});
  EXPECT_EQ(gradient(f, loaded).offset, 16);
}

// Two numbers that no one sees.
template <class T>
class Damper {
 public:
  Damper() = default;
  Damper(T rate, T offset) : rate_(rate), offset_(offset) {}
  T force(T speed) const { return rate_ * rate_ * speed + offset_ * offset_ * offset_; }

 private:
  T rate_, offset_;
  ETUDE_FIELDS(Damper, rate_, offset_);
};
template <class T>
struct Cells {
  T at[2][2];
  T size;
};

// spec: D7.b, D27.b
TEST(ContainerTypes, SecondDerivativesAndRows) {
  const auto ends = [](const auto& l) { return l.front() * l.front() * l.back(); };
  EXPECT_EQ(hessian(ends, std::list{2.0, 3.0}).front(), (std::list{6.0, 4.0}));
  const auto rows_of = [](const auto& l) { return std::list{l.back() * l.front(), l.back()}; };
  EXPECT_EQ(jacobian(rows_of, std::list{2.0, 3.0}).front(), (std::list{3.0, 2.0}));
  const auto elements = [](const auto& x) { return x[0] * x[0] * x[1]; };
  EXPECT_EQ(hessian(elements, std::valarray{2.0, 3.0})[0][1], 4);
  EXPECT_EQ(hvp(elements, std::valarray{2.0, 3.0}, std::valarray{1.0, 0.0})[0], 6);
  const auto force = [](const auto& d) { return d.force(2.0); };
  EXPECT_EQ(hessian(force, Damper<double>(3, 1))[0].rate_, 4);
  EXPECT_EQ(hessian(force, Damper<double>(3, 1))[1].offset_, 6);
  const auto volume = [](const auto& c) { return c.at[0][1] * c.at[0][1] * c.size; };
  const Cells<double> cells{{{1, 2}, {3, 4}}, 5};
  EXPECT_EQ(get<&Cells<double>::size>(hessian(volume, cells)[1]), 4);
}

// spec: D20, D27.g
TEST(ContainerTypes, InsideOfOtherDerivatives) {
  const auto captured = [](auto a) {
    const auto inner = [&](const auto& d) { return a * d.force(a); };
    return gradient(inner, Damper<decltype(a)>(3, 1)).rate_;  // 6 a^2
  };
  EXPECT_EQ(derivative(captured, 2.0), 24);
  const auto plain_beside = [](auto a) {
    const auto product = [](auto x, const auto& d) { return x * d.force(1.0); };
    return std::get<1>(gradient(product, a, Damper<double>(3, 1))).rate_;
  };
  EXPECT_EQ(derivative(plain_beside, 2.0), 6);
  const auto product = [](const auto& l, auto y) { return l.front() * l.back() * y; };
  EXPECT_EQ(std::get<0>(gradient(product, std::list{2.0f, 3.0f}, 4.0)), (std::list{12.0f, 8.0f}));
}

}  // namespace
}  // namespace etude::container_types_test
