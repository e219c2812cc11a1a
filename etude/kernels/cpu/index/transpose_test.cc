// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/index/transpose.h"

#include <bit>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "etude/kernels/cpu/simd/testing_isas.h"

namespace etude::kernels::cpu {
namespace {

// Elements with different bits, signalling NaNs and denormals among them.
std::vector<float> all_different(int64_t count) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(std::bit_cast<float>(static_cast<uint32_t>(i) * 2654435761u));
  }
  return out;
}

uint32_t bits_at(const std::vector<float>& x, int64_t at) {
  return std::bit_cast<uint32_t>(x[static_cast<std::size_t>(at)]);
}

// Memory between the rows of the result, and after its last row, does not change.
TEST(Transpose, MovesEachElementAndNoOtherOnEveryInstructionSet) {
  constexpr int64_t kMost = 37, kFromRow = 41, kToRow = 43;
  const std::vector<float> from = all_different(kMost * kFromRow);
  const std::vector<float> before = all_different((kMost + 1) * kToRow);
  for (const internal::Isa isa : internal::isas_to_test()) {
    for (int64_t rows = 0; rows <= kMost; ++rows) {
      for (int64_t columns = 0; columns <= kMost; ++columns) {
        std::vector<float> to = before;
        transpose_matrix(isa, to.data(), kToRow, from.data(), kFromRow, rows, columns);
        for (int64_t at = 0; at < (kMost + 1) * kToRow; ++at) {
          const int64_t j = at / kToRow, i = at % kToRow;
          const bool inside = i < rows && j < columns;
          ASSERT_EQ(bits_at(to, at), inside ? bits_at(from, i * kFromRow + j) : bits_at(before, at))
              << name(isa) << ", " << rows << " x " << columns << ": element " << j << ", " << i;
        }
      }
    }
  }
}

// Rows in descending order, as flipped axes give.
TEST(Transpose, StepsMayBeNegative) {
  constexpr int64_t kRows = 21, kColumns = 18;
  const std::vector<float> from = all_different(kRows * kColumns);
  for (const internal::Isa isa : internal::isas_to_test()) {
    std::vector<float> to(from.size());
    transpose_matrix(isa, to.data() + (kColumns - 1) * kRows, -kRows,
                     from.data() + (kRows - 1) * kColumns, -kColumns, kRows, kColumns);
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < kColumns; ++j) {
        ASSERT_EQ(bits_at(to, (kColumns - 1 - j) * kRows + i),
                  bits_at(from, (kRows - 1 - i) * kColumns + j))
            << name(isa) << ": " << i << ", " << j;
      }
    }
  }
}

}  // namespace
}  // namespace etude::kernels::cpu
