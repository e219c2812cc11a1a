// SPDX-License-Identifier: Apache-2.0
// The numbered requirements for element-wise ops: values, integer arithmetic, errors, and gradients
// at kinks and for large arguments.
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient_tape.h"
#include "etude/ops.h"
#include "tests/expect_error.h"

namespace etude::elementwise_values_test {
namespace {

using Unary = std::function<Tensor(const Tensor&)>;
using Binary = std::function<Tensor(const Tensor&, const Tensor&)>;

std::vector<double> slopes_of(const Unary& f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(f(x), x).to_vector<double>();
}
std::vector<double> slopes(const Unary& f, const std::vector<double>& at) {
  return slopes_of(f, Tensor(at));
}
std::pair<double, double> slopes(const Binary& f, double x1, double x2) {
  const Tensor a(std::vector<double>{x1}), b(std::vector<double>{x2});
  GradientTape tape({.persistent = true});
  tape.watch(a);
  tape.watch(b);
  const Tensor y = f(a, b);
  tape.stop();
  return {tape.gradient(y, a).to_vector<double>()[0], tape.gradient(y, b).to_vector<double>()[0]};
}
#define EXPECT_TEXT(call, part) \
  tests::expect_error([&] { call; }, ErrorCode::kInvalidArgument, {part})

// spec: T8.a, T9.a
TEST(ElementwiseValues, OfTheSpecification) {
  EXPECT_NEAR(nn::gelu(1.0).item<double>(), .8413447, 1e-6);
  EXPECT_NEAR(nn::gelu(1.0, {.approximate = "tanh"}).item<double>(), .8411920, 1e-6);
  EXPECT_NEAR(nn::silu(1.0).item<double>(), .7310586, 1e-6);
  EXPECT_NEAR(nn::mish(1.0).item<double>(), .8650984, 1e-6);
  EXPECT_NEAR(nn::hard_sigmoid(1.0).item<double>(), 2.0 / 3, 1e-6);
  EXPECT_NEAR(nn::hard_swish(1.0).item<double>(), 2.0 / 3, 1e-6);
  EXPECT_NEAR(nn::elu(-1.0).item<double>(), -.6321206, 1e-6);
  EXPECT_NEAR(nn::selu(-1.0).item<double>(), -1.1113307, 1e-6);
  EXPECT_NEAR(nn::softplus(0.0).item<double>(), .6931472, 1e-6);
  EXPECT_NEAR(log1mexp(-1.0).item<double>(), -.4586751, 1e-6);
  EXPECT_NEAR(nn::leaky_relu(-1.0).item<double>(), -.2, 1e-6);
  EXPECT_NEAR(nn::leaky_relu(-1.0, {.slope = 0.5}).item<double>(), -.5, 1e-6);
  EXPECT_NEAR(nn::elu(-1.0, {.alpha = 2}).item<double>(), 2 * -.6321206, 1e-6);
}

// spec: T9.a
TEST(ElementwiseValues, ActivationsStayFiniteFarOut) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Tensor x = astype(Tensor(std::vector<double>{-1e4, -80, 80, 1e4}), dtype);
    EXPECT_EQ(nn::log_sigmoid(x).to_vector<double>()[0], -1e4);
    EXPECT_EQ(nn::softplus(x).to_vector<double>()[3], 1e4);
    EXPECT_EQ(logaddexp(x, x).to_vector<double>()[3],
              1e4 + (dtype == kFloat64 ? std::log(2) : .693359375));
    EXPECT_NEAR(nn::softplus(x).to_vector<double>()[1] / std::exp(-80), 1, 1e-6);
    for (const double y : nn::mish(x).to_vector<double>()) EXPECT_TRUE(std::isfinite(y));
  }
}

