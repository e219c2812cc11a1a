// SPDX-License-Identifier: Apache-2.0
// How the rows of this folder are run on numbers. On tensors: tests/gradient/rows_test.cc.
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/diff/scalar_operators.h"

namespace etude::tests {

using Doubles = std::vector<double>;
using Pair = std::tuple<double, double>;

// A value and its derivative by all operators of a mode.
struct OnNumbers {
  static constexpr bool kDecides = true;  // whether host code may look at elements
  static constexpr int kSteps = 1000000;  // of a long loop
  template <class T>
  static int whole(const T& x) {
    return static_cast<int>(x);
  }
  template <class F, class... X>
  static auto gradient(const F& f, const X&... x) {
    return etude::gradient(f, x...);
  }
  template <class F, class... X>
  static auto value_with_gradient(const F& f, const X&... x) {
    return etude::value_with_gradient(f, x...);
  }
  // The pullback of f at x..., applied to a cotangent.
  template <class F, class Ct, class... X>
  static auto pulled(const F& f, const Ct& ct, const X&... x) {
    return etude::pullback(f, x...)(ct);
  }
  template <class F>
  static void expect_derivative(const F& f, double x, double value, double slope) {
    const auto [reverse_value, pull] = value_with_pullback(f, x);
    EXPECT_EQ(reverse_value, value) << "at " << x;
    EXPECT_EQ(pull(1), slope) << "at " << x;
    EXPECT_EQ(etude::value_with_gradient(f, x), std::pair(value, slope)) << "at " << x;
    EXPECT_EQ(value_with_derivative(f, x), std::pair(value, slope)) << "at " << x;
  }
  template <class F>
  static void expect_gradient(const F& f, double x, double y, Pair want) {
    EXPECT_EQ(etude::gradient(f, x, y), want) << "at " << x << ", " << y;
    EXPECT_EQ(pullback(f, x, y)(1), want) << "at " << x << ", " << y;
  }
};

}  // namespace etude::tests
