// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/halves.h"

#include <bit>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "etude/kernels/cpu/simd/testing_isas.h"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kPart = 1 << 16;

template <class T>
class Halves : public testing::Test {};
using HalfTypes = testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(Halves, HalfTypes);

// Checks against the conversion of single elements, bit for bit, for each instruction set.
template <class T>
void check_narrow(const std::vector<float>& x) {
  std::vector<T> y(x.size());
  for (const internal::Isa isa : internal::isas_to_test()) {
    half_rows<T>(isa).narrow(y.data(), x.data(), static_cast<int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(y[i].bits(), T(x[i]).bits())
          << name(isa) << ", float with the bits " << std::bit_cast<uint32_t>(x[i]);
    }
  }
}

TYPED_TEST(Halves, AllPatternsWidenToTheBitsOfSingleElements) {
  using T = TypeParam;
  std::vector<T> x;
  for (int64_t i = 0; i < kPart; ++i) x.push_back(T::from_bits(static_cast<uint16_t>(i)));
  for (const internal::Isa isa : internal::isas_to_test()) {
    std::vector<float> y(x.size());
    half_rows<T>(isa).widen(y.data(), x.data(), kPart);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(static_cast<float>(x[i])))
          << name(isa) << ", pattern " << i;
    }
  }
}

// Every tie and its two neighbours, of both signs: the lost bits of a tie are a one followed by
// zeros. The upper halves cover all ties of both types and NaNs of every kind.
TYPED_TEST(Halves, TiesAndTheirNeighboursNarrowToTheBitsOfSingleElements) {
  std::vector<float> x;
  for (uint32_t high = 0; high < 1u << 20; ++high) {
    const uint32_t bits = high << 12;  // float16 loses 13 bits or, of a subnormal, more
    for (const uint32_t near : {bits - 1, bits, bits + 1}) x.push_back(std::bit_cast<float>(near));
    if (x.size() < 3 * kPart) continue;
    check_narrow<TypeParam>(x);
    x.clear();
  }
  check_narrow<TypeParam>(x);
}

TYPED_TEST(Halves, AMultitudeOfFloatsNarrowsToTheBitsOfSingleElements) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits <= 0xffffffff; bits += 509) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    if (static_cast<int64_t>(x.size()) < kPart) continue;
    check_narrow<TypeParam>(x);
    x.clear();
  }
  check_narrow<TypeParam>(x);
}

// Elements after the row keep their values.
TYPED_TEST(Halves, RowsOfAllLengthsEndWhereTheyEnd) {
  using T = TypeParam;
  constexpr int64_t kMost = 70;
  std::vector<float> x;
  for (int64_t i = 0; i < kMost; ++i) x.push_back(0.3f * static_cast<float>(i) - 7);
  for (const internal::Isa isa : internal::isas_to_test()) {
    for (int64_t n = 0; n < kMost; ++n) {
      std::vector<T> y(kMost, T(99.0f));
      std::vector<float> z(kMost, 99);
      half_rows<T>(isa).narrow(y.data(), x.data(), n);
      half_rows<T>(isa).widen(z.data(), y.data(), n);
      for (int64_t i = 0; i < kMost; ++i) {
        const auto at = static_cast<std::size_t>(i);
        ASSERT_EQ(y[at].bits(), T(i < n ? x[at] : 99.0f).bits()) << name(isa) << ", " << n;
        ASSERT_EQ(z[at], i < n ? static_cast<float>(T(x[at])) : 99.0f) << name(isa) << ", " << n;
      }
    }
  }
}

}  // namespace
}  // namespace etude::kernels::cpu
