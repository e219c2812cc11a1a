// SPDX-License-Identifier: Apache-2.0
// Functions of elements that are several operators, and functions of CHLO.
#include <cstddef>
#include <numbers>
#include <string_view>

#include <fmt/format.h>

#include "etude/stablehlo/conversions.h"

namespace etude::stablehlo::internal {
namespace {

// CHLO is the part of the StableHLO project that has the functions of mathematics.
struct Chlo {
  std::string_view op, name;
  DTypeSet dtypes = kFloating;
};
constexpr Chlo kChlo[] = {
    {"asin", "asin"},       {"acos", "acos"},
    {"atan", "atan"},       {"sinh", "sinh"},
    {"cosh", "cosh"},       {"asinh", "asinh"},
    {"acosh", "acosh"},     {"atanh", "atanh"},
    {"erf", "erf"},         {"erfc", "erfc"},
    {"erfinv", "erf_inv"},  {"lgamma", "lgamma"},
    {"digamma", "digamma"}, {"nextafter", "next_after", kFull},
};

Terms of_chlo(Call& call) {
  for (const Chlo& each : kChlo) {
    if (each.op != call.op.full_name()) continue;
    Terms operands;
    for (const Term& x : call.inputs()) operands.push_back(broadcast(x, call.result().shape()));
    const Type* type = operands[0].type;
    return {call.writer.add(fmt::format("\"chlo.{}\"({}) : {} -> {}", each.name,
                                        name_list(operands), type_list(operands), type_text(type)),
                            type)};
  }
  return {};
}

template <int base>
Terms power_of(Call& call) {
  return {power(broadcast(call.number(base), call.shape(0)), call.in(0))};
}
Terms log2(Call& call) { return {apply("log", call.in(0)) / std::numbers::ln2}; }
Terms log10(Call& call) { return {apply("log", call.in(0)) / std::numbers::ln10}; }

// With the larger operand outside of the root, no square overflows.
Terms hypot(Call& call) {
  const Term a = apply("abs", call.in(0)), b = apply("abs", call.in(1));
  const Term high = maximum(a, b), low = minimum(a, b);
  const Term ratio = low / high;
  const Term root = high * apply("sqrt", ratio * ratio + 1.0);
  const Term is_limit = (high == 0.0) | (high == highest(call.writer, high.dtype()));
  return {where(is_limit, high, root)};
}

DType bits_dtype(DType dtype) {
  switch (itemsize(dtype)) {
    case 2:
      return kInt16;
    case 4:
      return kInt32;
    default:
      return kInt64;
  }
}
Term is_negative(const Term& x) {
  if (is_integer(x.dtype())) return x < 0.0;
  return apply("bitcast_convert", {x}, intern_type(bits_dtype(x.dtype()), x.shape())) < 0.0;
}
Terms signbit(Call& call) { return {is_negative(call.in(0))}; }
Terms copysign(Call& call) {
  const Term size = apply("abs", call.in(0));
  return {where(is_negative(call.in(1)), -size, size)};
}

Term truncated_rest(const Term& a, const Term& b) {
  const Shape shape = broadcast(a.shape(), b.shape());
  const Term x = broadcast(a, shape);
  return apply("remainder", {x, broadcast(b, shape)}, x.type);
}
// Whether a truncated division has to be corrected to a division that is rounded down.
Term is_rounded_up(const Term& rest, const Term& divisor) {
  const Term has_rest = compare("NE", rest, rest.writer->number(0, rest.dtype()));
  return has_rest & compare("NE", rest < 0.0, divisor < 0.0);
}
// A remainder of 0 has the sign of the divisor.
Terms remainder(Call& call) {
  const Term a = call.in(0), b = call.in(1);
  const Term rest = truncated_rest(a, b);
  if (kUnsignedIntegers.contains(a.dtype())) return {rest};
  const Term corrected = where(is_rounded_up(rest, b), rest + b, rest);
  if (is_integer(a.dtype())) return {corrected};
  return {where(rest == 0.0, apply("sign", b) * 0.0, corrected)};
}
// floor(a / b) would be wrong where a / b is rounded up to a whole number. With the remainder, the
// quotient is next to a whole number, which is the result.
Term floored_quotient(const Term& a, const Term& b) {
  const Term quotient = a / b, rest = truncated_rest(a, b);
  const Term near = (a - rest) / b;
  const Term whole = apply("round_nearest_even", where(is_rounded_up(rest, b), near - 1.0, near));
  return where(b == 0.0, quotient, where(whole == 0.0, quotient * 0.0, whole));
}
Terms floor_divide(Call& call) {
  const Term a = call.in(0), b = call.in(1);
  if (!is_integer(a.dtype())) return {floored_quotient(a, b)};
  if (kUnsignedIntegers.contains(a.dtype())) return {a / b};
  const Term quotient = a / b;
  return {where(is_rounded_up(truncated_rest(a, b), b), quotient - 1.0, quotient)};
}

// a + log(1 + exp(b - a)) for a >= b; equal operands may be infinite.
Terms logaddexp(Call& call) {
  const Term a = call.in(0), b = call.in(1);
  const Term high = maximum(a, b);
  const Term gap = where(a == b, call.number(0), apply("abs", a - b));
  return {high + apply("log_plus_one", apply("exponential", -gap))};
}

Terms strong_product(Call& call) {
  const Term a = call.in(0), b = call.in(1);
  return {where((a == 0.0) | (b == 0.0), call.number(0), a * b)};
}

// Shifts by a negative number, or by the number of bits or more, shift all bits out.
template <bool left>
Terms shift(Call& call) {
  const Term a = call.in(0), b = call.in(1);
  const Shape shape = call.result().shape();
  const bool is_unsigned = kUnsignedIntegers.contains(a.dtype());
  const char* op = left          ? "shift_left"
                   : is_unsigned ? "shift_right_logical"
                                 : "shift_right_arithmetic";
  const Term x = broadcast(a, shape);
  const Term shifted = apply(op, {x, broadcast(b, shape)}, x.type);
  const Term is_out =
      (b < 0.0) | compare("GE", b, call.number(static_cast<double>(8 * itemsize(a.dtype()))));
  const Term none = call.number(0);
  return {
      where(is_out, left || is_unsigned ? none : where(a < 0.0, call.number(-1), none), shifted)};
}

Terms real_part(Call& call) {
  const Term x = call.in(0);
  if (!is_complex(x.dtype())) return {x};
  return {apply("real", {x}, intern_type(real_dtype(x.dtype()), x.shape()))};
}
Terms imaginary_part(Call& call) {
  const Term x = call.in(0);
  if (!is_complex(x.dtype())) return {filled(call.writer, 0, x.dtype(), x.shape())};
  return {apply("imag", {x}, intern_type(real_dtype(x.dtype()), x.shape()))};
}
Terms conjugate(Call& call) {
  const Term x = call.in(0);
  if (!is_complex(x.dtype())) return {x};
  const Type* part = intern_type(real_dtype(x.dtype()), x.shape());
  return {apply("complex", {apply("real", {x}, part), -apply("imag", {x}, part)}, x.type)};
}

}  // namespace

void add_scalar_conversions(Conversions& to) {
  for (const Chlo& each : kChlo) {
    to.push_back({.op = each.op, .dtypes = each.dtypes, .write = of_chlo});
  }
  to.insert(to.end(),
            {{.op = "exp2", .dtypes = kFull, .write = power_of<2>},
             {.op = "exp10", .dtypes = kFull, .write = power_of<10>},
             {.op = "log2", .dtypes = kFull, .write = log2},
             {.op = "log10", .dtypes = kFull, .write = log10},
             {.op = "hypot", .dtypes = kFull, .write = hypot},
             {.op = "signbit", .dtypes = kReal, .write = signbit},
             {.op = "copysign", .dtypes = kFloating, .write = copysign},
             {.op = "remainder", .dtypes = kIntegers | kFull, .write = remainder},
             {.op = "floor_divide", .dtypes = kIntegers | kFull, .write = floor_divide},
             {.op = "logaddexp", .dtypes = kFull, .write = logaddexp},
             {.op = "internal.strong_product", .dtypes = kFloatingComplex, .write = strong_product},
             {.op = "bitwise_left_shift", .dtypes = kIntegers, .write = shift<true>},
             {.op = "bitwise_right_shift", .dtypes = kIntegers, .write = shift<false>},
             {.op = "real", .dtypes = kNumeric, .write = real_part},
             {.op = "imag", .dtypes = kNumeric, .write = imaginary_part},
             {.op = "conj", .dtypes = kNumeric, .write = conjugate}});
}

}  // namespace etude::stablehlo::internal
