// SPDX-License-Identifier: Apache-2.0
// Trigonometric and hyperbolic functions of floating and complex values.
#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops/families.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

void define_circular(Registry& r) {
  r.define({
      .name = "sin",
      .kind = Kind::kElementwise,
      .doc = "Sine of x in radians.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::sin(x); }),
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "cos",
      .kind = Kind::kElementwise,
      .doc = "Cosine of x in radians.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::cos(x); }),
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "tan",
      .kind = Kind::kElementwise,
      .doc = "Tangent of x in radians.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::tan(x); }),
      .samples = {.ranges = {{-1, 1}}},
      .errors = errors_of_integers(),
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
      .samples = {.ranges = {{-0.75, 0.75}}},
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "acos",
      .kind = Kind::kElementwise,
      .doc = "The angle between 0 and pi whose cosine is x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::acos(x); }),
      .samples = {.ranges = {{-0.75, 0.75}}},
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "atan",
      .kind = Kind::kElementwise,
      .doc = "The angle between -pi/2 and pi/2 whose tangent is x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::atan(x); }),
      .errors = errors_of_integers(),
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
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "cosh",
      .kind = Kind::kElementwise,
      .doc = "Hyperbolic cosine of x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::cosh(x); }),
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "tanh",
      .kind = Kind::kElementwise,
      .doc = "Hyperbolic tangent of x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::tanh(x); }),
      .errors = errors_of_integers(),
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
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "acosh",
      .kind = Kind::kElementwise,
      .doc = "The number, at least 0, whose hyperbolic cosine is x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::acosh(x); }),
      .samples = {.ranges = {{1.25, 4}}},
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "atanh",
      .kind = Kind::kElementwise,
      .doc = "The number whose hyperbolic tangent is x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::atanh(x); }),
      .samples = {.ranges = {{-0.75, 0.75}}},
      .errors = errors_of_integers(),
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
