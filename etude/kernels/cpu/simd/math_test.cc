// SPDX-License-Identifier: Apache-2.0
//
// The vector mathematics against double precision, and its instruction sets against each other bit
// for bit.
//
// ETUDE_MATH_STRIDE sets the step through all 2^32 bit patterns (default 4099; 1 tries every
// float).

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/base/sanitizers.h"
#include "etude/kernels/cpu/simd/math_reference.h"
#include "etude/kernels/cpu/simd/math_table.h"
#include "etude/kernels/cpu/simd/testing_isas.h"

namespace etude::internal {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const MathFn& find(Isa isa, std::string_view name) {
  for (const MathFn& f : math_table(isa)) {
    if (f.name == name) return f;
  }
  ADD_FAILURE() << "no function " << name;
  return math_table(isa)[0];
}

// Distance from the exact value in units of the last place of a float near it.
double ulps(float got, double want) {
  const double largest = std::numeric_limits<float>::max();
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e9;
  if (std::abs(want) > largest) want = std::copysign(std::min(std::abs(want), 0x1p128), want);
  double value = std::isinf(got) ? std::copysign(0x1p128, got) : got;
  int exponent = std::max(std::ilogb(std::max(std::abs(want), 0x1p-126)), -126);
  double error = std::abs(value - want) * std::exp2(23 - exponent);
  return std::isnan(error) ? 1e9 : error;
}

uint32_t stride() {
  const char* setting = std::getenv("ETUDE_MATH_STRIDE");
  return setting == nullptr ? 4099 : static_cast<uint32_t>(std::strtoul(setting, nullptr, 10));
}

// Zeros, infinities, NaN, denormals, powers of two and their neighbours, and multiples of pi / 4.
std::vector<float> edges() {
  std::vector<float> all = {kInf, -kInf, kNan, 0.0f, -0.0f};
  auto add = [&](float x) {
    for (float y : {x, std::nextafter(x, 0.0f), std::nextafter(x, 1e38f)}) {
      all.push_back(y);
      all.push_back(-y);
    }
  };
  for (int e = -149; e < 128; ++e) add(std::ldexp(1.0f, e));
  for (int k = 1; k < 50; ++k) {
    add(static_cast<float>(k * 0.78539816339744831));
    add(static_cast<float>(k));
    add(static_cast<float>(k) * 0.1f);
  }
  for (float x : {88.7228f, 103.97f, 0.625f, 0.921875f, 3.95f, 131072.0f, 1e30f, 3.4028235e38f})
    add(x);
  return all;
}

// Edges first, then every stride-th bit pattern, a block at a time, each handed to `body`.
template <class Body>
void for_each_block(Body body) {
  std::vector<float> block = edges();
  body(block);
  const uint64_t step = stride();
  for (uint64_t at = 0; at < (1ull << 32);) {
    block.clear();
    for (; block.size() < 65536 && at < (1ull << 32); at += step) {
      const float x = std::bit_cast<float>(static_cast<uint32_t>(at));
      if (!std::isnan(x)) block.push_back(x);
    }
    if (!block.empty()) body(block);
  }
}

TEST(Math, EveryFunctionHasAReference) {
  for (Isa isa : isas_to_test()) {
    ASSERT_EQ(math_table(isa).size(), math_references().size());
    for (const MathFn& f : math_table(isa)) {
      const MathReference* reference = find_reference(f.name);
      ASSERT_NE(reference, nullptr) << f.name;
      EXPECT_EQ(f.arity, reference->unary != nullptr ? 1 : 2) << f.name;
    }
  }
}

class Unary : public testing::TestWithParam<MathReference> {};

TEST_P(Unary, IsNearTheExactValue) {
  const MathReference& reference = GetParam();
  const MathFn& f = find(best_isa(), reference.name);
  double worst = 0;
  float worst_at = 0, worst_got = 0;
  for_each_block([&](const std::vector<float>& x) {
    std::vector<float> got(x.size());
    f.run(got.data(), x.data(), nullptr, x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = reference.unary(x[i]);
      const double error = ulps(got[i], want);
      if (error > worst && std::abs(got[i] - want) > reference.absolute) {
        worst = error;
        worst_at = x[i];
        worst_got = got[i];
      }
      if (want == 0) {
        EXPECT_EQ(std::signbit(got[i]), std::signbit(want)) << f.name << "(" << x[i] << ")";
      }
    }
  });
  RecordProperty("ulp", std::to_string(worst));
  EXPECT_LE(worst, reference.ulp) << f.name << "(" << worst_at << ") is " << worst_got << ", want "
                                  << reference.unary(worst_at);
  if (std::getenv("ETUDE_MATH_REPORT"))
    std::printf("%-12s %.3f ulp at %.9g\n", f.name, worst, worst_at);
}

// For one operand or two. Compares all at once first: with sanitizers a comparison by GoogleTest
// takes longer than the functions.
void expect_same_bits(const char* name, const std::vector<float>& x,
                      const std::vector<float>* y = nullptr) {
  std::vector<float> first(x.size()), other(x.size());
  const float* const second = y == nullptr ? nullptr : y->data();
  find(Isa::kPortable, name).run(first.data(), x.data(), second, x.size());
  for (Isa isa : isas_to_test()) {
    find(isa, name).run(other.data(), x.data(), second, x.size());
    if (std::memcmp(first.data(), other.data(), x.size() * sizeof(float)) == 0) continue;
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(first[i]), std::bit_cast<uint32_t>(other[i]))
          << name << "(" << x[i] << (y == nullptr ? "" : fmt::format(", {}", (*y)[i]))
          << "): " << first[i] << " and " << other[i];
    }
  }
}