// spec: IM-05.a, IM-05.c
TEST(ElementwiseValues, IntegerDivisionFloorsAndArithmeticWraps) {
  EXPECT_EQ(etude::floor_divide(-7, 2).item<int>(), -4);
  EXPECT_EQ(etude::remainder(-7, 3).item<int>(), 2);
  EXPECT_EQ((Tensor(-7) % 3).item<int>(), 2);
  const Tensor quotient = Tensor(7) / 2;
  EXPECT_EQ(quotient.dtype(), kFloat32);
  EXPECT_EQ(quotient.item<double>(), 3.5);
  const Tensor bytes = Tensor(std::vector<uint8_t>{200}) + Tensor(std::vector<uint8_t>{100});
  EXPECT_EQ(bytes.to_vector<int>()[0], 44);
  const int8_t low = -128;
  const Tensor lowest(std::vector<int8_t>{low});
  EXPECT_EQ(abs(lowest).to_vector<int>()[0], -128);
  EXPECT_EQ((-lowest).to_vector<int>()[0], -128);
  EXPECT_EQ(floor_divide(lowest, -1).to_vector<int>()[0], -128);
  EXPECT_EQ(remainder(lowest, -1).to_vector<int>()[0], 0);
  EXPECT_EQ(pow(Tensor(3), 5).item<int>(), 243);
  EXPECT_EQ(pow(Tensor(2), 40).item<int>(), 0);
  EXPECT_TRUE(std::isinf((Tensor(1.0) / 0.0).item<double>()));
  EXPECT_TRUE(std::isnan((Tensor(0.0) / 0.0).item<double>()));
}

// spec: IM-03.a, IM-03.b, IM-05.b, IM-06.c, T7.b
TEST(ElementwiseValues, ErrorsSayWhatToDo) {
  const Tensor ints(std::vector<int>{1, 2}), floats(std::vector<float>{1, 2});
  const Tensor unsigned_ones = astype(ints, kUInt64);
  EXPECT_TEXT(astype(ints, kInt64) + unsigned_ones,
              "add: operand 'x2' is uint64 and operand 'x1' is int64");
  EXPECT_TEXT(floor_divide(ints, 0), "integers cannot be divided by it");
  EXPECT_TEXT(ints % Tensor(std::vector<int>{1, 0}), "remainder: operand 'x2' has a zero");
  EXPECT_TEXT(pow(ints, -1), "pow: operand 'x2' has a negative exponent");
  EXPECT_TEXT(static_cast<void>(floats == Tensor(std::vector<float>{1, 2, 3})), "sizes 2 and 3");
  EXPECT_TEXT(exp(ints), "operand 'x' is int32, but must be one of");
  EXPECT_TEXT(logical_and(ints, ints), "must be one of bool");
  EXPECT_TEXT(floats & floats, "is float32, but must be one of");
  EXPECT_EQ((floats + 1).dtype(), kFloat32);
}

// spec: T7.a
TEST(ElementwiseValues, BitsAndTruths) {
  const Tensor a(std::vector<int>{12, -5}), b(std::vector<int>{10, 3});
  EXPECT_EQ((a & b).to_vector<int>(), (std::vector<int>{8, 3}));
  EXPECT_EQ((a | b).to_vector<int>(), (std::vector<int>{14, -5}));
  EXPECT_EQ((a ^ b).to_vector<int>(), (std::vector<int>{6, -8}));
  EXPECT_EQ((~a).to_vector<int>(), (std::vector<int>{-13, 4}));
  EXPECT_EQ((a << 2).to_vector<int>(), (std::vector<int>{48, -20}));
  EXPECT_EQ((a >> 1).to_vector<int>(), (std::vector<int>{6, -3}));
  EXPECT_EQ((a >> 40).to_vector<int>(), (std::vector<int>{0, -1}));
  const Tensor bools = a > 0;
  EXPECT_EQ((~bools).to_vector<int>(), (std::vector<int>{0, 1}));
  EXPECT_EQ(logical_xor(bools, a < 0).to_vector<int>(), (std::vector<int>{1, 1}));
}

