// SPDX-License-Identifier: Apache-2.0
// Binary and unary arithmetic. Integer arithmetic wraps; integer division by zero is an error.
#include "etude/core/call/builtin.h"
#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops/families.h"
#include "etude/ops/zero_gradient.h"

namespace etude::ops {
namespace {

// Whether operand I is a constant whose elements all are N. For integers only: arithmetic on floats
// makes NaNs quiet and flushes subnormal numbers, so x + 0 is not x bit for bit.
template <std::size_t I, int N>
bool is_constant(const RewriteCall& call) {
  const Tensor* x = call.constants[I];
  return x != nullptr && same_value(*x, internal::full(x->type(), N));
}
template <int N>
bool is_first(const RewriteCall& call) {
  return is_constant<0, N>(call);
}
template <int N>
bool is_second(const RewriteCall& call) {
  return is_constant<1, N>(call);
}

void define_sums_and_products(Registry& r) {
  r.define({
      .name = "add",
      .symbol = "+",
      .kind = Kind::kElementwise,
      .doc = "Sum of x1 and x2, element by element with broadcasting.",
      .operands = {"x1", "x2"},
      .dtypes = kNumeric,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return x1 + x2; }),
      .rewrites = {{.name = "add_zero",
                    .when = is_second<0>,
                    .dtypes = kIntegers,
                    .sample = "graph f(x: T[9,15]) -> (T[9,15])\n"
                              "  %1 = constant T[] 0\n"
                              "  %2 = add(x, %1)\n"
                              "  return %2"},
                   {.name = "zero_add",
                    .source = 1,
                    .when = is_first<0>,
                    .dtypes = kIntegers,
                    .sample = "graph f(x: T[9,15]) -> (T[9,15])\n"
                              "  %1 = constant T[] 0\n"
                              "  %2 = add(%1, x)\n"
                              "  return %2"}},
      .errors = {{{"int64[2]", "uint64[2]"}, "operand 'x2' is uint64 and operand 'x1' is int64"},
                 {{"bool[2]", "bool[2]"}, "operand 'x1' is bool, but must be one of"},
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
      .rewrites = {{.name = "subtract_zero",
                    .when = is_second<0>,
                    .dtypes = kIntegers,
                    .sample = "graph f(x: T[9,15]) -> (T[9,15])\n"
                              "  %1 = constant T[] 0\n"
                              "  %2 = subtract(x, %1)\n"
                              "  return %2"}},
  });
  r.define({
      .name = "multiply",
      .symbol = "*",
      .kind = Kind::kElementwise,
      .doc = "Product of x1 and x2, element by element with broadcasting.",
      .operands = {"x1", "x2"},
      .dtypes = kNumeric,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return x1 * x2; }),
      .rewrites = {{.name = "multiply_by_one",
                    .when = is_second<1>,
                    .dtypes = kIntegers,
                    .sample = "graph f(x: T[9,15]) -> (T[9,15])\n"
                              "  %1 = constant T[] 1\n"
                              "  %2 = multiply(x, %1)\n"
                              "  return %2"},
                   {.name = "one_multiply",
                    .source = 1,
                    .when = is_first<1>,
                    .dtypes = kIntegers,
                    .sample = "graph f(x: T[9,15]) -> (T[9,15])\n"
                              "  %1 = constant T[] 1\n"
                              "  %2 = multiply(%1, x)\n"
                              "  return %2"}},
      .accepts_slices = 0b11,
  });
  r.define({
      .name = "squared_difference",
      .kind = Kind::kElementwise,
      .doc = "(x1 - x2) * (x1 - x2), element by element with broadcasting.",
      .operands = {"x1", "x2"},
      .dtypes = kNumeric,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return (x1 - x2) * (x1 - x2); }),
  });
}

void define_quotients(Registry& r) {
  r.define({
      .name = "divide",
      .symbol = "/",
      .kind = Kind::kElementwise,
      .doc = "Quotient x1 / x2. Integers and bools become float32 first: 7 / 2 is 3.5.",
      .operands = {"x1", "x2"},
      .dtypes = kFloatingComplex,
      .casts_integers = true,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return x1 / x2; }),
      .accepts_slices = 0b01,
      .samples = {.ranges = {{-2, 2}, {0.5, 2}}},
      .errors = {{{"float32[2,3]", "float32[4]"}, "sizes 3 and 4 on axis -1"}},
  });
  r.define({
      .name = "floor_divide",
      .kind = Kind::kElementwise,
      .doc = "The largest integer not above x1 / x2, in the dtype of the operands: -7 by 2 is -4. "
             "An integer divisor of 0 is an error.",
      .operands = {"x1", "x2"},
      .dtypes = kReal,
      .scalar = values_of<2>([](auto x1, auto x2) { return math::floor_divide(x1, x2); }),
      .vjp = zero_gradient,
      .samples = {.ranges = {{-8, 8}, {1, 3}},
                  .no_gradient_check = "the gradient is zero, the quotient jumps"},
      .errors = {{{"complex64[2]", "complex64[2]"}, "operand 'x1' is complex64, but must be"}},
  });
  r.define({
      .name = "remainder",
      .symbol = "%",
      .kind = Kind::kElementwise,
      .doc = "x1 - x2 * floor(x1 / x2). The result has the sign of x2: the remainder of -7 by 3 is "
             "2. An integer divisor of 0 is an error.",
      .operands = {"x1", "x2"},
      .dtypes = kReal,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return math::remainder(x1, x2); }),
      .samples = {.ranges = {{0.25, 0.75}, {1, 2}}},
      .errors = {{{"complex64[2]", "complex64[2]"}, "operand 'x1' is complex64, but must be"}},
  });
  r.define({
      .name = "reciprocal",
      .kind = Kind::kElementwise,
      .doc = "1 / x. Integers become float32 first.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .casts_integers = true,
      .scalar = scalar_of<1>([](auto x) { return 1.0 / x; }),
      .samples = {.ranges = {{0.5, 2}}},
  });
}

