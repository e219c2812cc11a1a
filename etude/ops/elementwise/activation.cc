// SPDX-License-Identifier: Apache-2.0
// Activation functions of neural networks, in etude::nn.
#include <cmath>

#include "etude/base/check.h"
#include "etude/core/context/context.h"
#include "etude/core/internal/call.h"
#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

// SELU's constants (Klambauer et al. 2017): mean 0 and variance 1 are a fixed point.
constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
// The tails of gelu magnify the rounding of the argument; that is 50 units of a value below 1e-8.
constexpr double kTailUlp = 64;

// log(1 + exp(x)), which neither overflows nor loses small values.
template <class S>
constexpr S softplus(S x) {
  return math::maximum(x, 0.0) + math::log1p(math::exp(-math::abs(x)));
}
template <class S>
constexpr S relu6(S x) {
  return math::minimum(math::maximum(x, 0.0), 6.0);
}
// 2 sqrt(2 / pi) (x + 0.044715 x^3): the tangent form of gelu is x sigmoid of this.
template <class S>
constexpr S gelu_argument(S x) {
  return (M_2_SQRTPI * M_SQRT2) * (x + 0.044715 * (x * x * x));
}

OpDef activation(std::string_view name, std::string_view doc, const ScalarDef& scalar,
                 const PartialsDef& partials = {}) {
  return {
      .name = name,
      .space = "nn",
      .kind = Kind::kElementwise,
      .doc = doc,
      .operands = {"x"},
      .dtypes = kFloating,
      .scalar = scalar,
      .partials = partials,
      .errors = errors_of_all_but_reals(),
  };
}
// The same for a function with a kink at each of `avoid`.
OpDef activation(std::string_view name, std::string_view doc, std::vector<double> avoid,
                 const ScalarDef& scalar, const PartialsDef& partials = {}) {
  OpDef def = activation(name, doc, scalar, partials);
  def.samples.avoid = std::move(avoid);
  return def;
}

void define_soft_forms(Registry& r) {
  r.define(activation("sigmoid", "1 / (1 + exp(-x)).",
                      scalar_of<1>([](auto x) { return math::sigmoid(x); })));
  // Partials of their own: the formulas have kinks at 0 that cancel, but not in their derivatives.
  r.define(activation(
      "log_sigmoid",
      "log(sigmoid(x)), without overflow. For very negative x the result is about x.",
      values_of<1>([](auto x) { return -softplus(-x); }), partials_of<1>([](auto x, auto, auto t) {
        return math::list(math::strong_product(t, math::sigmoid(-x)));
      })));
  r.define(activation(
      "softplus", "log(1 + exp(x)), without overflow. For large x the result is about x.",
      values_of<1>([](auto x) { return softplus(x); }), partials_of<1>([](auto x, auto, auto t) {
        return math::list(math::strong_product(t, math::sigmoid(x)));
      })));
  r.define(activation("softsign", "x / (1 + |x|).",
                      values_of<1>([](auto x) { return x / (1.0 + math::abs(x)); }),
                      partials_of<1>([](auto x, auto, auto t) {
                        const auto inverse = 1.0 / (1.0 + math::abs(x));
                        return math::list(math::strong_product(t, inverse * inverse));
                      })));
  // Partials of its own: the derived sum of two terms rounds more often where they cancel.
  OpDef silu = activation("silu", "x * sigmoid(x), also called swish.",
                          values_of<1>([](auto x) { return x * math::sigmoid(x); }),
                          partials_of<1>([](auto x, auto, auto t) {
                            const auto s = math::sigmoid(x);
                            return math::list(math::strong_product(t, s * (1.0 + x * (1.0 - s))));
                          }));
  silu.samples.ulp = 3;
  r.define(std::move(silu));
  // As those above silu.
  OpDef mish = activation("mish", "x * tanh(softplus(x)).",
                          values_of<1>([](auto x) { return x * math::tanh(softplus(x)); }),
                          partials_of<1>([](auto x, auto, auto t) {
                            const auto w = math::tanh(softplus(x));
                            const auto bend = x * (math::sigmoid(x) * ((1.0 - w) * (1.0 + w)));
                            return math::list(math::strong_product(t, w + bend));
                          }));
  mish.samples.ulp = 4;
  r.define(std::move(mish));
}

void define_rectifiers(Registry& r) {
  // Partials of their own: at a kink the gradient is 0, and not half; and they read the result
  // alone.
  r.define(activation("relu", "The larger of x and 0. The gradient at 0 is 0.", {0.0},
                      values_of<1>([](auto x) { return math::maximum(x, 0.0); }),
                      partials_of<1>([](auto, auto y, auto t) {
                        return math::list(math::where(y > 0.0, t, 0.0));
                      })));
  r.define(activation("relu6", "x clipped to [0, 6]. The gradient at both ends is 0.", {0.0, 6.0},
                      values_of<1>([](auto x) { return relu6(x); }),
                      partials_of<1>([](auto, auto y, auto t) {
                        const auto inside = math::logical_and(y > 0.0, y < 6.0);
                        return math::list(math::where(inside, t, 0.0));
                      })));
  OpDef leaky = activation(
      "leaky_relu", "x if x is positive, else slope * x. The gradient at 0 is the slope.", {0.0},
      scalar_of<1, 1>([](auto x, auto slope) { return math::where(x > 0.0, x, slope * x); }));
  leaky.attrs = {{"slope", 0.2}};
  r.define(std::move(leaky));
}

