// SPDX-License-Identifier: Apache-2.0
// Part of each test that runs on several instruction sets: prints the current one, so that a
// fallback is visible (etude_test, cmake/EtudeTargets.cmake). A run with the best instruction set
// of the machine is left out, since the test itself runs with it.
#include <cstdlib>
#include <iostream>

#include <gtest/gtest.h>

#include "etude/kernels/cpu/simd/math_table.h"

namespace {

class PrintIsa : public testing::Environment {
 public:
  void SetUp() override {
    const etude::internal::Isa isa = etude::internal::best_isa();
    std::cout << "instruction set: " << etude::internal::name(isa) << "\n";
    if (std::getenv("ETUDE_TEST_LOWER_ISA") != nullptr && isa == etude::internal::supported_isa()) {
      std::cout
          << "left out: it is the best that this machine has, which the test itself runs on\n";
      std::exit(0);
    }
  }
};
const testing::Environment* const added = testing::AddGlobalTestEnvironment(new PrintIsa);

}  // namespace
