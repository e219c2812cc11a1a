// SPDX-License-Identifier: Apache-2.0
// Functions of elements that ONNX has as operators.
#include <numbers>
#include <string>
#include <string_view>
#include <vector>

#include "etude/onnx/conversions.h"

namespace etude::onnx::internal {
namespace {

// A number of the record as an attribute.
Term with_number(Call& call, const char* op, const char* attribute, const char* name) {
  return call.node(op, {call.in(0)}, {{attribute, call.attrs.real(name)}});
}

std::vector<Term> negative(Call& call) {
  const Term x = call.in(0);
  const bool is_unsigned = kUnsignedIntegers.contains(x.dtype);
  return {is_unsigned ? 0.0 - x : apply("Neg", x)};
}

// Integers are whole already. The operators take no bfloat16.
template <char kind>
std::vector<Term> rounded(Call& call) {
  const Term given = call.in(0);
  const Term x = given.dtype == kBFloat16 ? call.cast(given, kFloat32) : given;
  if (is_integer(x.dtype)) return {apply("Identity", x)};
  if (kind == 't') return {where(x < 0.0, apply("Ceil", x), apply("Floor", x))};
  return {apply(kind == 'c' ? "Ceil" : kind == 'f' ? "Floor" : "Round", x)};
}

template <char kind>
std::vector<Term> comparison(Call& call) {
  constexpr const char* kOp = kind == '='   ? "Equal"
                              : kind == '!' ? "Equal"
                              : kind == '<' ? "Less"
                              : kind == 'l' ? "LessOrEqual"
                              : kind == '>' ? "Greater"
                                            : "GreaterOrEqual";
  const Term out = call.node_of(kBool, kOp, call.inputs());
  return {kind == '!' ? inverse(out) : out};
}

std::vector<Term> choice(Call& call) {
  const Term condition = call.in(0), x = call.in(1), y = call.in(2);
  if (x.dtype != kBool) return {where(condition, x, y)};
  return {either(both(condition, x), both(inverse(condition), y))};
}

std::vector<Term> is_nan(Call& call) {
  const Term x = call.in(0);
  return {is_integer(x.dtype) ? inverse(x == x) : call.node_of(kBool, "IsNaN", {x})};
}
// Operators for infinities take 32 and 64 bits alone before opset 20.
std::vector<Term> is_infinite(Call& call) {
  const Term x = call.in(0);
  if (is_integer(x.dtype)) return {inverse(x == x)};
  const Term wide = x.dtype == kFloat16 ? call.cast(x, kFloat32) : x;
  return {call.node_of(kBool, "IsInf", {wide})};
}
std::vector<Term> is_finite(Call& call) {
  const Term x = call.in(0);
  if (is_integer(x.dtype)) return {x == x};
  return {(x - x) == 0.0};  // NaN for infinities and NaN
}

// By the functions of bools, or of integers from opset 18 on.
template <char kind>
std::vector<Term> bits(Call& call) {
  const bool is_bool = call.in(0).dtype == kBool;
  const char* op = kind == '&'   ? (is_bool ? "And" : "BitwiseAnd")
                   : kind == '|' ? (is_bool ? "Or" : "BitwiseOr")
                   : kind == '^' ? (is_bool ? "Xor" : "BitwiseXor")
                                 : (is_bool ? "Not" : "BitwiseNot");
  return {call.node(op, call.inputs())};
}
bool has_bits(const CallFacts& call) { return call.opset >= 18 || call.types[0]->dtype() == kBool; }

std::vector<Term> leaky_relu(Call& call) {
  return {with_number(call, "LeakyRelu", "alpha", "slope")};
}
std::vector<Term> elu(Call& call) { return {with_number(call, "Elu", "alpha", "alpha")}; }
std::vector<Term> hard_sigmoid(Call& call) {
  return {call.node("HardSigmoid", {call.in(0)}, {{"alpha", 1.0 / 6.0}, {"beta", 0.5}})};
}

// From opset 20 on an operator. Before, nodes that runtimes know as this function, and fuse.
std::vector<Term> gelu_exact(Call& call) {
  const Term x = call.in(0);
  if (call.opset() >= 20) return {call.node("Gelu", {x}, {{"approximate", std::string("none")}})};
  return {x * (apply("Erf", x / std::numbers::sqrt2) + 1.0) * 0.5};
}
std::vector<Term> gelu_tanh(Call& call) {
  const Term x = call.in(0);
  if (call.opset() >= 20) return {call.node("Gelu", {x}, {{"approximate", std::string("tanh")}})};
  const double root = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const Term cubes = call.node("Pow", {x, call.number(3, x.dtype)});
  const Term weight = apply("Tanh", (x + cubes * 0.044715) * root) + 1.0;
  return {x * weight * 0.5};
}

std::vector<Term> relu6(Call& call) {
  const Term x = call.in(0);
  return {call.node("Clip", {x, call.number(0, x.dtype), call.number(6, x.dtype)})};
}
// The operator has numbers as bounds.
template <bool has_low, bool has_high>
std::vector<Term> clipped(Call& call) {
  const Term low = has_low ? call.in(1) : call.absent();
  const Term high = has_high ? call.in(has_low ? 2 : 1) : call.absent();
  return {call.node("Clip", {call.in(0), low, high})};
}
bool has_number_bounds(const CallFacts& call) {
  for (std::size_t i = 1; i < call.types.size(); ++i) {
    if (call.shape(i).rank() != 0) return false;
  }
  return true;
}

constexpr DTypeSet kFloats = kHalfToDouble;
constexpr DTypeSet kClipped = kNumbers | kInt8 | kUInt8;
constexpr DTypeSet kExact = DTypeSet(kInt32) | kInt64 | kHalfToDouble;

// Operators with the meaning of the op.
struct SameOperator {
  std::string_view op, node;
  DTypeSet dtypes = kFloats;
};
constexpr SameOperator kSame[] = {
    {"exp", "Exp"},
    {"log", "Log"},
    {"sqrt", "Sqrt"},
    {"sin", "Sin"},
    {"cos", "Cos"},
    {"tan", "Tan"},
    {"asin", "Asin"},
    {"acos", "Acos"},
    {"atan", "Atan"},
    {"sinh", "Sinh"},
    {"cosh", "Cosh"},
    {"tanh", "Tanh"},
    {"asinh", "Asinh"},
    {"acosh", "Acosh"},
    {"atanh", "Atanh"},
    {"erf", "Erf"},
    {"reciprocal", "Reciprocal"},
    {"nn.sigmoid", "Sigmoid"},
    {"nn.relu", "Relu"},
    {"nn.softplus", "Softplus"},
    {"nn.softsign", "Softsign"},
    {"nn.selu", "Selu"},
    {"nn.hard_swish", "HardSwish"},
    {"add", "Add", kNumbers},
    {"subtract", "Sub", kNumbers},
    {"multiply", "Mul", kNumbers},
    {"divide", "Div"},
    {"maximum", "Max", kNumbers},
    {"minimum", "Min", kNumbers},
    {"pow", "Pow", kExact},
    {"abs", "Abs", kIntegers | kHalfToDouble},
    {"sign", "Sign", kIntegers | kHalfToDouble},
    {"logical_and", "And", kBool},
    {"logical_or", "Or", kBool},
    {"logical_xor", "Xor", kBool},
    {"logical_not", "Not", kBool},
};

}  // namespace

void add_elementwise_conversions(Conversions& to) {
  for (const SameOperator& same : kSame) {
    to.push_back({.op = same.op, .node = same.node, .dtypes = same.dtypes});
  }
  to.insert(to.end(), {{.op = "nn.mish", .node = "Mish", .dtypes = kFloats, .opset = 18},
                       {.op = "negative", .dtypes = kNumbers, .write = negative},
                       {.op = "ceil", .dtypes = kReal, .write = rounded<'c'>},
                       {.op = "floor", .dtypes = kReal, .write = rounded<'f'>},
                       {.op = "trunc", .dtypes = kReal, .write = rounded<'t'>},
                       {.op = "round", .dtypes = kReal, .write = rounded<'r'>},
                       {.op = "where", .dtypes = kPadded, .write = choice},
                       {.op = "equal", .dtypes = kExact | kBool, .write = comparison<'='>},
                       {.op = "not_equal", .dtypes = kExact | kBool, .write = comparison<'!'>},
                       {.op = "less", .dtypes = kNumbers, .write = comparison<'<'>},
                       {.op = "less_equal", .dtypes = kNumbers, .write = comparison<'l'>},
                       {.op = "greater", .dtypes = kNumbers, .write = comparison<'>'>},
                       {.op = "greater_equal", .dtypes = kNumbers, .write = comparison<'g'>},
                       {.op = "isnan", .dtypes = kExact, .write = is_nan},
                       {.op = "isinf", .dtypes = kExact, .write = is_infinite},
                       {.op = "isfinite", .dtypes = kExact, .write = is_finite},
                       {.op = "bitwise_and", .write = bits<'&'>, .fits = has_bits},
                       {.op = "bitwise_or", .write = bits<'|'>, .fits = has_bits},
                       {.op = "bitwise_xor", .write = bits<'^'>, .fits = has_bits},
                       {.op = "bitwise_invert", .write = bits<'~'>, .fits = has_bits},
                       {.op = "nn.leaky_relu", .dtypes = kFloats, .write = leaky_relu},
                       {.op = "nn.elu", .dtypes = kFloats, .write = elu},
                       {.op = "internal.gelu_exact", .dtypes = kFloats, .write = gelu_exact},
                       {.op = "internal.gelu_tanh", .dtypes = kFloats, .write = gelu_tanh},
                       // The metadata of the formula keeps the gradient of relu6 at 6.
                       {.op = "nn.relu6", .dtypes = kFloats, .write = relu6, .is_formula = true},
                       {.op = "internal.clip_low",
                        .dtypes = kClipped,
                        .write = clipped<true, false>,
                        .fits = has_number_bounds},
                       {.op = "internal.clip_high",
                        .dtypes = kClipped,
                        .write = clipped<false, true>,
                        .fits = has_number_bounds},
                       {.op = "internal.clip_both",
                        .dtypes = kClipped,
                        .write = clipped<true, true>,
                        .fits = has_number_bounds},
                       {.op = "nn.hard_sigmoid", .dtypes = kFloats, .write = hard_sigmoid}});
}

}  // namespace etude::onnx::internal
