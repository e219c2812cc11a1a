// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/product/tile_product.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "etude/kernels/cpu/simd/testing_isas.h"

namespace etude::kernels::cpu {
namespace {

using internal::Isa;

std::vector<float> random_values(std::size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> out(count);
  for (float& v : out) v = uniform(random);
  return out;
}

// The definition of a product in halves, with a_row 1.
std::vector<float> halves_by_definition(const TileProduct& p, const std::vector<float>& start,
                                        const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> out = start, rest(start.size(), 0.0f);
  const int64_t half = (p.segments + 1) / 2;
  for (int64_t s = 0; s < p.segments; ++s) {
    std::vector<float>& sum = s < half ? out : rest;
    for (int64_t k = 0; k < p.depth; ++k) {
      for (int64_t i = 0; i < p.rows; ++i) {
        for (int64_t j = 0; j < p.columns; ++j) {
          float& to = sum[static_cast<std::size_t>(i * p.out_row + j)];
          to = std::fma(a[static_cast<std::size_t>(p.a_offset[s] + k * p.a_depth + i)],
                        b[static_cast<std::size_t>(p.b_offset[s] + k * p.b_depth + j)], to);
        }
      }
    }
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += rest[i];
  return out;
}

TEST(TileProduct, HalvesHaveTheBitsOfTheirDefinitionOnEveryInstructionSet) {
  for (int64_t rows = 1; rows <= kHalvesRows; ++rows) {
    for (const int64_t columns : {1, 5, 12, 16}) {
      for (const int64_t segments : {2, 3, 8}) {
        TileProduct p;
        p.rows = rows, p.columns = columns, p.depth = 7;
        p.a_row = 1, p.a_depth = 2, p.b_depth = columns;
        p.out_row = p.start_row = columns + 1;
        p.segments = segments;
        p.halves = true;
        std::vector<int64_t> a_offset, b_offset;
        for (int64_t s = 0; s < segments; ++s)
          a_offset.push_back(s * 31), b_offset.push_back(s * 200);
        p.a_offset = a_offset.data(), p.b_offset = b_offset.data();
        const std::vector<float> a = random_values(400, 1), b = random_values(1800, 2),
                                 start =
                                     random_values(static_cast<std::size_t>(rows * p.out_row), 3);
        const std::vector<float> want = halves_by_definition(p, start, a, b);
        for (const Isa isa : internal::isas_to_test()) {
          std::vector<float> out = start;
          p.start = out.data();
          tile_product(isa, p, out.data(), a.data(), b.data());
          for (int64_t i = 0; i < rows * p.out_row; ++i) {
            // A column after the product is not written.
            const auto at = static_cast<std::size_t>(i);
            const bool inside = i % p.out_row < columns;
            ASSERT_EQ(out[at], inside ? want[at] : start[at])
                << rows << "x" << columns << " segments " << segments << " set "
                << static_cast<int>(isa) << " element " << i;
          }
        }
      }
    }
  }
}

TEST(TileProduct, BroadTilesHaveTheBitsOfOthersOnEveryInstructionSet) {
  constexpr int64_t kDepth = 9, kMostRows = 14, kMostColumns = 150;
  const std::vector<float> a = random_values(kDepth * kMostRows, 1),
                           b = random_values(kDepth * kMostColumns, 2);
  for (int64_t rows = 1; rows <= kMostRows; ++rows) {
    for (const int64_t columns : {1, 63, 64, 65, 128, 149, 150}) {
      for (const bool turned : {false, true}) {
        TileProduct p;
        p.rows = rows, p.columns = columns, p.depth = kDepth;
        p.a_row = turned ? 1 : kDepth, p.a_depth = turned ? kMostRows : 1;
        p.b_depth = columns;
        p.out_row = columns + 1;
        std::vector<float> want(static_cast<std::size_t>(rows * p.out_row), 7.0f);
        std::vector<float> out = want;
        tile_product(Isa::kPortable, p, want.data(), a.data(), b.data());
        p.broad = true;
        for (const Isa isa : internal::isas_to_test()) {
          tile_product(isa, p, out.data(), a.data(), b.data());
          ASSERT_EQ(out, want) << rows << " x " << columns << (turned ? ", turned, " : ", ")
                               << name(isa);
        }
      }
    }
  }
}

TEST(TileProduct, AColumnWithoutATermKeepsItsSum) {
  if (!has_wide_tiles()) GTEST_SKIP() << "only AVX-512 has masked tiles";
  constexpr int64_t kDepth = 5, kColumns = 11;
  const std::vector<uint16_t> columns_of = {0x001, 0x7ff, 0x0f0, 0x000, 0x555};
  const std::vector<int64_t> offsets = {0, 60};
  for (int64_t rows = 1; rows <= 30; ++rows) {
    TileProduct p;
    p.rows = rows, p.columns = kColumns, p.depth = kDepth;
    p.a_row = 3, p.a_depth = 1, p.b_depth = p.out_row = kColumns;
    p.segments = 2;
    p.a_offset = p.b_offset = offsets.data();
    p.columns_of = columns_of.data();
    p.reads = TileReads::kMasked;
    std::vector<float> a = random_values(200, 1), b = random_values(200, 2);
    b[3 * kColumns] = std::numeric_limits<float>::infinity();  // of the step that no column takes
    b[60 + 1] = std::nanf("");                                 // of column 1, which lacks that step
    std::vector<float> want(static_cast<std::size_t>(rows * kColumns)), out(want.size(), 9.0f);
    for (const int64_t at : offsets) {
      for (int64_t k = 0; k < kDepth; ++k) {
        for (int64_t i = 0; i < rows * kColumns; ++i) {
          if ((columns_of[static_cast<std::size_t>(k)] >> (i % kColumns) & 1) == 0) continue;
          float& sum = want[static_cast<std::size_t>(i)];
          sum = std::fma(a[static_cast<std::size_t>(at + i / kColumns * 3 + k)],
                         b[static_cast<std::size_t>(at + k * kColumns + i % kColumns)], sum);
        }
      }
    }
    tile_product(p, out.data(), a.data(), b.data());
    ASSERT_EQ(out, want) << rows << " rows";
  }
}

}  // namespace
}  // namespace etude::kernels::cpu
