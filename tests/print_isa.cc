// SPDX-License-Identifier: Apache-2.0
// Part of each test that runs on several instruction sets: says which one this was, so that a run
// that fell back to another is seen (etude_test, cmake/EtudeTargets.cmake).
#include <iostream>

#include <gtest/gtest.h>

#include "etude/kernels/cpu/simd/math_table.h"

namespace {

class PrintIsa : public testing::Environment {
 public:
  void SetUp() override {
    std::cout << "instruction set: " << etude::internal::name(etude::internal::best_isa()) << "\n";
  }
};
const testing::Environment* const added = testing::AddGlobalTestEnvironment(new PrintIsa);

}  // namespace
