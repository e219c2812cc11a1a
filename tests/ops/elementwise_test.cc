// SPDX-License-Identifier: Apache-2.0
// Values of element-wise ops: the numbers of the specification, NumPy's at special points, float32
// against float64, and the kernels of all instruction sets against each other.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/call/builtin.h"
#include "etude/core/op/registry.h"
#include "etude/device/cpu/float_mode.h"
#include "etude/kernels/cpu/simd/math_table.h"
#include "etude/ops.h"

namespace etude::elementwise_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
struct SpecialRow {
  std::string_view op;
  std::vector<double> values;
};
#include "tests/ops/values/special_values.inc"

// A call with the attributes of the record's first sample.
Tensor run(const Op& op, const std::vector<Tensor>& in) {
  const auto& calls = op.def().samples.calls;
  const Attrs attrs = calls.empty() ? op.default_attrs() : op.attrs_by_name(calls[0].attrs);
  const OperandList list{std::span<const Tensor>(in)};
  return internal::only(execute(op, list.view(), attrs, {}));
}

std::vector<const Op*> elementwise_ops() {
  std::vector<const Op*> out;
  for (const Op* op : Registry::global().ops()) {
    if (op->def().kind == Kind::kElementwise) out.push_back(op);
  }
  return out;
}

Tensor column(const std::vector<double>& values, DType dtype) {
  return internal::cast(Tensor(values), dtype);
}

// Zeros must agree in sign if `zero_signs`.
void expect_same(double got, double want, double relative, bool zero_signs) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << got;
  } else if (want == 0 && zero_signs) {
    EXPECT_EQ(got, want);
    EXPECT_EQ(std::signbit(got), std::signbit(want));
  } else if (std::isinf(want) || want == 0) {
    EXPECT_EQ(got, want);
  } else {
    EXPECT_NEAR(got, want, relative * std::max(0.25, std::abs(want)));
  }
}

// The standard leaves the sign of zero open for these.
bool has_open_zeros(std::string_view op) {
  return op == "sign" || op == "maximum" || op == "minimum";
}

class SpecialValues : public testing::TestWithParam<DType> {};

// spec: T8.a
TEST_P(SpecialValues, OfOneOperand) {
  const double relative = GetParam() == kFloat64 ? 4e-15 : GetParam() == kFloat32 ? 4e-7 : 1e-2;
  const Tensor x = column({std::begin(kGrid), std::end(kGrid)}, GetParam());
  for (const SpecialRow& row : kUnaryRows) {
    const std::vector<double> got = run(Registry::global().at(row.op), {x}).to_vector<double>();
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      SCOPED_TRACE(std::string(row.op) + " " + std::to_string(kGrid[i]));
      // 10^2.5 and similar results belong to the rounded operand.
      expect_same(got[i], row.values[i], relative, !has_open_zeros(row.op));
    }
  }
}

// spec: T7.a
TEST_P(SpecialValues, OfTwoOperands) {
  const double relative = GetParam() == kFloat64 ? 4e-15 : GetParam() == kFloat32 ? 4e-7 : 1e-2;
  std::vector<double> left, right;
  for (const double a : kPairGrid) {
    for (const double b : kPairGrid) {
      left.push_back(a);
      right.push_back(b);
    }
  }
  const Tensor x1 = column(left, GetParam()), x2 = column(right, GetParam());
  for (const SpecialRow& row : kBinaryRows) {
    if (row.op == "nextafter" && GetParam() != kFloat64) continue;  // another neighbour
    const std::vector<double> got =
        run(Registry::global().at(row.op), {x1, x2}).to_vector<double>();
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      SCOPED_TRACE(std::string(row.op) + " " + std::to_string(left[i]) + " " +
                   std::to_string(right[i]));
      expect_same(got[i], row.values[i], relative, !has_open_zeros(row.op));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Floating, SpecialValues,
                         testing::Values(kFloat16, kBFloat16, kFloat32, kFloat64),
                         [](const auto& p) { return std::string(name(p.param)); });

// The distance of a float32 result from the exact one, in units of the last place.
double ulps(double got, double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : kInf;
  if (std::abs(want) > std::numeric_limits<float>::max()) return std::isinf(got) ? 0 : kInf;
  if (got == want) return 0;
  const double smallest = std::numeric_limits<float>::min();
  if (std::abs(want) < smallest) return std::abs(got) <= smallest ? 0 : kInf;  // flushed
  return std::abs(got - want) / std::ldexp(1.0, std::ilogb(want) - 23);
}

std::pair<double, double> range_of(const Op& op, std::size_t i) {
  const Samples& samples = op.def().samples;
  if (i < samples.ranges.size()) return samples.ranges[i];
  return {-6, 6};
}

std::vector<Tensor> dense_samples(const Op& op, std::mt19937& random) {
  constexpr std::size_t kCount = 20000;
  std::vector<Tensor> in;
  for (std::size_t i = 0; i < op.arity(); ++i) {
    const auto [low, high] = range_of(op, i);
    std::uniform_real_distribution<float> pick(static_cast<float>(low), static_cast<float>(high));
    std::vector<float> values(kCount);
    for (float& v : values) v = pick(random);
    const Tensor x(values);
    in.push_back(op.operand_dtypes(i) == DTypeSet(kBool) ? greater(x, 0.0) : x);
  }
  return in;
}

// spec: T7.a, T8.a, T9.a
TEST(Elementwise, Float32IsWithinTheUlpOfItsRecord) {
  std::mt19937 random(1);
  for (const Op* op : elementwise_ops()) {
    if (!op->operand_dtypes(op->arity() - 1).contains(kFloat32)) continue;
    if (op->name() == "nextafter") continue;  // float64 has other neighbours
    const std::vector<Tensor> in = dense_samples(*op, random);
    std::vector<Tensor> wide;
    for (const Tensor& x : in) wide.push_back(x.dtype() == kBool ? x : internal::cast(x, kFloat64));
    const std::vector<double> got = run(*op, in).to_vector<double>();
    const std::vector<double> want = run(*op, wide).to_vector<double>();
    double worst = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double error = ulps(got[i], want[i]);
      if (error > worst) {
        worst = error;
        at = i;
      }
    }
    EXPECT_LE(worst, op->def().samples.ulp)
        << op->name() << " at operand " << in[0].to_vector<double>()[at] << ": got " << got[at]
        << ", want " << want[at];
  }
}