TEST_P(Unary, HasTheSameBitsOnEveryInstructionSet) {
  for_each_block([&](const std::vector<float>& x) { expect_same_bits(GetParam().name, x); });
}

#if defined(__SSE2__)
// Etude runs with denormals taken for 0, as operands and as results.
class FlushToZero {
 public:
  FlushToZero() { _mm_setcsr(saved_ | 0x8040); }
  ~FlushToZero() { _mm_setcsr(saved_); }

 private:
  unsigned saved_ = _mm_getcsr();
};

TEST_P(Unary, HasTheSameBitsWithFlushToZero) {
  for_each_block([&](const std::vector<float>& x) {
    FlushToZero scope;
    expect_same_bits(GetParam().name, x);
  });
}
#endif

std::string name_of(const testing::TestParamInfo<MathReference>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Math, Unary, testing::ValuesIn(references_of_arity(1)), name_of);

class Binary : public testing::TestWithParam<MathReference> {};

struct Pairs {
  std::vector<float> x, y;
};

// Every pair of some edges, then random pairs: of bit patterns, and of moderate numbers.
Pairs make_pairs() {
  const std::vector<float> some = {0.0f,  -0.0f,  1.0f,   -1.0f, 2.0f,  -2.0f,      3.0f, -3.0f,
                                   0.5f,  -0.5f,  2.5f,   -2.5f, kInf,  -kInf,      kNan, 1e-40f,
                                   1e30f, -1e30f, 1e-30f, 7.0f,  -7.0f, 16777216.0f};
  Pairs out;
  auto& [x, y] = out;
  for (float a : some) {
    for (float b : some) {
      x.push_back(a);
      y.push_back(b);
    }
  }
  std::mt19937 random(1);
  std::uniform_real_distribution<float> moderate(-20, 20);
  const int count = internal::kHasAddressSanitizer ? 1 << 16 : 1 << 19;
  for (int i = 0; i < count; ++i) {
    const float a = std::bit_cast<float>(static_cast<uint32_t>(random()));
    const float b = std::bit_cast<float>(static_cast<uint32_t>(random()));
    x.insert(x.end(), {a, moderate(random), std::abs(moderate(random)), std::nextafter(1.0f, a)});
    y.insert(y.end(), {b, moderate(random), moderate(random), moderate(random) * 1e6f});
  }
  for (std::vector<float>* values : {&x, &y}) {
    for (float& value : *values) value = std::isnan(value) ? kNan : value;
  }
  return out;
}

TEST_P(Binary, IsNearTheExactValueWithTheSameBitsEverywhere) {
  const MathReference& reference = GetParam();
  static const Pairs pairs = make_pairs();
  const std::vector<float>&x = pairs.x, &y = pairs.y;
  std::vector<float> got(x.size());
  find(Isa::kPortable, reference.name).run(got.data(), x.data(), y.data(), x.size());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = reference.binary(x[i], y[i]);
    const double error = ulps(got[i], want);
    worst = std::max(worst, error);
    const bool has_sign = want != 0 || std::signbit(got[i]) == std::signbit(want);
    if (error <= reference.ulp && has_sign) continue;
    FAIL() << reference.name << "(" << x[i] << ", " << y[i] << ") is " << got[i] << ", want "
           << want;
  }
  if (std::getenv("ETUDE_MATH_REPORT")) std::printf("%-12s %.3f ulp\n", reference.name, worst);
  expect_same_bits(reference.name, x, &y);
}

INSTANTIATE_TEST_SUITE_P(Math, Binary, testing::ValuesIn(references_of_arity(2)), name_of);

TEST(Math, LengthAndPositionDoNotMatter) {
  std::vector<float> x(64), y(64);
  for (int i = 0; i < 64; ++i) {
    x[i] = (i % 2 ? 1.0f : -1.0f) * std::exp(0.5f * (i - 20));
    y[i] = 0.37f * (i - 30);
  }
  for (Isa isa : isas_to_test()) {
    for (const MathFn& f : math_table(isa)) {
      std::vector<float> whole(64);
      f.run(whole.data(), x.data(), y.data(), 64);
      for (int start = 0; start < 20; ++start) {
        for (int n = 0; n + start < 64; ++n) {
          std::vector<float> part(n + 1, 42.0f);
          f.run(part.data(), x.data() + start, y.data() + start, n);
          for (int i = 0; i < n; ++i) {
            ASSERT_EQ(std::bit_cast<int>(part[i]), std::bit_cast<int>(whole[start + i]))
                << f.name << " at " << i;
          }
          ASSERT_EQ(part[n], 42.0f) << f.name << " wrote past the end";
        }
      }
    }
  }
}

}  // namespace
}  // namespace etude::internal
