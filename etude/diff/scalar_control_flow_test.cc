// SPDX-License-Identifier: Apache-2.0
#include "tests/rows/control_flow.h"
#include "tests/rows/statements.h"

namespace etude::tests {

INSTANTIATE_TYPED_TEST_SUITE_P(OnNumbers, ControlFlow, OnNumbers);
INSTANTIATE_TYPED_TEST_SUITE_P(OnNumbers, Statements, OnNumbers);

// spec: D74.b
TEST(ScalarControlFlow, CapturedVariables) {
  Real seen;
  EXPECT_EQ(gradient(
                [&](Real x) {
                  seen = x * x;
                  return seen * x;
                },
                2.0),
            12);
  // Afterwards it is a plain number, also on the tape of another derivative.
  EXPECT_EQ(seen.value(), 4);
  EXPECT_EQ(gradient([&](Real x) { return seen * x; }, 5.0), 4);
}

}  // namespace etude::tests
