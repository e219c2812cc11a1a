// SPDX-License-Identifier: Apache-2.0
// Binary and unary arithmetic. Integer arithmetic wraps; integer division by zero is an error.
#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops/families.h"

namespace etude::ops {

void define_arithmetic(Registry& r) {
  r.define({
      .name = "add",
      .symbol = "+",
      .kind = Kind::kElementwise,
      .doc = "Sum of x1 and x2, element by element with broadcasting.",
      .operands = {"x1", "x2"},
      .dtypes = kNumeric,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return x1 + x2; }),
      .partials = partials_of<2>([](auto, auto, auto, auto t) { return math::list(t, t); }),
      .errors = {{{"float32[2]", "int32[2]"}, "operand 'x2' is int32 and operand 'x1' is float32"},
                 {{"float32[2,3]", "float32[4]"}, "sizes 3 and 4 on axis -1"}},
  });
  r.define({
      .name = "subtract",
      .symbol = "-",
      .kind = Kind::kElementwise,
      .doc = "Difference x1 - x2, element by element with broadcasting.",
      .operands = {"x1", "x2"},
      .dtypes = kNumeric,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return x1 - x2; }),
      .partials = partials_of<2>([](auto, auto, auto, auto t) { return math::list(t, -t); }),
  });
  r.define({
      .name = "multiply",
      .symbol = "*",
      .kind = Kind::kElementwise,
      .doc = "Product of x1 and x2, element by element with broadcasting.",
      .operands = {"x1", "x2"},
      .dtypes = kNumeric,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return x1 * x2; }),
      .partials = partials_of<2>([](auto x1, auto x2, auto, auto t) { return math::list(t * x2, t * x1); }),
  });
  r.define({
      .name = "divide",
      .symbol = "/",
      .kind = Kind::kElementwise,
      .doc = "Quotient x1 / x2. Integers become float32 first: 7 / 2 is 3.5.",
      .operands = {"x1", "x2"},
      .dtypes = kFloatingComplex,
      .casts_integers = true,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return x1 / x2; }),
      .partials = partials_of<2>([](auto, auto x2, auto y, auto t) { return math::list(t / x2, -(t * y) / x2); }),
      .samples = {.ranges = {{-2, 2}, {0.5, 2}}},
  });
  r.define({
      .name = "negative",
      .symbol = "-",
      .kind = Kind::kElementwise,
      .doc = "-x; integers wrap.",
      .operands = {"x"},
      .dtypes = kNumeric,
      .scalar = scalar_of<1>([](auto x) { return -x; }),
      .partials = partials_of<1>([](auto, auto, auto t) { return math::list(-t); }),
  });
}

}  // namespace etude::ops
