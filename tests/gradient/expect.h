// SPDX-License-Identifier: Apache-2.0
// Helpers for the tests of tapes and gradients.
#pragma once

#include <vector>

#include <gtest/gtest.h>

#include "etude/core/tensor.h"
#include "tests/expect_error.h"

namespace etude::tests {

inline void expect_values(const Tensor& x, std::vector<double> want, double tolerance = 1e-5) {
  ASSERT_TRUE(x.has_value());
  const std::vector<double> got = x.to_vector<double>();
  ASSERT_EQ(got.size(), want.size()) << x.to_string();
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i])))
        << "element " << i << " of " << x.to_string();
  }
}

}  // namespace etude::tests