void define_powers(Registry& r) {
  r.define({
      .name = "pow",
      .kind = Kind::kElementwise,
      .doc = "x1 to the power x2, element by element with broadcasting. A negative exponent of an "
             "integer is an error. The gradient by x2 is 0 where x1 <= 0, since powers near x2 are "
             "not real or do not depend on x2.",
      .operands = {"x1", "x2"},
      .dtypes = kNumeric,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return math::pow(x1, x2); }),
      .samples = {.ranges = {{0.5, 2}, {0, 3}}},
  });
  r.define({
      .name = "square",
      .kind = Kind::kElementwise,
      .doc = "x * x.",
      .operands = {"x"},
      .dtypes = kNumeric,
      .scalar = scalar_of<1>([](auto x) { return x * x; }),
  });
  r.define({
      .name = "hypot",
      .kind = Kind::kElementwise,
      .doc = "sqrt(x1 * x1 + x2 * x2) without intermediate overflow. The gradient at (0, 0) is 0.",
      .operands = {"x1", "x2"},
      .dtypes = kFloating,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return math::hypot(x1, x2); }),
      .samples = {.ranges = {{0.5, 2}, {-2, 2}}},
  });
}

void define_signs(Registry& r) {
  r.define({
      .name = "negative",
      .symbol = "-",
      .kind = Kind::kElementwise,
      .doc = "-x; integers wrap.",
      .operands = {"x"},
      .dtypes = kNumeric,
      .scalar = scalar_of<1>([](auto x) { return -x; }),
      .rewrites = {{.name = "negative_of_negative",
                    .inner = "negative",
                    .dtypes = kIntegers | kFloat32 | kFloat64 | kComplex,
                    .sample = "graph f(x: T[9,15]) -> (T[9,15])\n"
                              "  %1 = negative(x)\n"
                              "  %2 = negative(%1)\n"
                              "  return %2"}},
      .accepts_slices = 1,
  });
  r.define({
      .name = "positive",
      .symbol = "+",
      .kind = Kind::kElementwise,
      .doc = "x itself.",
      .operands = {"x"},
      .dtypes = kNumeric,
      .scalar = scalar_of<1>([](auto x) { return x; }),
      .kernels = {.cpu = [](const PrepareCall& call) { call.view(0); }},
      .rewrites = {{.name = "positive_is_x",
                    .sample = "graph f(x: T[9,15]) -> (T[9,15])\n"
                              "  %1 = positive(x)\n"
                              "  return %1"}},
      .accepts_slices = 1,
  });
  r.define({
      .name = "copysign",
      .kind = Kind::kElementwise,
      .doc = "The magnitude of x1 with the sign of x2. A zero has a sign too.",
      .operands = {"x1", "x2"},
      .dtypes = kFloating,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return math::copysign(x1, x2); }),
      .samples = {.avoid = {0.0}},
  });
  r.define({
      .name = "nextafter",
      .kind = Kind::kElementwise,
      .doc = "The number next to x1 in the direction of x2.",
      .operands = {"x1", "x2"},
      .dtypes = DTypeSet(kFloat32) | kFloat64,
      .scalar = values_of<2>([](auto x1, auto x2) { return math::nextafter(x1, x2); }),
      .no_derivative = "it steps from number to number",
      .samples = {.no_gradient_check = "differences see its many small steps as a slope of one"},
  });
}

void define_extremes(Registry& r) {
  // Operands that are equal share the cotangent: half each (the reductions max and min do the
  // same).
  r.define({
      .name = "maximum",
      .kind = Kind::kElementwise,
      .doc = "The larger of x1 and x2. The result is NaN if an operand is NaN. Equal operands "
             "share the gradient.",
      .operands = {"x1", "x2"},
      .dtypes = kReal,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return math::maximum(x1, x2); }),
      .samples = {.calls = {{.operands = {"[3]", "[3]"}, .ranges = {{-2, -1}, {1, 2}}}}},
      .errors = {{{"complex64[2]", "complex64[2]"}, "operand 'x1' is complex64, but must be"}},
  });
  r.define({
      .name = "minimum",
      .kind = Kind::kElementwise,
      .doc = "The smaller of x1 and x2. The result is NaN if an operand is NaN. Equal operands "
             "share the gradient.",
      .operands = {"x1", "x2"},
      .dtypes = kReal,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return math::minimum(x1, x2); }),
      .samples = {.calls = {{.operands = {"[3]", "[3]"}, .ranges = {{-2, -1}, {1, 2}}}}},
      .errors = {{{"complex64[2]", "complex64[2]"}, "operand 'x1' is complex64, but must be"}},
  });
}

}  // namespace

void define_arithmetic(Registry& r) {
  define_sums_and_products(r);
  define_quotients(r);
  define_powers(r);
  define_signs(r);
  define_extremes(r);
}

}  // namespace etude::ops
