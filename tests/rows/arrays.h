// SPDX-License-Identifier: Apache-2.0
// Rows of arrays, for every kind of program that is differentiated (modes.h).
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/rows/modes.h"

namespace etude::tests {

template <class Mode>
class Arrays : public ::testing::Test, public Mode {};
TYPED_TEST_SUITE_P(Arrays);

// spec: D80.a, D81.a, D82.a, D83.a, D85.a, D86.a, D87.a, D90.a
TYPED_TEST_P(Arrays, ElementsReadAndWritten) {
  const auto product = [](const auto& v) {
    auto r = v[0];
    for (std::size_t i = 1; i < v.size(); ++i) r *= v[i];
    return r;
  };
  EXPECT_EQ(TestFixture::gradient(product, Doubles{3, 4, 5}), (Doubles{20, 15, 12}));
  EXPECT_EQ(TestFixture::gradient([](const auto& v) { return v[0] + v[1] + v[2]; },
                                  Doubles{1, 2, 3, 4, 5, 6}),
            (Doubles{1, 1, 1, 0, 0, 0}));
  const auto both = [](auto x, auto y) { return std::vector{x * y, x * y}; };
  EXPECT_EQ(TestFixture::pulled(both, Doubles{1, 1}, 3.0, 4.0), Pair(8, 6));
  const auto pairs = [](auto x, auto y) {
    const std::vector<std::pair<decltype(x), decltype(y)>> v = {{x, y}};
    return v[0].first + v[0].second;
  };
  EXPECT_EQ(TestFixture::gradient(pairs, 3.0, 4.0), Pair(1, 1));
  const auto filled = [](auto x) { return std::vector(10, x); };
  EXPECT_EQ(TestFixture::pulled(filled, Doubles(10, 1), 2.0), 10);
  const auto written = [](auto a, auto x) {
    a[1] = x * x;
    return std::accumulate(a.begin(), a.end(), decltype(x)(0.0));
  };
  const auto [value, grads] = TestFixture::value_with_gradient(written, Doubles{1, 2, 3}, 4.0);
  EXPECT_EQ(value, 20);
  EXPECT_EQ(grads, std::tuple(Doubles{1, 0, 1}, 8.0));
  const auto squares = [](const auto& v) {
    std::remove_cvref_t<decltype(v[0])> sum = 0.0;
    for (const auto& e : v) sum += e * e;
    return sum;
  };
  EXPECT_EQ(TestFixture::gradient(squares, Doubles{1, 2, 3}), (Doubles{2, 4, 6}));
  const auto chain = [](auto k) {
    std::vector<decltype(k)> a(10, 1.0);
    for (std::size_t i = 1; i < a.size(); ++i) a[i] = a[i - 1] * k;
    return a[9];
  };
  TestFixture::expect_derivative(chain, 2, 512, 2304);
}

// spec: D84.a
TYPED_TEST_P(Arrays, GrowingAndJoining) {
  const auto joined = [](auto a, const auto& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  EXPECT_EQ(TestFixture::pulled(joined, Doubles{1, 2, 3, 4, 5}, Doubles{1, 1, 1}, Doubles{1, 1}),
            std::tuple(Doubles{1, 2, 3}, Doubles{4, 5}));
  const auto pushed = [](auto a, auto x) {
    a.push_back(x);
    return a;
  };
  EXPECT_EQ(TestFixture::pulled(pushed, Doubles{1, 2, 3, 4}, Doubles{1, 1, 1}, 1.0),
            std::tuple(Doubles{1, 2, 3}, 4.0));
}

// spec: D32.a
TYPED_TEST_P(Arrays, StandardAlgorithms) {
  const auto sum_of_squares = [](auto v) {
    std::transform(v.begin(), v.end(), v.begin(), [](const auto& e) { return e * e; });
    return std::accumulate(v.begin() + 1, v.end(), v[0]);
  };
  EXPECT_EQ(TestFixture::gradient(sum_of_squares, Doubles{1, 2, 3}), (Doubles{2, 4, 6}));
  const auto multiplied = [](const auto& v) {
    return std::accumulate(v.begin(), v.end(), std::remove_cvref_t<decltype(v[0])>(1.0),
                           std::multiplies<>());
  };
  EXPECT_EQ(TestFixture::gradient(multiplied, Doubles{2, 3, 4}), (Doubles{12, 8, 6}));
  if constexpr (!TestFixture::kDecides) return;
  const auto median = [](auto v) {
    // A comparison of tensors is a tensor, which converts to bool.
    const auto less = [](const auto& a, const auto& b) { return static_cast<bool>(a < b); };
    std::sort(v.begin(), v.end(), less);
    return 2 * v[1] + *std::min_element(v.begin(), v.end(), less);
  };
  EXPECT_EQ(TestFixture::gradient(median, Doubles{5, 1, 3}), (Doubles{0, 1, 2}));
}

REGISTER_TYPED_TEST_SUITE_P(Arrays, ElementsReadAndWritten, GrowingAndJoining, StandardAlgorithms);

}  // namespace etude::tests
