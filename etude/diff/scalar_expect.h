// SPDX-License-Identifier: Apache-2.0
// Checks of derivatives of numbers by both modes.
#pragma once

#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "etude/diff/scalar_operators.h"

namespace etude {

using Pair = std::tuple<double, double>;

// A value and a gradient, by both modes.
template <class F>
void expect_derivative(const F& f, double x, double value, double slope) {
  const auto [reverse_value, pull] = value_with_pullback(f, x);
  EXPECT_EQ(reverse_value, value) << "at " << x;
  EXPECT_EQ(pull(1), slope) << "at " << x;
  EXPECT_EQ(value_with_gradient(f, x), std::pair(value, slope)) << "at " << x;
  EXPECT_EQ(value_with_derivative(f, x), std::pair(value, slope)) << "at " << x;
}
template <class F>
void expect_gradient(const F& f, double x, double y, Pair want) {
  EXPECT_EQ(gradient(f, x, y), want) << "at " << x << ", " << y;
  EXPECT_EQ(pullback(f, x, y)(1), want) << "at " << x << ", " << y;
}

}  // namespace etude
