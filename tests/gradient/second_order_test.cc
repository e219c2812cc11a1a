// SPDX-License-Identifier: Apache-2.0
// Derivatives of the first three orders, in all modes, at points where a rule that divides would
// divide by zero. Expected values are polynomials in closed form (polynomial.h), or written out.
#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <malloc.h>

#include "etude/etude.h"
#include "tests/gradient/expect.h"
#include "tests/gradient/polynomial.h"
#include "tests/warnings.h"

namespace etude::second_order_test {

using Doubles = std::vector<double>;
using Scalar = std::function<Tensor(const Tensor&)>;
using tests::expect_values;
using tests::Polynomial;

struct Derivatives {
  Doubles gradient, hessian, third;  // third: of sum(hessian * weights)
};

Doubles weights_of(std::size_t count) {
  Doubles weights;
  for (std::size_t i = 0; i < count; ++i) weights.push_back(1.0 + static_cast<double>(i % 5));
  return weights;
}

Derivatives derivatives_of(const Polynomial& p, const Doubles& at) {
  const std::size_t n = at.size();
  const Doubles weights = weights_of(n * n);
  Derivatives want{.third = Doubles(n)};
  for (std::size_t i = 0; i < n; ++i) {
    want.gradient.push_back(p.by(i)(at));
    for (std::size_t j = 0; j < n; ++j) {
      const Polynomial second = p.by(i).by(j);
      want.hessian.push_back(second(at));
      for (std::size_t k = 0; k < n; ++k) want.third[k] += weights[i * n + j] * second.by(k)(at);
    }
  }
  return want;
}

Tensor unit(std::size_t size, std::size_t i) {
  Doubles values(size);
  values[i] = 1;
  return Tensor(values);
}

Tensor third_of(const Scalar& f, const Tensor& x) {
  const auto n = static_cast<std::size_t>(x.size());
  const Tensor weights = reshape(Tensor(weights_of(n * n)), {x.size(), x.size()});
  return gradient([&](const Tensor& at) { return sum(hessian(f, at) * weights); }, x);
}

void expect_forward_over_forward(const Scalar& f, const Tensor& x, const Doubles& want) {
  const auto n = static_cast<std::size_t>(x.size());
  Doubles got;
  for (std::size_t i = 0; i < n; ++i) {
    const auto slope = [&](const Tensor& at) { return jvp(f, at, unit(n, i)).second; };
    for (std::size_t j = 0; j < n; ++j) {
      const Tensor second = jvp(slope, x, unit(n, j)).second;
      got.push_back(second.has_value() ? second.item<double>() : 0);
    }
  }
  expect_values(Tensor(got), want, 1e-11);
}

// f takes a vector of float64.
void expect_derivatives(const std::string& what, const Scalar& f, const Doubles& at,
                        const Derivatives& want) {
  SCOPED_TRACE(what + " at " + Tensor(at).to_string());
  constexpr double kNear = 1e-11;
  const Tensor x(at);
  expect_values(gradient(f, x), want.gradient, kNear);
  expect_values(hessian(f, x), want.hessian, kNear);
  expect_values(third_of(f, x), want.third, kNear);
  expect_forward_over_forward(f, x, want.hessian);
  const auto staged = function([f](const Tensor& v) { return hessian(f, v); });
  expect_values(staged(x), want.hessian, kNear);
  const auto of_staged = function([f](const Tensor& v) { return f(v); });
  expect_values(hessian(of_staged, x), want.hessian, kNear);
  const auto staged_third = function([f](const Tensor& v) { return third_of(f, v); });
  expect_values(staged_third(x), want.third, kNear);
  {
    const LazyScope lazy;
    expect_values(hessian(f, x), want.hessian, kNear);
    expect_values(third_of(f, x), want.third, kNear);
  }
  Doubles twice = want.hessian;
  twice.insert(twice.end(), want.hessian.begin(), want.hessian.end());
  expect_values(vmap([&](const Tensor& v) { return hessian(f, v); })(stack({x, x})), twice, kNear);
}

void expect_polynomial(const std::string& what, const Scalar& f, const Polynomial& p,
                       const std::vector<Doubles>& points) {
  for (const Doubles& at : points) expect_derivatives(what, f, at, derivatives_of(p, at));
}

const std::vector<Doubles> kZeros = {{2, 3, 5, 7}, {0, 3, 5, 7}, {0, 0, 5, 7},
                                     {0, 3, 0, 7}, {0, 0, 0, 7}, {0, 0, 0, 0}};

// x0 x1 x2 + 10 x3: products of two groups.
const Polynomial kGroups = {{{1, {1, 1, 1, 0}}, {10, {0, 0, 0, 1}}}};

TEST(SecondOrder, Products) {
  const Polynomial whole = {{{1, {1, 1, 1, 1}}}};
  expect_polynomial(
      "prod", [](const Tensor& x) { return prod(x); }, whole, kZeros);
  const auto last = [](const Tensor& x) { return cumulative_prod(x).at(3); };
  expect_polynomial("cumulative_prod", last, whole, kZeros);
}

TEST(SecondOrder, ProductsOfSegments) {
  const Tensor weights(Doubles{1, 10, 1000});
  const Tensor together({0, 0, 0, 1}), apart({1, 0, 1, 1});
  const auto by = [&](const Tensor& ids) {
    return [=](const Tensor& x) { return sum(segment_prod(x, ids, 3) * weights); };
  };
  expect_polynomial("segment_prod", by(together), kGroups, kZeros);
  const Polynomial others = {{{10, {1, 0, 1, 1}}, {1, {0, 1, 0, 0}}}};
  expect_polynomial("segment_prod of ids that do not ascend", by(apart), others, kZeros);
  const auto of_rows = [&](const Tensor& x) {
    return sum(segment_prod(reshape(x, {2, 2}), Tensor({1, 1}), 3));
  };
  const Polynomial columns = {{{1, {1, 0, 1, 0}}, {1, {0, 1, 0, 1}}}};
  expect_polynomial("segment_prod of rows", of_rows, columns, kZeros);
}

TEST(SecondOrder, RowsOutsideOfSegments) {
  const Tensor x(Doubles{0, 3, NAN, INFINITY}), ids({0, 0, -1, 7});
  const auto f = [&](const Tensor& v) { return sum(segment_prod(v, ids, 1)); };
  expect_values(gradient(f, x), {3, 0, 0, 0});
  expect_values(hessian(f, x), {0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
}

TEST(SecondOrder, UpdatesThatMultiply) {
  const Tensor base(Doubles{1, 10}), ids({0, 0, 0, 1});
  const auto scattered = [&](const Tensor& x) {
    return sum(scatter(base, ids, x, {.mode = "mul"}));
  };
  expect_polynomial("scatter", scattered, kGroups, kZeros);
  const auto indexed = [&](const Tensor& x) {
    Tensor y = base;
    y.at(ids) *= x;
    return sum(y);
  };
  expect_polynomial("at(ids) *=", indexed, kGroups, kZeros);
  const auto one_by_one = [&](const Tensor& x) {
    Tensor y = base;
    for (const int i : {0, 1, 2}) y.at(0) *= x.at(i);
    y.at(1) *= x.at(3);
    return sum(y);
  };
  expect_polynomial("at(0) *=", one_by_one, kGroups, kZeros);
  // The array, and the updates: x0 x1 x2 + x3 x1.
  const auto both = [&](const Tensor& x) {
    const Tensor updates = take(x, Tensor({1, 2, 1}));
    return sum(scatter(take(x, Tensor({0, 3})), Tensor({0, 0, 1}), updates, {.mode = "mul"}));
  };
  expect_polynomial("scatter into x", both, {{{1, {1, 1, 1, 0}}, {1, {0, 1, 0, 1}}}}, kZeros);
}

// The product of all overflows, or vanishes, where the product of the others does not.
TEST(SecondOrder, ProductsBeyondTheRange) {
  const Tensor ids({0, 0, 0});
  const auto by_segments = [&](const Tensor& x) { return sum(segment_prod(x, ids, 1)); };
  const auto by_scatter = [&](const Tensor& x) {
    return sum(scatter(ones({1}), ids, x, {.mode = "mul"}));
  };
  for (const Scalar& f : {Scalar(by_segments), Scalar(by_scatter)}) {
    const Doubles large = gradient(f, Tensor({1e20F, 1e20F, 1e-5F})).to_vector<double>();
    EXPECT_NEAR(large[0] / 1e15, 1, 1e-6);
    EXPECT_NEAR(large[1] / 1e15, 1, 1e-6);
    EXPECT_EQ(large[2], INFINITY);
    expect_values(gradient(f, Tensor({1e-30F, 1e-30F, 1e30F})), {1, 1, 0});
  }
}

// det of [n, n] as a polynomial of its elements, row by row.
Polynomial determinant(std::size_t n) {
  Polynomial p;
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  do {
    Polynomial::Term term{.powers = std::vector<int>(n * n)};
    for (std::size_t i = 0; i < n; ++i) {
      term.powers[i * n + order[i]] = 1;
      for (std::size_t j = 0; j < i; ++j) term.factor *= order[j] > order[i] ? -1 : 1;
    }
    p.terms.push_back(term);
  } while (std::next_permutation(order.begin(), order.end()));
  return p;
}

// Of rank 2, 1 and 0; and with singular values that are equal.
TEST(SecondOrder, Determinants) {
  const auto det = [](int64_t n) {
    return [n](const Tensor& x) { return linalg::det(reshape(x, {n, n})); };
  };
  expect_polynomial("det", det(1), determinant(1), {{0}, {3}});
  expect_polynomial("det", det(2), determinant(2),
                    {{1, 2, 2, 4}, {1, 2, 3, 4}, {0, 0, 0, 0}, {1, 0, 0, 1}, {0, 2, -2, 0}});
  expect_polynomial("det", det(3), determinant(3),
                    {{1, 2, 3, 4, 5, 6, 7, 8, 9},
                     {1, 2, 3, 2, 4, 6, 3, 6, 9},
                     {0, 0, 0, 0, 0, 0, 0, 0, 0},
                     {1, 0, 0, 0, 1, 0, 0, 0, 1},
                     {2, 0, 0, 0, 2, 0, 0, 0, 0},
                     {2, -1, 0, 3, 1, 4, -2, 0.5, 1}});
}

// Of a complex matrix of rank 1: the second derivative of x0 x3 - x1 x2 by x0 and x3 is 1.
TEST(SecondOrder, DeterminantOfAComplexMatrix) {
  const Tensor at(std::vector<std::complex<double>>{{1, 1}, {0, 2}, {2, 2}, {0, 4}});
  const auto slope = [&](const Tensor& x) {
    const auto det = [&](const Tensor& v) {
      return real(linalg::det(reshape(at + astype(v, kComplex128), {2, 2})));
    };
    return hessian(det, x);
  };
  expect_values(slope(zeros({4}, {.dtype = kFloat64})),
                {0, 0, 0, 1, 0, 0, -1, 0, 0, -1, 0, 0, 1, 0, 0, 0}, 1e-12);
}

// One key is masked for all queries, another for the first query, and both hold NaN. The expected
// result is attention to the other keys, by softmax.
TEST(SecondOrder, AttentionHidesNan) {
  const Tensor q = reshape(Tensor(Doubles{1, 2, 3, 4}), {2, 2});
  const Tensor v = reshape(Tensor(Doubles{1, 2, 5}), {3, 1});
  const auto attend = [&](double hidden, const Tensor& mask) -> Scalar {
    return [=](const Tensor& x) {
      const Tensor k = concat({reshape(x, {2, 2}), reshape(Tensor(Doubles{hidden, 1}), {1, 2})});
      return sum(nn::scaled_dot_product_attention(q * x.at(0), k, v, {.mask = mask}));
    };
  };
  const auto by_softmax = [&](const Tensor& mask) -> Scalar {
    return [=](const Tensor& x) {
      const Tensor scores = matmul(q * x.at(0), matrix_transpose(reshape(x, {2, 2}))) / M_SQRT2;
      const Tensor weights = nn::softmax(where(mask, scores, -1e30));
      return sum(matmul(weights, reshape(Tensor(Doubles{1, 2}), {2, 1})));
    };
  };
  const Doubles at = {0.5, -1, 2, 0.25};
  const Tensor never({true, true, false}), one({{true, false, false}, {true, true, false}});
  const Tensor both({true, true}), first({{true, false}, {true, true}});
  for (const auto& [mask, seen] : {std::pair(never, both), std::pair(one, first)}) {
    const Scalar f = by_softmax(seen);
    const Derivatives want = {gradient(f, Tensor(at)).to_vector<double>(),
                              hessian(f, Tensor(at)).to_vector<double>(),
                              third_of(f, Tensor(at)).to_vector<double>()};
    expect_derivatives("a hidden NaN", attend(NAN, mask), at, want);
    expect_derivatives("a hidden infinity", attend(-INFINITY, mask), at, want);
  }
  const Scalar seen = attend(NAN, Tensor({true, true, true}));
  EXPECT_TRUE(std::isnan(gradient(seen, Tensor(at)).to_vector<double>()[0]));
}

// sort(x) . w, whose tied elements have the mean of their weights.
TEST(SecondOrder, TiesOfSort) {
  const Tensor weights(Doubles{10, 20, 30, 70});
  const auto ascending = [&](const Tensor& x) { return sum(sort(x) * weights); };
  const auto descending = [&](const Tensor& x) {
    return sum(sort(x, {.descending = true}) * weights);
  };
  const Doubles none(16), no_third(4);
  expect_derivatives("sort", ascending, {2, 2, 5, 1}, {{25, 25, 70, 10}, none, no_third});
  expect_derivatives("sort", ascending, {3, 3, 3, 3}, {Doubles(4, 32.5), none, no_third});
  expect_derivatives("descending", descending, {2, 1, 2, 2}, {{20, 70, 20, 20}, none, no_third});
  // A sum of squares: each half of a tie has the slope 2 x, too.
  const auto squares = [&](const Tensor& x) { return sum(square(sort(x)) * weights); };
  const Tensor slope = gradient(squares, Tensor(Doubles{2, 2, 5, 1}));
  expect_values(slope, {100, 100, 700, 20});
  const auto rows = [&](const Tensor& x) {
    return sum(sort(x, {.axis = 0}) * Tensor({{1.0, 2.0, 3.0}, {5.0, 8.0, 4.0}}));
  };
  const Tensor table = reshape(Tensor(Doubles{1, 4, NAN, 1, 2, NAN}), {2, 3});
  expect_values(gradient(rows, table), {3, 8, 3, 3, 2, 4});
}

bool all_infinite(const Tensor& x) {
  const Doubles values = x.to_vector<double>();
  return std::all_of(values.begin(), values.end(), [](double v) { return v == INFINITY; });
}

// spec: T12.c
TEST(SecondOrder, VectorsOfEqualValues) {
  const auto of_eigh = [](const Tensor& x) { return sum(linalg::eigh(x).vectors); };
  const auto of_svd = [](const Tensor& x) {
    return sum(linalg::svd(x, {.full_matrices = false}).u);
  };
  const Tensor equal_values = eye(2, {.dtype = kFloat64});
  const auto lower = [](const Tensor& x) { return take(reshape(x, {-1}), Tensor({0, 2, 3})); };
  const auto check = [&](const char* mode) {
    SCOPED_TRACE(mode);
    EXPECT_TRUE(all_infinite(lower(gradient(of_eigh, equal_values))));
    EXPECT_TRUE(all_infinite(gradient(of_svd, equal_values)));
    const Tensor flat = reshape(Tensor(Doubles{2, 0, 0, 0, 0, 0}), {3, 2});
    EXPECT_TRUE(all_infinite(gradient(of_svd, flat)));
  };
  check("eager");
  {
    const LazyScope lazy;
    check("lazy");
  }
  const auto staged = function([&](const Tensor& x) { return gradient(of_svd, x); });
  EXPECT_TRUE(all_infinite(staged(equal_values)));
  // Only the matrix that has equal values, and only where a cotangent of vectors arrives.
  const Tensor batch = reshape(Tensor(Doubles{1, 0, 0, 3, 2, 0, 0, 2}), {2, 2, 2});
  const Tensor both = gradient(of_eigh, batch);
  expect_values(both.at(0), {0, 0, 0, 0});
  EXPECT_TRUE(all_infinite(lower(both.at(1))));
  const auto of_values = [](const Tensor& x) {
    const auto parts = linalg::eigh(x);
    return sum(parts.values) + 0.0 * sum(parts.vectors);
  };
  expect_values(gradient(of_values, equal_values), {1, 0, 0, 1});
}

// Inside of its scope a persistent tape records its own sweep, and its entries move. Freed memory
// is overwritten, so that a look at where they were is seen.
TEST(SecondOrder, OfAPersistentTapeThatGrowsInItsSweep) {
  const tests::Warnings quiet;
  mallopt(M_PERTURB, 0xA5);
  for (int n = 1; n <= 120; ++n) {
    const Tensor x(Doubles{0.5, 1.5});
    GradientTape tape({.persistent = true});
    tape.watch(x);
    Tensor y = x * 1.0;
    for (int i = 0; i < n; ++i) y = x + y;
    y = sum(square(y));
    const double factor = 2.0 * (n + 1) * (n + 1);
    expect_values(tape.gradient(y, x), {0.5 * factor, 1.5 * factor});
    expect_values(tape.gradient(y, x), {0.5 * factor, 1.5 * factor});
  }
  mallopt(M_PERTURB, 0);
}

}  // namespace etude::second_order_test
