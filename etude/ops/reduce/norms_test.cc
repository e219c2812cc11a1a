// SPDX-License-Identifier: Apache-2.0
// Euclidean norms whose squares leave the range of the dtype.
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/batch.h"
#include "etude/autodiff/gradient.h"
#include "etude/lazy/lazy.h"
#include "etude/ops.h"
#include "etude/ops/gradient_of.h"
#include "etude/ops/linalg.h"
#include "etude/stage/function.h"

namespace etude::norms_test {
namespace {

using Doubles = std::vector<double>;

const Doubles kUnit = {3, -4, 1, 2.5, -.5, 7};  // [2,3]

Tensor scaled(const Doubles& x, double s, DType dtype) {
  Doubles out;
  for (const double v : x) out.push_back(v * s);
  return astype(Tensor(out, {2, 3}), dtype);
}

// By long double.
double length_of(const Doubles& x) {
  long double squares = 0;
  for (const double v : x) squares += static_cast<long double>(v) * v;
  return static_cast<double>(std::sqrt(squares));
}
// The elements that meet element i of x along an axis, or in all for -1.
Doubles group_of(const Doubles& x, std::size_t i, int axis) {
  const std::size_t column = i % 3, row = i - column;
  if (axis == 0) return {x[column], x[column + 3]};
  return axis == 1 ? Doubles{x[row], x[row + 1], x[row + 2]} : x;
}

Tensor norm_over(const Tensor& x, int axis) {
  return axis < 0 ? norm(x) : norm(x, {.axis = axis, .keepdims = axis == 0});
}

struct Scale {
  DType dtype;
  double s, near;
};
const std::vector<Scale> kScales = {
    {kFloat32, 1e-36, 1e-6}, {kFloat32, 1e-30, 1e-6},   {kFloat32, 1e-21, 1e-6},
    {kFloat32, 1, 1e-6},     {kFloat32, 1e19, 1e-6},    {kFloat32, 1e30, 1e-6},
    {kFloat32, 3e37, 1e-6},  {kFloat64, 1e-300, 1e-14}, {kFloat64, 1e-160, 1e-14},
    {kFloat64, 1, 1e-14},    {kFloat64, 1e160, 1e-14},  {kFloat64, 1e307, 1e-14},
    {kFloat16, 1e-4, 1e-2},  {kFloat16, 2e3, 2e-3},     {kBFloat16, 1e-30, 1e-2},
    {kBFloat16, 1e30, 1e-2},
};

TEST(Norms, ValuesAndSlopesOfAllSizes) {
  for (const auto& [dtype, s, near] : kScales) {
    SCOPED_TRACE(std::string(name(dtype)) + " 1e" + std::to_string(std::log10(s)));
    const Tensor x = scaled(kUnit, s, dtype);
    for (const int axis : {-1, 0, 1}) {
      const auto f = [axis = axis](const Tensor& t) { return norm_over(t, axis); };
      const Doubles got = f(x).to_vector<double>(), slope = gradient_of(f, x).to_vector<double>();
      for (std::size_t i = 0; i < kUnit.size(); ++i) {
        const double want = length_of(group_of(kUnit, i, axis));
        EXPECT_NEAR(got[axis < 0 ? 0 : axis == 0 ? i % 3 : i / 3] / s / want, 1, near) << axis;
        EXPECT_NEAR(slope[i], kUnit[i] / want, near) << axis;
      }
    }
    const double whole = norm(x).item<double>();
    EXPECT_EQ(linalg::vector_norm(x).item<double>(), whole);
    if (itemsize(dtype) < 4) continue;
    EXPECT_EQ(linalg::matrix_norm(x).item<double>(), whole);
    const bool is_double = dtype == kFloat64;
    const Tensor z = astype(x, is_double ? kComplex128 : kComplex64);
    EXPECT_NEAR(norm(z * Tensor(std::complex<float>(.5F, .5F))).item<double>() / whole,
                std::sqrt(.5), 10 * near);
  }
}

// H v of the norm n is (v - u (u v)) / n, u being x / n.
TEST(Norms, SecondDerivativesOfAllSizes) {
  const Doubles v = {1, 2, -1, .5, 3, -2};
  const double n = length_of(kUnit);
  double along = 0;
  for (std::size_t i = 0; i < v.size(); ++i) along += kUnit[i] / n * v[i];
  const auto f = [](const Tensor& t) { return norm(t); };
  for (const auto& [dtype, s, near] : kScales) {
    if (itemsize(dtype) < 4 || s < 1e-37 || s > 1e37) continue;
    const Tensor weights = scaled(v, 1, dtype);
    const auto slope = [&](const Tensor& t) { return sum(gradient_of(f, t) * weights); };
    const Doubles got = gradient_of(slope, scaled(kUnit, s, dtype)).to_vector<double>();
    for (std::size_t i = 0; i < v.size(); ++i) {
      EXPECT_NEAR(got[i] * s, (v[i] - kUnit[i] / n * along) / n, 10 * near) << s;
    }
  }
}

// Groups of ordinary numbers next to very large or small ones, and all sizes in one group.
TEST(Norms, GroupsOfTheirOwnSizes) {
  const Tensor x(std::vector<float>{3e30F, 4e30F, 0, 0, 3, 4, 3e-30F, 4e-30F}, {4, 2});
  const auto f = [](const Tensor& t) { return norm(t, {.axis = 1}); };
  EXPECT_EQ(f(x).to_vector<float>(), (std::vector<float>{5e30F, 0, 5, 5e-30F}));
  const std::vector<float> direction = {.6F, .8F, 0, 0, .6F, .8F, .6F, .8F};
  const std::vector<float> slope = gradient_of(f, x).to_vector<float>();
  for (std::size_t i = 0; i < slope.size(); ++i) EXPECT_NEAR(slope[i], direction[i], 1e-6) << i;
  const auto twice = [&](const Tensor& t) { return sum(gradient_of(f, t)); };
  const std::vector<float> bent = gradient_of(twice, x).to_vector<float>();
  EXPECT_EQ(std::vector<float>(bent.begin() + 2, bent.begin() + 4), (std::vector<float>{0, 0}));
  EXPECT_EQ(norm(x).item<float>(), 5e30F);
  EXPECT_EQ(norm(Tensor{1e-40F, 1e30F, 1.0F}).item<float>(), 1e30F);
}

// A square that overflows is no infinite element; that one and NaN stay.
TEST(Norms, InfinityAndNan) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  EXPECT_EQ(norm(Tensor{infinity, 1.0F}).item<float>(), infinity);
  EXPECT_TRUE(std::isnan(norm(Tensor{nan, 1.0F}).item<float>()));
  EXPECT_TRUE(std::isnan(norm(Tensor{nan, infinity}).item<float>()));
  EXPECT_EQ(norm(Tensor{3e38F, 3e38F}).item<float>(), infinity) << "out of range itself";
  EXPECT_EQ(norm(zeros({2, 0}), {.axis = 1}).to_vector<float>(), (std::vector<float>{0, 0}));
}

// g is the same eagerly, staged and lazily, by elements of all sizes.
template <class G>
void expect_equal_bits(const G& g) {
  const auto staged = function<Tensor(const Tensor&)>(g);
  for (const Scale& scale : kScales) {
    const Tensor x = scaled(kUnit, scale.s, scale.dtype), want = g(x);
    EXPECT_TRUE(same_value(staged(x), want)) << name(scale.dtype) << scale.s;
    const LazyScope lazy;
    EXPECT_TRUE(same_value(g(x), want)) << name(scale.dtype) << scale.s;
  }
}

TEST(Norms, EqualBitsInAllModes) {
  const auto whole = [](const Tensor& t) { return norm(t); };
  const auto columns = [](const Tensor& t) { return sum(norm(t, {.axis = 0, .keepdims = true})); };
  const auto rows = [](const Tensor& t) { return sum(norm(t, {.axis = 1})); };
  const auto expect_all = [](const auto& f) {
    const auto bent = [&](const Tensor& t) { return sum(gradient(f)(t) * t * t); };
    expect_equal_bits(f);
    expect_equal_bits(gradient(f));
    expect_equal_bits(gradient(bent));
    expect_equal_bits([&](const Tensor& t) { return jvp(f, t, t).second; });
  };
  expect_all(whole);
  expect_all(columns);
  expect_all(rows);
  const auto staged = function(whole);
  for (const auto& [dtype, s, near] : kScales) {
    const Tensor x = scaled(kUnit, s, dtype);
    EXPECT_TRUE(same_value(gradient(staged)(x), gradient(whole)(x))) << name(dtype) << s;
    EXPECT_TRUE(same_value(vmap(whole)(x), norm(x, {.axis = 1}))) << name(dtype) << s;
    EXPECT_NEAR(jvp(whole, x, x).second.item<double>() / s / length_of(kUnit), 1, 2 * near) << s;
  }
}

}  // namespace
}  // namespace etude::norms_test
