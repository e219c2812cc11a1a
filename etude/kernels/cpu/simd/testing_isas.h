// SPDX-License-Identifier: Apache-2.0
// For tests of kernels with a version per instruction set.
#pragma once

#include <vector>

#include "etude/kernels/cpu/simd/math_table.h"

namespace etude::internal {

// The instruction sets that can run: up to the best one.
inline std::vector<Isa> isas_to_test() {
  std::vector<Isa> all = {Isa::kPortable};
  if (best_isa() >= Isa::kAvx2) all.push_back(Isa::kAvx2);
  if (best_isa() >= Isa::kAvx512) all.push_back(Isa::kAvx512);
  return all;
}

}  // namespace etude::internal
