// SPDX-License-Identifier: Apache-2.0
// Error functions and the gamma function.
#include <cmath>

#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

constexpr double kTwoOverRootPi = M_2_SQRTPI;
const std::vector<ErrorCase> kFloatsOnly = {
    {{"int32[2]"}, "operand 'x' is int32, but must be one of"},
    {{"complex64[2]"}, "operand 'x' is complex64, but must be one of"}};

// The derivative of digamma: for x above 0.5 the recurrence up to x + 5 and then the asymptotic
// series; below, reflection, pi^2 / sin^2(pi x) less the value at 1 - x.
template <class S>
constexpr S trigamma(S x) {
  const S reflected = math::select(x < 0.5, 1.0 - x, x);
  S sum = 1.0 / (reflected * reflected);
  for (int k = 1; k < 5; ++k) {
    const S shifted = reflected + static_cast<double>(k);
    sum = sum + 1.0 / (shifted * shifted);
  }
  const S inverse = 1.0 / (reflected + 5.0);
  const S f = inverse * inverse;
  const S tail = f * (1.0 / 42 - f * (1.0 / 30 - f * (5.0 / 66)));
  const S series = inverse + f * (0.5 + inverse * (1.0 / 6 - f * (1.0 / 30 - tail)));
  const S right = sum + series;
  const S slope = M_PI / math::sin(M_PI * (x - math::floor(x)));
  return math::select(x < 0.5, slope * slope - right, right);
}

}  // namespace

void define_special(Registry& r) {
  r.define({
      .name = "erf",
      .kind = Kind::kElementwise,
      .doc = "Error function of x.",
      .operands = {"x"},
      .dtypes = kFloating,
      .scalar = scalar_of<1>([](auto x) { return math::erf(x); }),
      .partials = partials_of<1>([](auto x, auto, auto t) {
        return math::list(t * (kTwoOverRootPi * math::exp(-(x * x))));
      }),
      .errors = kFloatsOnly,
  });
  r.define({
      .name = "erfc",
      .kind = Kind::kElementwise,
      .doc = "1 - erf(x), without cancellation for large x.",
      .operands = {"x"},
      .dtypes = kFloating,
      .scalar = scalar_of<1>([](auto x) { return math::erfc(x); }),
      .partials = partials_of<1>([](auto x, auto, auto t) {
        return math::list(-(t * (kTwoOverRootPi * math::exp(-(x * x)))));
      }),
      .errors = kFloatsOnly,
  });
  r.define({
      .name = "erfinv",
      .kind = Kind::kElementwise,
      .doc = "The number whose erf is x, for x between -1 and 1.",
      .operands = {"x"},
      .dtypes = kFloating,
      .scalar = scalar_of<1>([](auto x) { return math::erfinv(x); }),
      .partials = partials_of<1>(
          [](auto, auto y, auto t) { return math::list(t * (math::exp(y * y) / kTwoOverRootPi)); }),
      .samples = {.ranges = {{-0.75, 0.75}}},
      .errors = kFloatsOnly,
  });
  r.define({
      .name = "lgamma",
      .kind = Kind::kElementwise,
      .doc = "Logarithm of the absolute value of the gamma function of x.",
      .operands = {"x"},
      .dtypes = kFloating,
      .scalar = scalar_of<1>([](auto x) { return math::lgamma(x); }),
      .partials =
          partials_of<1>([](auto x, auto, auto t) { return math::list(t * math::digamma(x)); }),
      .samples = {.ranges = {{0.5, 4}}},
      .errors = kFloatsOnly,
  });
  r.define({
      .name = "digamma",
      .kind = Kind::kElementwise,
      .doc = "Derivative of lgamma at x.",
      .operands = {"x"},
      .dtypes = kFloating,
      .scalar = scalar_of<1>([](auto x) { return math::digamma(x); }),
      .partials = partials_of<1>([](auto x, auto, auto t) { return math::list(t * trigamma(x)); }),
      .samples = {.ranges = {{0.5, 4}}},
      .errors = kFloatsOnly,
  });
}

}  // namespace etude::ops