// spec: T7.a
TEST(ElementwiseValues, Closeness) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Tensor x = astype(Tensor(std::vector<double>{1, 1, inf, inf, nan, 5}), dtype);
    const Tensor y = astype(Tensor(std::vector<double>{1.000001, 1.1, inf, 5, nan, inf}), dtype);
    EXPECT_EQ(isclose(x, y).to_vector<int>(), (std::vector<int>{1, 0, 1, 0, 0, 0}));
    EXPECT_EQ(isclose(x, y, {.equal_nan = true}).to_vector<int>()[4], 1);
    EXPECT_EQ(isclose(x, y, {.rtol = 0.2}).to_vector<int>()[1], 1);
  }
  const Tensor a(std::vector<int>{1, 2});
  EXPECT_TRUE(allclose(a, a).item<bool>());
  EXPECT_FALSE(allclose(a, a + 1).item<bool>());
  EXPECT_TRUE(array_equal(a, a).item<bool>());
  EXPECT_FALSE(array_equal(a, Tensor(std::vector<int>{1})).item<bool>());
  EXPECT_FALSE(array_equal(Tensor(nan), Tensor(nan)).item<bool>());
}

// spec: T8.a
TEST(ElementwiseValues, ClipKeepsTheDtypeOfItsOperand) {
  const Tensor x(std::vector<double>{-1, 0.25, 7});
  EXPECT_EQ(clip(x, {.min = 0.1, .max = 1}).to_vector<double>(),
            (std::vector<double>{0.1, 0.25, 1}));
  EXPECT_EQ(clip(x, {.min = 0.1}).to_vector<double>(), (std::vector<double>{0.1, 0.25, 7}));
  EXPECT_EQ(clip(x, {.max = 0.1}).to_vector<double>(), (std::vector<double>{-1, 0.1, 0.1}));
  EXPECT_TRUE(same_value(clip(x), x));
  EXPECT_EQ(clip(astype(x, kFloat16), {.min = 0.5}).dtype(), kFloat16);
  EXPECT_EQ(clip(Tensor(std::vector<int8_t>{-5, 5}), {.min = 0}).to_vector<int>(),
            (std::vector<int>{0, 5}));
  const Tensor between = clip(Tensor(5), {.max = 2.5});  // integers meet a number with a fraction
  EXPECT_EQ(between.dtype(), kFloat32);
  EXPECT_EQ(between.item<double>(), 2.5);
}

// spec: T8.a
TEST(ElementwiseValues, NanToNumTakesTheLimitsOfTheDtype) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x(std::vector<double>{std::nan(""), inf, -inf, 2});
  const double most = std::numeric_limits<double>::max();
  EXPECT_EQ(nan_to_num(x).to_vector<double>(), (std::vector<double>{0, most, -most, 2}));
  EXPECT_EQ(nan_to_num(astype(x, kFloat16)).to_vector<double>()[1], 65504);
  EXPECT_EQ(nan_to_num(astype(x, kFloat32)).to_vector<float>()[2],
            -std::numeric_limits<float>::max());
  EXPECT_EQ(nan_to_num(x, {.nan = 3, .posinf = 4, .neginf = 5}).to_vector<double>(),
            (std::vector<double>{3, 4, 5, 2}));
  EXPECT_EQ(nan_to_num(Tensor(7)).item<int>(), 7);
  const std::complex<double> z(std::nan(""), -inf), finite(1, -2);
  const Tensor zs(std::vector<std::complex<double>>{z, finite});
  EXPECT_EQ(nan_to_num(zs).to_vector<std::complex<double>>(),
            (std::vector<std::complex<double>>{{0, -most}, finite}));
  EXPECT_EQ(nan_to_num(astype(zs, kComplex64), {.nan = 3}).to_vector<std::complex<float>>()[0],
            std::complex<float>(3, -std::numeric_limits<float>::max()));
}

