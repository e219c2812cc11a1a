// SPDX-License-Identifier: Apache-2.0
// Functions of elements that StableHLO or CHLO has as operators. CHLO is the part of the StableHLO
// project that has the functions of mathematics.
#include <string_view>

#include <fmt/format.h>

#include "etude/stablehlo/conversions.h"

namespace etude::stablehlo::internal {
namespace {

Terms absolute(Call& call) {
  const Term x = call.in(0);
  if (kUnsignedIntegers.contains(x.dtype())) return {x};
  return {apply("abs", {x}, intern_type(real_dtype(x.dtype()), x.shape()))};
}

// Integers are whole already.
template <char kind>
Terms rounded(Call& call) {
  const Term x = call.in(0);
  if (is_integer(x.dtype())) return {x};
  if (kind == 't') return {where(x < 0.0, apply("ceil", x), apply("floor", x))};
  return {apply(kind == 'c' ? "ceil" : kind == 'f' ? "floor" : "round_nearest_even", x)};
}

template <char kind>
Terms comparison(Call& call) {
  constexpr const char* kDirection = kind == '='   ? "EQ"
                                     : kind == '!' ? "NE"
                                     : kind == '<' ? "LT"
                                     : kind == 'l' ? "LE"
                                     : kind == '>' ? "GT"
                                                   : "GE";
  return {compare(kDirection, call.in(0), call.in(1))};
}

Terms choice(Call& call) { return {where(call.in(0), call.in(1), call.in(2))}; }

Term none_of(const Term& x) { return filled(*x.writer, 0, kBool, x.shape()); }

Terms is_nan(Call& call) {
  const Term x = call.in(0);
  return {is_integer(x.dtype()) ? none_of(x) : compare("NE", x, x)};
}
Term is_infinite(const Term& x) { return apply("abs", x) == highest(*x.writer, x.dtype()); }
Term part(const Term& x, std::string_view op) {
  return apply(op, {x}, intern_type(real_dtype(x.dtype()), x.shape()));
}
Terms isinf(Call& call) {
  const Term x = call.in(0);
  if (is_integer(x.dtype())) return {none_of(x)};
  if (is_complex(x.dtype())) return {is_infinite(part(x, "real")) | is_infinite(part(x, "imag"))};
  return {is_infinite(x)};
}
Term finite(const Term& x) { return apply("is_finite", {x}, intern_type(kBool, x.shape())); }
Terms isfinite(Call& call) {
  const Term x = call.in(0);
  if (is_integer(x.dtype())) return {!none_of(x)};
  if (is_complex(x.dtype())) return {finite(part(x, "real")) & finite(part(x, "imag"))};
  return {finite(x)};
}

// The sign of an unsigned number is 0 or 1.
Terms sign(Call& call) {
  const Term x = call.in(0);
  if (kUnsignedIntegers.contains(x.dtype())) return {minimum(x, call.number(1))};
  return {apply("sign", x)};
}

// Operators with the meaning of the op.
struct SameOperator {
  std::string_view op, name;
  DTypeSet dtypes = kFloatingComplex;
};
constexpr SameOperator kSame[] = {
    {"exp", "exponential"},
    {"expm1", "exponential_minus_one"},
    {"log", "log"},
    {"log1p", "log_plus_one"},
    {"sqrt", "sqrt"},
    {"rsqrt", "rsqrt"},
    {"sin", "sine"},
    {"cos", "cosine"},
    {"tanh", "tanh"},
    {"cbrt", "cbrt", kFloating},
    {"tan", "tan", kFloating},
    {"nn.sigmoid", "logistic", kFloating},
    {"atan2", "atan2", kFloating},
    {"add", "add", kNumeric},
    {"subtract", "subtract", kNumeric},
    {"multiply", "multiply", kNumeric},
    {"divide", "divide"},
    {"negative", "negate", kNumeric},
    {"pow", "power", kNumeric},
    {"maximum", "maximum", kReal},
    {"minimum", "minimum", kReal},
    {"logical_and", "and", kBool},
    {"logical_or", "or", kBool},
    {"logical_xor", "xor", kBool},
    {"logical_not", "not", kBool},
    {"bitwise_and", "and", kIntegersBool},
    {"bitwise_or", "or", kIntegersBool},
    {"bitwise_xor", "xor", kIntegersBool},
    {"bitwise_invert", "not", kIntegersBool},
};

}  // namespace

void add_elementwise_conversions(Conversions& to) {
  for (const SameOperator& same : kSame) {
    to.push_back({.op = same.op, .name = same.name, .dtypes = same.dtypes});
  }
  to.insert(to.end(), {{.op = "abs", .dtypes = kNumeric, .write = absolute},
                       {.op = "ceil", .dtypes = kReal, .write = rounded<'c'>},
                       {.op = "floor", .dtypes = kReal, .write = rounded<'f'>},
                       {.op = "trunc", .dtypes = kReal, .write = rounded<'t'>},
                       {.op = "round", .dtypes = kReal, .write = rounded<'r'>},
                       {.op = "sign", .dtypes = kReal, .write = sign},
                       {.op = "where", .write = choice},
                       {.op = "equal", .write = comparison<'='>},
                       {.op = "not_equal", .write = comparison<'!'>},
                       {.op = "less", .dtypes = kReal, .write = comparison<'<'>},
                       {.op = "less_equal", .dtypes = kReal, .write = comparison<'l'>},
                       {.op = "greater", .dtypes = kReal, .write = comparison<'>'>},
                       {.op = "greater_equal", .dtypes = kReal, .write = comparison<'g'>},
                       {.op = "isnan", .dtypes = kNumeric, .write = is_nan},
                       {.op = "isinf", .dtypes = kNumeric, .write = isinf},
                       {.op = "isfinite", .dtypes = kNumeric, .write = isfinite}});
}

}  // namespace etude::stablehlo::internal
