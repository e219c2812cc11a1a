// SPDX-License-Identifier: Apache-2.0
// What the tests of tapes and gradients share.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/base/error.h"
#include "etude/core/tensor.h"

namespace etude::testing {

// Fails unless f throws this code and a message with all fragments.
template <class F>
void expect_error(F&& f, ErrorCode code, std::vector<std::string> fragments) {
  try {
    f();
    ADD_FAILURE() << "no error was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
    for (const std::string& fragment : fragments) {
      EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos)
          << "'" << fragment << "' is not in: " << error.what();
    }
  }
}

inline void expect_values(const Tensor& x, std::vector<double> want, double tolerance = 1e-5) {
  ASSERT_TRUE(x.has_value());
  const std::vector<double> got = x.to_vector<double>();
  ASSERT_EQ(got.size(), want.size()) << x.to_string();
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i])))
        << "element " << i << " of " << x.to_string();
  }
}

}  // namespace etude::testing