// spec: T8.a
TEST(ElementwiseValues, PartsOfComplexNumbers) {
  const Tensor z = Tensor(std::complex<double>(3, -4));
  EXPECT_EQ(abs(z).item<double>(), 5);
  EXPECT_EQ(abs(z).dtype(), real_dtype(z.dtype()));
  EXPECT_EQ(real(z).item<double>(), 3);
  EXPECT_EQ(imag(z).item<double>(), -4);
  EXPECT_EQ(conj(z).item<std::complex<double>>(), std::complex<double>(3, 4));
  EXPECT_NEAR(angle(z).item<double>(), std::atan2(-4, 3), 1e-6);
  EXPECT_EQ(imag(Tensor(5)).item<int>(), 0);
  EXPECT_NEAR(angle(-1).item<double>(), M_PI, 1e-6);
  const auto near = log1mexp(Tensor(std::complex<double>(-1, 0.5))).item<std::complex<double>>();
  const auto want = std::log(1.0 - std::exp(std::complex<double>(-1, 0.5)));
  EXPECT_NEAR(std::abs(near - want), 0, 1e-6);
}

// spec: T30
TEST(ElementwiseGradient, OfSquaresAndAbs) {
  const std::vector<double> got = slopes([](const Tensor& x) { return x * x; }, {.1, .2, .3});
  const std::vector<double> want = {.2, .4, .6};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], want[i], 1e-15);
  EXPECT_EQ(slopes([](const Tensor& x) { return abs(x); }, {3, -3, 0}),
            (std::vector<double>{1, -1, 0}));
}

// spec: T32
TEST(ElementwiseGradient, TiesShareHalf) {
  const auto high = [](const Tensor& a, const Tensor& b) { return maximum(a, b); };
  const auto low = [](const Tensor& a, const Tensor& b) { return minimum(a, b); };
  using Pair = std::pair<double, double>;
  EXPECT_EQ(slopes(high, 2, 2), (Pair{.5, .5}));
  EXPECT_EQ(slopes(low, 2, 2), (Pair{.5, .5}));
  EXPECT_EQ(slopes(high, 3, 2), (Pair{1, 0}));
  EXPECT_EQ(slopes(low, 3, 2), (Pair{0, 1}));
}

