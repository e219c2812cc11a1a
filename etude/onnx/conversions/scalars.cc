// SPDX-License-Identifier: Apache-2.0
// Functions of elements without an operator in ONNX, as arithmetic.
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "etude/onnx/conversions.h"

namespace etude::onnx::internal {
namespace {

Term absolute(const Term& x) { return apply("Abs", x); }
Term exponential(const Term& x) { return apply("Exp", x); }
Term logarithm(const Term& x) { return apply("Log", x); }

template <int base>
std::vector<Term> power_of(Call& call) {
  const Term x = call.in(0);
  return {call.node("Pow", {call.number(base, x.dtype), x})};
}
std::vector<Term> log2(Call& call) { return {logarithm(call.in(0)) / std::numbers::ln2}; }
std::vector<Term> log10(Call& call) { return {logarithm(call.in(0)) / std::numbers::ln10}; }

// Near 0 exp(x) - 1 has no correct digits: there it is 2 t / (1 - t) for t = tanh(x / 2).
std::vector<Term> expm1(Call& call) {
  const Term x = call.in(0);
  const Term t = apply("Tanh", x * 0.5);
  return {where(absolute(x) < 0.5, t * 2.0 / (1.0 - t), exponential(x) - 1.0)};
}
// Near 0 the rounding of 1 + x is corrected: log(u) x / (u - 1) for u = 1 + x.
Term log_one_plus(const Term& x) {
  const Term u = x + 1.0;
  const Term below = u - 1.0;
  const Term near = where(below == 0.0, x, logarithm(u) * x / below);
  return where(absolute(x) < 0.5, near, logarithm(u));
}
std::vector<Term> log1p(Call& call) { return {log_one_plus(call.in(0))}; }

std::vector<Term> rsqrt(Call& call) { return {apply("Reciprocal", apply("Sqrt", call.in(0)))}; }
std::vector<Term> cbrt(Call& call) {
  const Term x = call.in(0);
  const Term third = call.number(1.0 / 3.0, x.dtype);
  return {apply("Sign", x) * call.node("Pow", {absolute(x), third})};
}
std::vector<Term> square(Call& call) { return {call.in(0) * call.in(0)}; }
std::vector<Term> erfc(Call& call) { return {1.0 - apply("Erf", call.in(0))}; }

// With the larger operand outside of the root, no square overflows.
std::vector<Term> hypot(Call& call) {
  const Term a = absolute(call.in(0)), b = absolute(call.in(1));
  const Term high = call.node("Max", {a, b}), low = call.node("Min", {a, b});
  const Term ratio = low / high;
  const Term root = apply("Sqrt", ratio * ratio + 1.0);
  const bool is_half = a.dtype == kFloat16;
  const double most = is_half ? 65504.0 : std::numeric_limits<float>::max();
  return {where(either(high == 0.0, high > most), high, high * root)};
}

// Whether the sign bit is set, except for NaN: 1 / -0 is minus infinity.
Term is_negative(const Term& x) {
  if (is_integer(x.dtype)) return x < 0.0;
  return either(x < 0.0, both(x == 0.0, apply("Reciprocal", x) < 0.0));
}
std::vector<Term> signbit(Call& call) { return {is_negative(call.in(0))}; }
std::vector<Term> copysign(Call& call) {
  const Term size = absolute(call.in(0));
  return {where(is_negative(call.in(1)), apply("Neg", size), size)};
}

// The angle by the quotient in [-1, 1], turned into its octant.
std::vector<Term> atan2(Call& call) {
  const Term y = call.in(0), x = call.in(1);
  const Term up = absolute(y), right = absolute(x);
  const Term high = call.node("Max", {up, right}), low = call.node("Min", {up, right});
  const Term quotient = where(high == low, apply("Sign", low), low / high);
  const Term angle = apply("Atan", quotient);
  const Term quarter = where(right < up, std::numbers::pi / 2 - angle, angle);
  const Term half = where(is_negative(x), std::numbers::pi - quarter, quarter);
  return {where(is_negative(y), apply("Neg", half), half)};
}

Term truncated_rest(const Term& a, const Term& b) {
  return a.call->node("Mod", {a, b}, {{"fmod", int64_t{1}}});
}
// Whether a truncated division has to be corrected to a division that is rounded down.
Term is_rounded_up(const Term& rest, const Term& divisor) {
  const Term is_above = both(rest > 0.0, divisor < 0.0);
  return either(is_above, both(divisor > 0.0, rest < 0.0));
}
// The remainder of a division rounded down. Mod of ONNX rounds so for integers alone. The sign
// of a zero may differ: the kernel of Where in onnxruntime returns no minus zero.
std::vector<Term> remainder(Call& call) {
  const Term a = call.in(0), b = call.in(1);
  if (is_integer(a.dtype)) return {call.node("Mod", {a, b})};
  const Term rest = truncated_rest(a, b);
  return {where(is_rounded_up(rest, b), rest + b, rest)};
}
// Floor(a / b) would be wrong where a / b is rounded up to a whole number. With the remainder, the
// quotient is next to a whole number, which is the result.
Term floored_quotient(const Term& a, const Term& b) {
  const Term quotient = a / b, rest = truncated_rest(a, b);
  const Term near = (a - rest) / b;
  const Term whole = apply("Round", where(is_rounded_up(rest, b), near - 1.0, near));
  return where(b == 0.0, quotient, whole);
}
// Div of ONNX truncates the quotient of integers. a - Mod(a, b) may overflow.
std::vector<Term> floor_divide(Call& call) {
  const Term a = call.in(0), b = call.in(1);
  if (!is_integer(a.dtype)) return {floored_quotient(a, b)};
  const Term quotient = a / b;
  if (kUnsignedIntegers.contains(a.dtype)) return {quotient};
  const Term rest = truncated_rest(a, b);
  return {where(is_rounded_up(rest, b), quotient - 1.0, quotient)};
}

// a + log(1 + exp(b - a)) for a >= b; equal operands may be infinite.
std::vector<Term> logaddexp(Call& call) {
  const Term a = call.in(0), b = call.in(1);
  const Term gap = where(a == b, a.call->number(0, a.dtype), absolute(a - b));
  return {call.node("Max", {a, b}) + log_one_plus(exponential(apply("Neg", gap)))};
}

std::vector<Term> strong_product(Call& call) {
  const Term a = call.in(0), b = call.in(1);
  const Term zero = call.number(0, a.dtype);
  return {where(either(a == 0.0, b == 0.0), zero, a * b)};
}

template <bool left>
std::vector<Term> shift(Call& call) {
  const char* direction = left ? "LEFT" : "RIGHT";
  return {call.node("BitShift", call.inputs(), {{"direction", std::string(direction)}})};
}

}  // namespace

void add_scalar_conversions(Conversions& to) {
  constexpr DTypeSet kFloats = kHalfToDouble;
  constexpr DTypeSet kDivided = DTypeSet(kFloat32) | kFloat64 | kWholeNumbers;
  constexpr DTypeSet kBoth = DTypeSet(kInt32) | kInt64 | kHalfToDouble;
  to.insert(to.end(),
            {{.op = "exp2", .dtypes = kFloats, .write = power_of<2>, .is_formula = true},
             {.op = "exp10", .dtypes = kFloats, .write = power_of<10>, .is_formula = true},
             {.op = "log2", .dtypes = kFloats, .write = log2},
             {.op = "log10", .dtypes = kFloats, .write = log10},
             {.op = "expm1", .dtypes = kFloats, .write = expm1},
             {.op = "log1p", .dtypes = kFloats, .write = log1p},
             {.op = "rsqrt", .dtypes = kFloats, .write = rsqrt},
             {.op = "cbrt", .dtypes = kFloats, .write = cbrt},
             {.op = "square", .dtypes = kNumbers, .write = square},
             {.op = "erfc", .dtypes = kFloats, .write = erfc},
             {.op = "hypot", .dtypes = kFloats, .write = hypot},
             {.op = "signbit", .dtypes = kBoth, .write = signbit},
             {.op = "copysign", .dtypes = kFloats, .write = copysign},
             {.op = "atan2", .dtypes = kFloats, .write = atan2},
             {.op = "remainder", .dtypes = kNumbers, .write = remainder},
             {.op = "floor_divide", .dtypes = kDivided, .write = floor_divide},
             {.op = "logaddexp", .dtypes = kFloats, .write = logaddexp},
             {.op = "internal.strong_product", .dtypes = kFloats, .write = strong_product},
             {.op = "bitwise_left_shift",
              .dtypes = DTypeSet(kUInt8) | kUInt32 | kUInt64,
              .write = shift<true>},
             {.op = "bitwise_right_shift",
              .dtypes = DTypeSet(kUInt8) | kUInt32 | kUInt64,
              .write = shift<false>}});
}

}  // namespace etude::onnx::internal
