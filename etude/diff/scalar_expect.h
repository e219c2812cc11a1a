// SPDX-License-Identifier: Apache-2.0
// What the tests of derivatives of numbers share.
#pragma once

#include <vector>

#include <gtest/gtest.h>

#include "etude/base/sanitizers.h"
#include "etude/diff.h"

namespace etude {

// Whether what runs is instrumented, and so a hundred times slower: loops over many calls are
// shorter there. Each of their calls is looked at all the same.
inline constexpr bool kIsInstrumented =
    internal::kHasAddressSanitizer || internal::kHasThreadSanitizer;

using Vector = std::vector<double>;
using Reals = std::vector<Real>;

// The product of a vector's numbers; five of them go in reverse mode.
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
