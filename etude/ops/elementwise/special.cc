// SPDX-License-Identifier: Apache-2.0
// Error functions and the gamma function.
#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops/families.h"
#include "etude/ops/records.h"

namespace etude::ops {

void define_special(Registry& r) {
  r.define({
      .name = "erf",
      .kind = Kind::kElementwise,
      .doc = "Error function of x.",
      .operands = {"x"},
      .dtypes = kFloating,
      .scalar = scalar_of<1>([](auto x) { return math::erf(x); }),
      .errors = errors_of_all_but_reals(),
  });
  r.define({
      .name = "erfc",
      .kind = Kind::kElementwise,
      .doc = "1 - erf(x), without cancellation for large x.",
      .operands = {"x"},
      .dtypes = kFloating,
      .scalar = scalar_of<1>([](auto x) { return math::erfc(x); }),
      .errors = errors_of_all_but_reals(),
  });
  r.define({
      .name = "erfinv",
      .kind = Kind::kElementwise,
      .doc = "The number whose erf is x, for x between -1 and 1.",
      .operands = {"x"},
      .dtypes = kFloating,
      .scalar = scalar_of<1>([](auto x) { return math::erfinv(x); }),
      .samples = {.ranges = {{-0.75, 0.75}}},
      .errors = errors_of_all_but_reals(),
  });
  r.define({
      .name = "lgamma",
      .kind = Kind::kElementwise,
      .doc = "Logarithm of the absolute value of the gamma function of x.",
      .operands = {"x"},
      .dtypes = kFloating,
      .scalar = scalar_of<1>([](auto x) { return math::lgamma(x); }),
      .samples = {.ranges = {{0.5, 4}}},
      .errors = errors_of_all_but_reals(),
  });
  r.define({
      .name = "digamma",
      .kind = Kind::kElementwise,
      .doc = "Derivative of lgamma at x.",
      .operands = {"x"},
      .dtypes = kFloating,
      .scalar = scalar_of<1>([](auto x) { return math::digamma(x); }),
      .samples = {.ranges = {{0.5, 4}}},
      .errors = errors_of_all_but_reals(),
  });
}

}  // namespace etude::ops
