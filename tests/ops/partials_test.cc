// SPDX-License-Identifier: Apache-2.0
// Partials derived from scalar programs: compared with hand-written partials, and at poles.
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/op/registry.h"
#include "etude/kernels/cpu/elementwise/elementwise.h"

namespace etude::partials_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
struct PartialRow {
  std::string_view op;
  int wrt;
  std::vector<double> values;
};
#include "tests/ops/values/partial_values.inc"

// A program in float64; operand i is from[sources[i]].
std::vector<double> evaluated(const scalar::Program& program,
                              const std::vector<std::vector<double>>& from) {
  std::vector<double> out(from[0].size());
  const std::vector<double> params(4, 0.25);
  std::vector<const void*> in;
  for (int i = 0; i < program.operands; ++i) {
    in.push_back(from[program.sources[static_cast<std::size_t>(i)]].data());
  }
  EXPECT_TRUE(kernels::cpu::run_program(program, kFloat64, false, out.data(), in.data(),
                                        params.data(), static_cast<int64_t>(out.size())));
  return out;
}

// Units of the last place between two doubles; NaN, infinities and zeros only equal their like.
double ulps(double got, double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : kInf;
  if (got == want) return 0;
  if (want == 0 || std::isinf(want) || std::isinf(got)) return kInf;
  return std::abs(got - want) / std::ldexp(1.0, std::ilogb(want) - 52);
}

// Formulas that are written otherwise differ by one rounding.
constexpr double kUlp = 1;
// digamma adds terms of opposite sign below 0, so it loses digits near its zeros.
constexpr double kDigammaError = 4e-16;

TEST(Partials, DerivedAreThoseThatWereWritten) {
  for (const PartialRow& row : kPartialRows) {
    const OpDef& def = Registry::global().at(row.op).def();
    const scalar::Program& value = *def.scalar.program;
    std::vector<std::vector<double>> in(static_cast<std::size_t>(value.operands));
    if (value.operands == 1) {
      in[0].assign(std::begin(kPoints), std::end(kPoints));
    } else {
      for (const double a : kPairs) {
        for (const double b : kPairs) {
          in[0].push_back(a);
          in[1].push_back(b);
        }
      }
    }
    in.push_back(evaluated(value, in));
    in.emplace_back(in[0].size(), 1.0);
    const auto which = static_cast<std::size_t>(row.wrt);
    ASSERT_NE(def.scalar.derived, nullptr) << row.op;
    const std::vector<double> got = evaluated(*def.scalar.derived->by_operand[which].program, in);
    ASSERT_EQ(got.size(), row.values.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (row.op == "lgamma" && std::abs(got[i] - row.values[i]) < kDigammaError) continue;
      EXPECT_LE(ulps(got[i], row.values[i]), kUlp)
          << row.op << " by " << row.wrt << " at " << in[0][i] << ", " << in[1][i] << ": " << got[i]
          << ", was " << row.values[i];
    }
  }
}

// Where the slope is infinite, nothing that arrives stays nothing, and all else becomes infinite.
TEST(Partials, NothingTimesAnInfiniteSlopeIsNothing) {
  const std::vector<std::pair<std::string_view, double>> poles = {
      {"sqrt", 0},   {"cbrt", 0}, {"log", 0},   {"log2", 0},  {"log10", 0},
      {"log1p", -1}, {"asin", 1}, {"acos", -1}, {"acosh", 1}, {"atanh", -1}};
  for (const auto& [name, x] : poles) {
    const scalar::Program& partial =
        *Registry::global().at(name).def().partials.by_operand[0].program;
    const scalar::Program& value = *Registry::global().at(name).def().scalar.program;
    std::vector<std::vector<double>> in = {{x, x}};
    in.push_back(evaluated(value, in));
    in.push_back({0, 2});
    const std::vector<double> got = evaluated(partial, in);
    EXPECT_EQ(got[0], 0) << name;
    EXPECT_EQ(std::abs(got[1]), kInf) << name;
  }
}

}  // namespace
}  // namespace etude::partials_test