// Partials of their own: 1 + expm1(x) has lost the digits of exp(x) for negative x.
void define_exponential_rectifiers(Registry& r) {
  OpDef elu = activation(
      "elu", "x if x is positive, else alpha * (exp(x) - 1).", {0.0},
      values_of<1, 1>(
          [](auto x, auto alpha) { return math::where(x > 0.0, x, alpha * math::expm1(x)); }),
      partials_of<1, 1>([](auto x, auto, auto t, auto alpha) {
        return math::list(math::where(
            x > 0.0, t, math::strong_product(t, alpha * math::exp(math::minimum(x, 0.0)))));
      }));
  elu.attrs = {{"alpha", 1.0}};
  r.define(std::move(elu));
  r.define(activation(
      "selu", "scale * elu(x, alpha), with the constants that keep mean 0 and variance 1.", {0.0},
      values_of<1>([](auto x) {
        return math::where(x > 0.0, kSeluScale * x, (kSeluScale * kSeluAlpha) * math::expm1(x));
      }),
      partials_of<1>([](auto x, auto, auto t) {
        const auto left = (kSeluScale * kSeluAlpha) * math::exp(math::minimum(x, 0.0));
        return math::list(math::where(x > 0.0, kSeluScale * t, math::strong_product(t, left)));
      })));
}

// Written partials: at a kink the gradient is the derivative of one side, not the mean of both
// sides.
void define_hard_forms(Registry& r) {
  r.define(activation("hard_sigmoid", "relu6(x + 3) / 6.", {-3.0, 3.0},
                      values_of<1>([](auto x) { return relu6(x + 3.0) / 6.0; }),
                      partials_of<1>([](auto, auto y, auto t) {
                        const auto inside = math::logical_and(y > 0.0, y < 1.0);
                        return math::list(math::where(inside, t / 6.0, 0.0));
                      })));
  r.define(activation("hard_swish", "x * relu6(x + 3) / 6.", {-3.0, 3.0},
                      values_of<1>([](auto x) { return x * (relu6(x + 3.0) / 6.0); }),
                      partials_of<1>([](auto x, auto, auto t) {
                        const auto bent = math::where(
                            x >= 3.0, t, math::strong_product(t, (2.0 * x + 3.0) / 6.0));
                        return math::list(math::where(x <= -3.0, 0.0, bent));
                      })));
}

void define_gelu(Registry& r) {
  // Written partials: exp(-x^2 / 2) magnifies the rounding error of its argument. Here only x^2 is
  // rounded.
  OpDef exact = activation(
      "gelu_exact", "x * (1 + erf(x / sqrt(2))) / 2.",
      values_of<1>([](auto x) { return 0.5 * x * math::erfc(-M_SQRT1_2 * x); }),
      partials_of<1>([](auto x, auto, auto t) {
        const auto density = (0.5 * M_SQRT1_2 * M_2_SQRTPI) * math::exp(-0.5 * (x * x));
        return math::list(math::strong_product(t, 0.5 * math::erfc(-M_SQRT1_2 * x) + x * density));
      }));
  exact.space = "internal";
  exact.samples.ulp = kTailUlp;
  r.define(std::move(exact));
  // The same: for large x, x^2 times a partial derivative of 0 would be NaN.
  OpDef tangent = activation(
      "gelu_tanh", "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2.",
      values_of<1>([](auto x) { return x * math::sigmoid(gelu_argument(x)); }),
      partials_of<1>([](auto x, auto, auto t) {
        const auto s = math::sigmoid(gelu_argument(x));
        const auto z = math::minimum(math::maximum(x, -32.0), 32.0);  // beyond, s(1 - s) is 0
        const auto slope = (M_2_SQRTPI * M_SQRT2) * (1.0 + 3 * 0.044715 * (z * z));
        return math::list(math::strong_product(t, s + z * (s * (1.0 - s)) * slope));
      }));
  tangent.space = "internal";
  tangent.samples.ulp = kTailUlp;
  r.define(std::move(tangent));
  r.define({
      .name = "gelu",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "x times the normal distribution function at x. approximate = \"tanh\" uses a cheaper "
             "formula for the function.",
      .operands = {"x"},
      .attrs = {{"approximate", "none"}},
      .dtypes = kFloating,
      .lower =
          [](Operands in, const Attrs& attrs) {
            const std::string& form = attrs.text("approximate");
            ETUDE_REQUIRE(form == "none" || form == "tanh",
                          "approximate is \"{}\", but must be \"none\" or \"tanh\"", form);
            return run_all(form == "none" ? op<"gelu_exact">() : op<"gelu_tanh">(), in);
          },
      .samples = {.calls = {{{"[2,3]"}}, {{"[2,3]"}, {{"approximate", std::string("tanh")}}}},
                  .ulp = kTailUlp},
      .errors = {{{"int32[2]"}, "operand 'x' is int32, but must be one of"},
                 {{"float32[2]"},
                  "approximate is \"erf\", but must be",
                  {{"approximate", std::string("erf")}}}},
  });
}

}  // namespace

void define_activation(Registry& r) {
  define_soft_forms(r);
  define_rectifiers(r);
  define_exponential_rectifiers(r);
  define_hard_forms(r);
  define_gelu(r);
}

}  // namespace etude::ops