// spec: T7.c, T8.b, T9.b
TEST(ElementwiseGradient, AtKinksFollowsTheTable) {
  using Pair = std::pair<double, double>;
  EXPECT_EQ(slopes([](const Tensor& x) { return nn::relu(x); }, {-1, 0, 1}),
            (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(slopes([](const Tensor& x) { return nn::relu6(x); }, {0, 3, 6}),
            (std::vector<double>{0, 1, 0}));
  EXPECT_EQ(slopes([](const Tensor& x) { return nn::leaky_relu(x); }, {-1, 0, 1}),
            (std::vector<double>{.2, .2, 1}));
  EXPECT_EQ(slopes([](const Tensor& x) { return sign(x); }, {-1, 0, 1}),
            (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(
      slopes([](const Tensor& x) { return clip(x, {.min = 0.0, .max = 1.0}); }, {-1, 0, .5, 1, 2}),
      (std::vector<double>{0, 1, 1, 1, 0}));
  const auto bound = [](const Tensor& x, const Tensor& low) { return clip(x, {.min = low}); };
  EXPECT_EQ(slopes(bound, 1, 1), (Pair{1, 0}));
  EXPECT_EQ(slopes(bound, 0, 1), (Pair{0, 1}));
  EXPECT_EQ(slopes([](const Tensor& x) { return 0.0 * sqrt(x); }, {0, 4}),
            (std::vector<double>{0, 0}));
  EXPECT_TRUE(std::isinf(slopes([](const Tensor& x) { return sqrt(x); }, {0})[0]));
  const auto power = [](const Tensor& a, const Tensor& b) { return pow(a, b); };
  EXPECT_EQ(slopes(power, 0, 2), (Pair{0, 0}));
  EXPECT_EQ(slopes(power, 0, 1), (Pair{1, 0}));
  EXPECT_EQ(slopes(power, 0, 0), (Pair{0, 0}));
  EXPECT_EQ(slopes(power, -2, 3), (Pair{12, 0}));
  const auto length = [](const Tensor& a, const Tensor& b) { return hypot(a, b); };
  const auto angle_of = [](const Tensor& a, const Tensor& b) { return atan2(a, b); };
  EXPECT_EQ(slopes(length, 0, 0), (Pair{0, 0}));
  EXPECT_EQ(slopes(angle_of, 0, 0), (Pair{0, 0}));
  const auto left = [](const Tensor& a, const Tensor& b) { return remainder(a, b); };
  EXPECT_EQ(slopes(left, 7, 3), (Pair{1, -2}));
  const auto quotient = [](const Tensor& a, const Tensor& b) { return floor_divide(a, b); };
  EXPECT_EQ(slopes(quotient, 7, 3), (Pair{0, 0}));
}

// spec: T8.b, T9.b
TEST(ElementwiseGradient, IsFiniteFarOut) {
  const std::vector<double> far = {-1e30, -1e4, -800, -50, 50, 800, 1e4, 1e30};
  const std::vector<std::pair<const char*, Unary>> functions = {
      {"softplus", [](const Tensor& x) { return nn::softplus(x); }},
      {"log_sigmoid", [](const Tensor& x) { return nn::log_sigmoid(x); }},
      {"sigmoid", [](const Tensor& x) { return nn::sigmoid(x); }},
      {"silu", [](const Tensor& x) { return nn::silu(x); }},
      {"mish", [](const Tensor& x) { return nn::mish(x); }},
      {"gelu", [](const Tensor& x) { return nn::gelu(x); }},
      {"gelu tanh", [](const Tensor& x) { return nn::gelu(x, {.approximate = "tanh"}); }},
      {"elu", [](const Tensor& x) { return nn::elu(x); }},
      {"selu", [](const Tensor& x) { return nn::selu(x); }},
      {"softsign", [](const Tensor& x) { return nn::softsign(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }},
      {"erf", [](const Tensor& x) { return erf(x); }},
      {"atan", [](const Tensor& x) { return atan(x); }},
      {"asinh", [](const Tensor& x) { return asinh(x); }},
      {"log1mexp", [](const Tensor& x) { return log1mexp(-abs(x)); }},
      {"hypot", [](const Tensor& x) { return hypot(x, x); }},
      {"atan2", [](const Tensor& x) { return atan2(x, 1.0); }},
      {"logaddexp", [](const Tensor& x) { return logaddexp(x, 0.0); }}};
  for (const auto& [what, f] : functions) {
    for (const DType dtype : {kFloat32, kFloat64}) {
      const Tensor x = astype(Tensor(far), dtype);
      for (const double value : slopes_of(f, x)) {
        EXPECT_TRUE(std::isfinite(value)) << what << " " << name(dtype);
        EXPECT_LE(std::abs(value), 1.42) << what << " " << name(dtype);
      }
    }
  }
}

// spec: T8.b
TEST(ElementwiseGradient, OfDigammaIsTrigamma) {
  const std::vector<double> at = {0.5, 1, 2, 10, -0.5, -1.25};
  const std::vector<double> want = {M_PI * M_PI / 2,     M_PI * M_PI / 6,   M_PI * M_PI / 6 - 1,
                                    0.10516633568168576, 8.934802200544679, 19.181879647671604};
  const std::vector<double> got = slopes([](const Tensor& x) { return digamma(x); }, at);
  for (std::size_t i = 0; i < at.size(); ++i) EXPECT_NEAR(got[i] / want[i], 1, 1e-9) << at[i];
}

}  // namespace
}  // namespace etude::elementwise_values_test
