// SPDX-License-Identifier: Apache-2.0
// Exponentials, logarithms and roots of floating and complex values.
#include <cmath>

#include "etude/core/context/context.h"
#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

void define_exponentials(Registry& r) {
  r.define({
      .name = "exp",
      .kind = Kind::kElementwise,
      .doc = "e to the power x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::exp(x); }),
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "exp2",
      .kind = Kind::kElementwise,
      .doc = "2 to the power x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::exp2(x); }),
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "exp10",
      .kind = Kind::kElementwise,
      .doc = "10 to the power x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::exp10(x); }),
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "expm1",
      .kind = Kind::kElementwise,
      .doc = "exp(x) - 1, accurate to the last digits near x = 0.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::expm1(x); }),
      .errors = errors_of_integers(),
  });
}

void define_logarithms(Registry& r) {
  r.define({
      .name = "log",
      .kind = Kind::kElementwise,
      .doc = "Natural logarithm of x.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::log(x); }),
      .samples = {.ranges = {{0.25, 4}}},
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "log2",
      .kind = Kind::kElementwise,
      .doc = "Logarithm of x to base 2.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::log2(x); }),
      .samples = {.ranges = {{0.25, 4}}},
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "log10",
      .kind = Kind::kElementwise,
      .doc = "Logarithm of x to base 10.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::log10(x); }),
      .samples = {.ranges = {{0.25, 4}}},
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "log1p",
      .kind = Kind::kElementwise,
      .doc = "log(1 + x), accurate to the last digits near x = 0.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::log1p(x); }),
      .samples = {.ranges = {{-0.75, 3}}},
      .errors = errors_of_integers(),
  });
}

void define_differences(Registry& r) {
  r.define({
      .name = "log1mexp_real",
      .space = "internal",
      .kind = Kind::kElementwise,
      .doc = "log(1 - exp(x)) for negative x.",
      .operands = {"x"},
      .dtypes = kFloating,
      // The derived partial would cancel near 0.
      .scalar = values_of<1>([](auto x) {
        return math::where(x > -M_LN2, math::log(-math::expm1(x)), math::log1p(-math::exp(x)));
      }),
      .partials = partials_of<1>([](auto x, auto, auto t) {
        return math::list(math::strong_product(t, -1.0 / math::expm1(-x)));
      }),
      .samples = {.ranges = {{-3, -0.25}}},
  });
  r.define({
      .name = "log1mexp",
      .kind = Kind::kComposition,
      .doc = "log(1 - exp(x)) for x below 0, accurate to the last digits everywhere: log1mexp(-1) "
             "is -0.4586751.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .lower =
          [](Operands in, const Attrs&) {
            if (!is_complex(in[0].dtype())) return run_all(op<"log1mexp_real">(), in);
            const Tensor near_zero = greater(real(in[0]), -M_LN2);
            return Values{
                where(near_zero, log(negative(expm1(in[0]))), log1p(negative(exp(in[0]))))};
          },
      .samples = {.calls = {{.operands = {"[2,3]"}}}, .ranges = {{-3, -0.25}}},
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "logaddexp",
      .kind = Kind::kElementwise,
      .doc = "log(exp(x1) + exp(x2)) without intermediate overflow.",
      .operands = {"x1", "x2"},
      .dtypes = kFloating,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return math::logaddexp(x1, x2); }),
      .errors = {{{"int32[2]", "int32[2]"}, "operand 'x1' is int32, but must be one of"}},
  });
}

void define_roots(Registry& r) {
  r.define({
      .name = "sqrt",
      .kind = Kind::kElementwise,
      .doc = "Square root of x. The gradient at 0 is infinite, but 0 if the cotangent is 0.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::sqrt(x); }),
      .samples = {.ranges = {{0.25, 4}}},
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "rsqrt",
      .kind = Kind::kElementwise,
      .doc = "1 / sqrt(x).",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::rsqrt(x); }),
      .samples = {.ranges = {{0.25, 4}}},
      .errors = errors_of_integers(),
  });
  r.define({
      .name = "cbrt",
      .kind = Kind::kElementwise,
      .doc = "Cube root of x. For complex x, the principal cube root.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<1>([](auto x) { return math::cbrt(x); }),
      .samples = {.ranges = {{0.25, 4}}},
      .errors = errors_of_integers(),
  });
}

}  // namespace

void define_exponential(Registry& r) {
  define_exponentials(r);
  define_logarithms(r);
  define_differences(r);
  define_roots(r);
}

}  // namespace etude::ops
