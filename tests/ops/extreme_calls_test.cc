// SPDX-License-Identifier: Apache-2.0
// Type rules of all records with extreme attributes and sizes: types, or an error of the caller.
// The sanitizer for undefined behaviour, in its preset, sees sums and products that overflow. The
// fuzz target tests/fuzz/type_rules_fuzz.cc tries more.
#include <cstdint>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "etude/base/internal/checked_int.h"
#include "etude/etude.h"
#include "etude/graph/size_formula.h"
#include "tests/fuzz/extreme_call.h"

namespace etude {
namespace {

struct Seeded {
  uint64_t state;
  uint8_t next() {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<uint8_t>(state >> 56);
  }
};

TEST(ExtremeCalls, TypeRulesAnswer) {
  const char* const wish = std::getenv("ETUDE_TEST_CASES");
  const uint64_t cases = wish != nullptr ? std::strtoull(wish, nullptr, 10) : 20000;
  for (uint64_t seed = 0; seed < cases; ++seed) {
    Seeded in{seed * 0x9E3779B97F4A7C15U + 1};
    const extreme::Call call = extreme::call(in);
    ASSERT_TRUE(extreme::is_answered(call)) << "seed " << seed << ": " << call.to_string();
  }
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Calls that overflowed once.
TEST(ExtremeCalls, ErrorsOfUsers) {
  constexpr int64_t kMax = INT64_MAX, kMin = INT64_MIN;
  const Tensor x = ones({4, 4, 1}), square = ones({3, 3}), row = ones({3});
  const std::string block = error_of([&] {
    image::depth_to_space(ones({1, 2, 2, 4}), int64_t{1} << 40);
  });
  EXPECT_NE(block.find("depth_to_space: block is 1099511627776"), std::string::npos) << block;
  for (const auto& [top, height] :
       {std::pair{kMax, int64_t{2}}, {kMax - 1, int64_t{2}}, {int64_t{2}, kMax}}) {
    const std::string text = error_of([&] { image::crop(x, top, 0, height, 2); });
    EXPECT_NE(text.find("crop"), std::string::npos) << text;
  }
  for (const int64_t offset : {kMin, kMax}) {
    EXPECT_EQ(linalg::diagonal(square, {.offset = offset}).shape(), Shape({0}));
    EXPECT_EQ(linalg::trace(square, {.offset = offset}).item<float>(), 0);
    const std::string text = error_of([&] { linalg::diag(row, {.offset = offset}); });
    EXPECT_NE(text.find("diag: "), std::string::npos) << text;
  }
  EXPECT_NE(error_of([&] { fft::fftfreq(kMax); }).find("fftfreq: "), std::string::npos);
}

TEST(ExtremeCalls, CheckedArithmetic) {
  using internal::CheckedInt;
  EXPECT_EQ((CheckedInt(7) * 6 + 2 - 4).value(), 40);
  EXPECT_EQ((CheckedInt(7) / 2).value(), 3);
  EXPECT_EQ((CheckedInt(INT64_MIN) % -1).value(), 0);
  EXPECT_TRUE(CheckedInt(3) < 4 && CheckedInt(4) == 4);
  for (const auto& f : std::initializer_list<std::function<void()>>{
           [] { CheckedInt(INT64_MAX) + 1; }, [] { CheckedInt(INT64_MIN) - 1; },
           [] { CheckedInt(INT64_MAX / 2) * 3; }, [] { CheckedInt(1) / 0; },
           [] { CheckedInt(1) % 0; }, [] { CheckedInt(INT64_MIN) / -1; },
           [] { -CheckedInt(INT64_MIN); }}) {
    const std::string text = error_of(f);
    EXPECT_NE(text.find("does not fit in 64 bits. Use smaller ones"), std::string::npos) << text;
  }
}

// Two calls whose attribute differs by more than 63 bits hold: no formula, and no trap.
TEST(ExtremeCalls, SizeFormulas) {
  const internal::SizePoints points = {{3, 70}, {4, 7}, {5, 9}};
  for (const auto& seen : {std::vector<int64_t>{INT64_MIN, 0, INT64_MAX},
                           {INT64_MAX, INT64_MIN, 0},
                           {0, INT64_MIN, 5}}) {
    EXPECT_TRUE(internal::explain_sizes(seen, points).formulas.empty());
  }
}

}  // namespace
}  // namespace etude