// Operands of a program: bool bytes where it wants bools, floats of all kinds elsewhere.
std::vector<std::vector<std::byte>> program_operands(const scalar::Program& program,
                                                     std::size_t count, std::mt19937& random) {
  std::vector<std::vector<std::byte>> out;
  for (int i = 0; i < program.operands; ++i) {
    std::vector<float> values(count);
    for (float& v : values) {
      const uint32_t pick = random();
      v = pick % 8 == 0 ? std::bit_cast<float>(static_cast<uint32_t>(random()))
                        : static_cast<float>(static_cast<int32_t>(random())) * 0x1p-28f;
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    out.emplace_back(bytes, bytes + count * 4);
    if (((program.bools >> i) & 1) == 0) continue;
    for (std::size_t k = 0; k < count; ++k) out.back()[k] = std::byte(random() & 1);
  }
  return out;
}

// The results, with one pattern for all NaN, and the guard after them.
std::vector<std::byte> run_kernel(const ScalarDef& def, std::size_t isa,
                                  const std::vector<std::vector<std::byte>>& operands,
                                  std::size_t n) {
  constexpr std::size_t kGuard = 64;
  const std::vector<double> params(8, 0.75);
  std::vector<const void*> in;
  for (const auto& operand : operands) in.push_back(operand.data());
  std::vector<std::byte> out(n * 4 + kGuard, std::byte{0xA5});
  const FloatModeScope flush;
  def.by_isa[isa](out.data(), in.data(), params.data(), n);
  if (def.program->is_bool) return out;
  for (std::size_t i = 0; i < n; ++i) {
    float value;
    std::memcpy(&value, out.data() + i * 4, 4);
    if (std::isnan(value)) value = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(out.data() + i * 4, &value, 4);
  }
  return out;
}

void expect_same_kernels(const ScalarDef& def, std::string_view what, std::mt19937& random) {
  if (def.program == nullptr || def.program->operands == 0) return;
  const auto best = static_cast<std::size_t>(internal::best_isa());
  for (std::size_t n = 1; n <= 70; ++n) {
    const auto operands = program_operands(*def.program, n, random);
    const std::vector<std::byte> want = run_kernel(def, 0, operands, n);
    const std::size_t written = n * (def.program->is_bool ? 1 : 4);
    for (std::size_t i = written; i < want.size(); ++i) ASSERT_EQ(want[i], std::byte{0xA5}) << what;
    for (std::size_t isa = 1; isa <= best; ++isa) {
      if (def.by_isa[isa] == nullptr) continue;  // left out of sanitized builds
      ASSERT_TRUE(run_kernel(def, isa, operands, n) == want)
          << what << ", set " << isa << ", n " << n;
    }
  }
}

// spec: T7.a, T8.a, T9.a
TEST(Elementwise, KernelsOfAllInstructionSetsGiveTheSameBits) {
  std::mt19937 random(2);
  int kernels = 0;
  for (const Op* op : elementwise_ops()) {
    expect_same_kernels(op->def().scalar, op->name(), random);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string what = std::string(op->name()) + ", partial " + std::to_string(i);
      expect_same_kernels(op->def().partials.by_operand[i], what, random);
    }
    ++kernels;
  }
  EXPECT_GT(kernels, 80);
}

// Half types compute in float32 and round once.
// spec: T7.a, T8.a, T9.a
TEST(Elementwise, HalfTypesRoundTheFloat32Result) {
  std::mt19937 random(3);
  for (const DType half : {kFloat16, kBFloat16}) {
    for (const Op* op : elementwise_ops()) {
      if (!op->operand_dtypes(op->arity() - 1).contains(half)) continue;
      std::vector<Tensor> low, high;
      for (const Tensor& x : dense_samples(*op, random)) {
        low.push_back(x.dtype() == kBool ? x : internal::cast(x, half));
        high.push_back(x.dtype() == kBool ? x : internal::cast(low.back(), kFloat32));
      }
      const Tensor got = run(*op, low), wide = run(*op, high);
      const Tensor want = wide.dtype() == kBool ? wide : internal::cast(wide, half);
      EXPECT_EQ(got.dtype(), want.dtype()) << op->name();
      const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
      for (std::size_t i = 0; i < a.size(); ++i) {
        if (std::isnan(b[i]) && std::isnan(a[i])) continue;
        ASSERT_EQ(a[i], b[i]) << op->name() << " " << name(half);
      }
    }
  }
}

}  // namespace
}  // namespace etude::elementwise_test
