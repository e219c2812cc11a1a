// SPDX-License-Identifier: Apache-2.0
#include "tests/rows/arrays.h"

namespace etude::tests {

INSTANTIATE_TYPED_TEST_SUITE_P(OnNumbers, Arrays, OnNumbers);

}  // namespace etude::tests
