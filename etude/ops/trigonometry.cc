// SPDX-License-Identifier: Apache-2.0
// Trigonometric and hyperbolic functions of floating and complex values.
#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

const std::vector<ErrorCase> kNoIntegers = {
    {{"int32[2]"}, "operand 'x' is int32, but must be one of"}};

void define_circular(Registry& r) {
  r.define({
      .name = "sin",
      .kind = Kind::kElementwise,
      .doc = "Sine of x in radians.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::sin(x); }),
      .partials = partials_of<1>([](auto x, auto, auto t) { return math::list(t * math::cos(x)); }),
      .errors = kNoIntegers,
  });
  r.define({
      .name = "cos",
      .kind = Kind::kElementwise,
      .doc = "Cosine of x in radians.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::cos(x); }),
      .partials =
          partials_of<1>([](auto x, auto, auto t) { return math::list(-(t * math::sin(x))); }),
      .errors = kNoIntegers,
  });
  r.define({
      .name = "tan",
      .kind = Kind::kElementwise,
      .doc = "Tangent of x in radians.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::tan(x); }),
      .partials =
          partials_of<1>([](auto, auto y, auto t) { return math::list(t * (1.0 + y * y)); }),
      .samples = {.ranges = {{-1, 1}}},
      .errors = kNoIntegers,
  });
}

void define_inverse_circular(Registry& r) {
  r.define({
      .name = "asin",
      .kind = Kind::kElementwise,
      .doc = "The angle between -pi/2 and pi/2 whose sine is x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::asin(x); }),
      .partials = partials_of<1>(
          [](auto x, auto, auto t) { return math::list(t / math::sqrt((1.0 - x) * (1.0 + x))); }),
      .samples = {.ranges = {{-0.75, 0.75}}},
      .errors = kNoIntegers,
  });
  r.define({
      .name = "acos",
      .kind = Kind::kElementwise,
      .doc = "The angle between 0 and pi whose cosine is x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::acos(x); }),
      .partials = partials_of<1>(
          [](auto x, auto, auto t) { return math::list(-t / math::sqrt((1.0 - x) * (1.0 + x))); }),
      .samples = {.ranges = {{-0.75, 0.75}}},
      .errors = kNoIntegers,
  });
  r.define({
      .name = "atan",
      .kind = Kind::kElementwise,
      .doc = "The angle between -pi/2 and pi/2 whose tangent is x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::atan(x); }),
      .partials =
          partials_of<1>([](auto x, auto, auto t) { return math::list(t / (1.0 + x * x)); }),
      .errors = kNoIntegers,
  });
  r.define({
      .name = "atan2",
      .kind = Kind::kElementwise,
      .doc = "The angle of the point (x2, x1), between -pi and pi: atan(x1 / x2) in the right "
             "quadrant. "
             "Its gradient at (0, 0) is 0.",
      .operands = {"x1", "x2"},
      .dtypes = kFloating,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return math::atan2(x1, x2); }),
      .partials = partials_of<2>([](auto x1, auto x2, auto, auto t) {
        const auto length = math::hypot(x1, x2);  // squares may overflow or vanish
        const auto safe = math::select(length == 0.0, 1.0, length);
        return math::list(t * (x2 / safe) / safe, -(t * (x1 / safe) / safe));
      }),
      .samples = {.ranges = {{0.5, 2}, {-2, 2}}},
      .errors = {{{"int32[2]", "int32[2]"}, "operand 'x1' is int32, but must be one of"}},
  });
}

void define_hyperbolic(Registry& r) {
  r.define({
      .name = "sinh",
      .kind = Kind::kElementwise,
      .doc = "Hyperbolic sine of x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::sinh(x); }),
      .partials =
          partials_of<1>([](auto x, auto, auto t) { return math::list(t * math::cosh(x)); }),
      .errors = kNoIntegers,
  });
  r.define({
      .name = "cosh",
      .kind = Kind::kElementwise,
      .doc = "Hyperbolic cosine of x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::cosh(x); }),
      .partials =
          partials_of<1>([](auto x, auto, auto t) { return math::list(t * math::sinh(x)); }),
      .errors = kNoIntegers,
  });
  r.define({
      .name = "tanh",
      .kind = Kind::kElementwise,
      .doc = "Hyperbolic tangent of x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::tanh(x); }),
      .partials =
          partials_of<1>([](auto, auto y, auto t) { return math::list(t * (1.0 - y * y)); }),
      .errors = kNoIntegers,
  });
}

void define_inverse_hyperbolic(Registry& r) {
  r.define({
      .name = "asinh",
      .kind = Kind::kElementwise,
      .doc = "The number whose hyperbolic sine is x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::asinh(x); }),
      .partials = partials_of<1>(
          [](auto x, auto, auto t) { return math::list(t / math::sqrt(x * x + 1.0)); }),
      .errors = kNoIntegers,
  });
  r.define({
      .name = "acosh",
      .kind = Kind::kElementwise,
      .doc = "The number, not negative, whose hyperbolic cosine is x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::acosh(x); }),
      .partials = partials_of<1>([](auto x, auto, auto t) {
        return math::list(t / (math::sqrt(x - 1.0) * math::sqrt(x + 1.0)));
      }),
      .samples = {.ranges = {{1.25, 4}}},
      .errors = kNoIntegers,
  });
  r.define({
      .name = "atanh",
      .kind = Kind::kElementwise,
      .doc = "The number whose hyperbolic tangent is x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::atanh(x); }),
      .partials = partials_of<1>(
          [](auto x, auto, auto t) { return math::list(t / ((1.0 - x) * (1.0 + x))); }),
      .samples = {.ranges = {{-0.75, 0.75}}},
      .errors = kNoIntegers,
  });
}

}  // namespace

void define_trigonometry(Registry& r) {
  define_circular(r);
  define_inverse_circular(r);
  define_hyperbolic(r);
  define_inverse_hyperbolic(r);
}

}  // namespace etude::ops
