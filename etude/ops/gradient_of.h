// SPDX-License-Identifier: Apache-2.0
// Derivatives for the tests of op families.
#pragma once

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/tape/tape.h"
#include "etude/ops.h"
#include "tests/expect_error.h"

namespace etude {

// Computes d f(x) / dx by a tape, for a cotangent of f(x); ones if the cotangent is absent.
template <class F>
Tensor gradient_of(const F& f, const Tensor& x, const Tensor& seed = {}) {
  Tape tape;
  Tensor y;
  {
    const TapeContext context(tape);
    tape.watch(x);
    y = f(x);
  }
  const std::vector<Tensor> targets = {y}, sources = {x}, seeds = {seed};
  return tape.gradient(targets, sources, seeds)[0];
}

using tests::message_of;

inline void expect_near(const Tensor& got, const std::vector<double>& want,
                        double tolerance = 1e-5) {
  ASSERT_TRUE(got.has_value());
  const std::vector<double> values = got.to_vector<double>();
  ASSERT_EQ(values.size(), want.size()) << got;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (values[i] == want[i]) continue;  // infinities, whose difference is not a number
    EXPECT_NEAR(values[i], want[i], tolerance) << "element " << i;
  }
}
// The same with the differences divided by 1 + |want|.
inline void expect_relatively_near(const Tensor& got, const std::vector<double>& want,
                                   double tolerance = 1e-5) {
  const std::vector<double> values = got.to_vector<double>();
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(values[i], want[i], tolerance * (1 + std::abs(want[i]))) << "element " << i;
  }
}

}  // namespace etude
