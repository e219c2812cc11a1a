// SPDX-License-Identifier: Apache-2.0
// Helpers shared by the tests of derivatives of numbers.
#pragma once

#include <vector>

#include <gtest/gtest.h>

#include "etude/base/sanitizers.h"
#include "etude/diff.h"

namespace etude {

// Whether the program is instrumented, and so about a hundred times slower. Tests then use shorter
// loops over many calls. Each call is still checked.
inline constexpr bool kIsInstrumented =
    internal::kHasAddressSanitizer || internal::kHasThreadSanitizer;

using Vector = std::vector<double>;
using Reals = std::vector<Real>;

// The product of a vector's numbers; five numbers use reverse mode.
inline constexpr auto product = [](const auto& x) {
  auto y = x[0];
  for (std::size_t i = 1; i < x.size(); ++i) y *= x[i];
  return y;
};
inline const Vector five = {1, 2, 3, 4, 5}, slopes_at_five = {120, 60, 40, 30, 24};
inline void expect_working() { EXPECT_EQ(gradient(product, five), slopes_at_five); }

inline constexpr auto squares = [](auto x) {
  for (auto& v : x) v *= v;
  return x;
};

}  // namespace etude
