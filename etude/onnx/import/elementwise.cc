// SPDX-License-Identifier: Apache-2.0
// Operators that compute element by element, and casts.
#include <cstring>
#include <utility>
#include <vector>

#include "etude/core/internal/host_door.h"
#include "etude/onnx/import/importer.h"
#include "etude/ops.h"

namespace etude::onnx::importing {
namespace elementwise {
namespace {

using Results = std::vector<Tensor>;

template <Tensor (*f)(const Arg&)>
Results unary(const NodeCall& n) {
  return {f(n.x(0))};
}
template <Tensor (*f)(const Arg&, const Arg&)>
Results binary(const NodeCall& n) {
  return {f(n.x(0), n.x(1))};
}
// Any number of operands.
template <Tensor (*f)(const Arg&, const Arg&)>
Results joined_by(const NodeCall& n) {
  Tensor out = n.x(0);
  for (std::size_t i = 1; i < n.count(); ++i) out = f(out, n.x(i));
  return {out};
}

// 1 / sqrt(x) and x * sigmoid(x) are one function each.
Results root(const NodeCall& n) {
  const Tensor out = sqrt(n.x(0));
  n.importer().set_operand("Sqrt", out, n.x(0));
  return {out};
}
Results inverse(const NodeCall& n) {
  const bool joins = !n.importer().is_ours();
  const Tensor* operand = joins ? n.importer().operand_of("Sqrt", n.x(0)) : nullptr;
  return {operand != nullptr ? rsqrt(*operand) : reciprocal(n.x(0))};
}
Results product(const NodeCall& n) {
  const Tensor &a = n.x(0), &b = n.x(1);
  if (n.importer().is_ours()) return {multiply(a, b)};
  for (const auto& [x, gate] : {std::pair(a, b), std::pair(b, a)}) {
    const Tensor* operand = n.importer().operand_of("Sigmoid", gate);
    if (operand != nullptr && operand->ref() == x.ref()) return {nn::silu(x)};
  }
  return {multiply(a, b)};
}

// The quotient of integers is rounded towards zero.
Results quotient(const NodeCall& n) {
  const Tensor &a = n.x(0), &b = n.x(1);
  if (!is_integer(a.dtype())) return {divide(a, b)};
  const Tensor down = floor_divide(a, b);
  if (kUnsignedIntegers.contains(a.dtype())) return {down};
  const Tensor is_inexact = remainder(a, b) != 0, is_below = logical_xor(a < 0, b < 0);
  return {where(logical_and(is_inexact, is_below), down + 1, down)};
}

// The remainder has the sign of the divisor; with fmod, of the dividend.
Results modulo(const NodeCall& n) {
  const Tensor &a = n.x(0), &b = n.x(1);
  const Tensor rest = remainder(a, b);
  if (n.integer("fmod", 0) == 0 || kUnsignedIntegers.contains(a.dtype())) return {rest};
  const Tensor is_other = logical_and(rest != 0, logical_xor(rest < 0, a < 0));
  return {where(is_other, rest - b, rest)};
}

// The result has the dtype of the base.
Results power(const NodeCall& n) {
  const Tensor &x = n.x(0), &y = n.x(1);
  const DType from = x.dtype(), by = y.dtype();
  if (from == by) return {pow(x, y)};
  const bool is_by_float = is_floating(by), is_from_float = is_floating(from);
  if (is_from_float && (!is_by_float || itemsize(by) <= itemsize(from))) {
    return {pow(x, astype(y, from))};
  }
  const DType wide = is_by_float ? by : (itemsize(by) > itemsize(from) ? by : from);
  return {astype(pow(as_dtype(x, wide), as_dtype(y, wide)), from)};
}

Results mean_of(const NodeCall& n) {
  const Tensor total = joined_by<etude::add>(n)[0];
  return {n.count() == 1 ? total : total / static_cast<double>(n.count())};
}

Results shifted(const NodeCall& n) {
  const std::string direction = n.text("direction");
  n.require(direction == "LEFT" || direction == "RIGHT", "the direction is '{}', not LEFT or RIGHT",
            direction);
  if (direction == "LEFT") return {bitwise_left_shift(n.x(0), n.x(1))};
  return {bitwise_right_shift(n.x(0), n.x(1))};
}

Results infinite(const NodeCall& n) {
  const Tensor& x = n.x(0);
  const bool down = n.integer("detect_negative", 1) != 0, up = n.integer("detect_positive", 1) != 0;
  const Tensor is = isinf(x);
  if (down && up) return {is};
  if (!down && !up) return {logical_and(is, false)};
  return {logical_and(is, down ? x < 0 : x > 0)};
}

Results choice(const NodeCall& n) { return {where(n.x(0), n.x(1), n.x(2))}; }
Results identity(const NodeCall& n) { return {n.x(0)}; }
Results cast(const NodeCall& n) { return {as_dtype(n.x(0), n.dtype_of_number(n.integer("to")))}; }
Results cast_like(const NodeCall& n) { return {as_dtype(n.x(0), n.dtype(1))}; }

// The bits of integers are the bits of integers of the same size. No function reads the bits of
// floats, so these are read when the model is loaded.
Results bits_as(const NodeCall& n) {
  const DType from = n.dtype(0), to = n.dtype_of_number(n.integer("to"));
  n.require(itemsize(from) == itemsize(to) && !is_complex(from) && !is_complex(to),
            "{} is read as {}, but both need elements of one size", name(from), name(to));
  const bool are_integers = is_integer(from) && is_integer(to);
  if (from == to || are_integers) return {as_dtype(n.x(0), to)};
  const Tensor x = to_dense(n.known(0));
  Tensor out = etude::internal::make_tensor(intern_type(to, x.shape()));
  const auto bytes = static_cast<std::size_t>(x.type()->bytes());
  if (bytes > 0) {
    std::memcpy(etude::internal::host_elements_for_writing(out), etude::internal::host_elements(x),
                bytes);
  }
  return {out};
}

Results rounded(const NodeCall& n) { return {round(n.x(0))}; }

}  // namespace
}  // namespace elementwise

void add_elementwise_imports(Imports& to) {
  using namespace elementwise;
  const std::size_t first = to.size();
  constexpr std::string_view kOld = "consumed_inputs";  // an attribute of opset 6 and before
  to.insert(to.end(), {{"Abs", "X", kOld, unary<etude::abs>},
                       {"Acos", "input", "", unary<etude::acos>},
                       {"Acosh", "input", "", unary<etude::acosh>},
                       {"Asin", "input", "", unary<etude::asin>},
                       {"Asinh", "input", "", unary<etude::asinh>},
                       {"Atan", "input", "", unary<etude::atan>},
                       {"Atanh", "input", "", unary<etude::atanh>},
                       {"Ceil", "X", kOld, unary<etude::ceil>},
                       {"Cos", "input", "", unary<etude::cos>},
                       {"Cosh", "input", "", unary<etude::cosh>},
                       {"Erf", "input", "", unary<etude::erf>},
                       {"Exp", "input", kOld, unary<etude::exp>},
                       {"Floor", "X", kOld, unary<etude::floor>},
                       {"IsNaN", "X", "", unary<etude::isnan>},
                       {"Log", "input", kOld, unary<etude::log>},
                       {"Neg", "X", kOld, unary<etude::negative>},
                       {"Not", "X", "", unary<etude::logical_not>},
                       {"Reciprocal", "X", kOld, inverse},
                       {"Sign", "input", "", unary<etude::sign>},
                       {"Sin", "input", "", unary<etude::sin>},
                       {"Sinh", "input", "", unary<etude::sinh>},
                       {"Sqrt", "X", kOld, root},
                       {"Tan", "input", "", unary<etude::tan>},
                       {"Tanh", "input", kOld, unary<etude::tanh>},
                       {"BitwiseNot", "X", "", unary<etude::bitwise_invert>},
                       {"Add", "A B", "", binary<etude::add>},
                       {"And", "A B", "", binary<etude::logical_and>},
                       {"BitwiseAnd", "A B", "", binary<etude::bitwise_and>},
                       {"BitwiseOr", "A B", "", binary<etude::bitwise_or>},
                       {"BitwiseXor", "A B", "", binary<etude::bitwise_xor>},
                       {"Equal", "A B", "", binary<etude::equal>},
                       {"Greater", "A B", "", binary<etude::greater>},
                       {"GreaterOrEqual", "A B", "", binary<etude::greater_equal>},
                       {"Less", "A B", "", binary<etude::less>},
                       {"LessOrEqual", "A B", "", binary<etude::less_equal>},
                       {"Mul", "A B", "", elementwise::product},
                       {"Or", "A B", "", binary<etude::logical_or>},
                       {"Sub", "A B", "", binary<etude::subtract>},
                       {"Xor", "A B", "", binary<etude::logical_xor>},
                       {"Max", "data...", "", joined_by<etude::maximum>},
                       {"Min", "data...", "", joined_by<etude::minimum>},
                       {"Sum", "data...", "", joined_by<etude::add>},
                       {"Mean", "data...", "", mean_of},
                       {"Div", "A B", "", quotient},
                       {"Mod", "A B", "fmod", modulo},
                       {"Pow", "X Y", "", power},
                       {"BitShift", "X Y", "direction", shifted},
                       {"IsInf", "X", "detect_negative detect_positive", infinite},
                       {"Round", "X", "", rounded},
                       {"Where", "condition X Y", "", choice},
                       {"Identity", "input", "", identity},
                       {"BitCast", "input", "to", bits_as},
                       {"Cast", "input", "to saturate round_mode", cast},
                       {"CastLike", "input target_type", "saturate round_mode", cast_like}});
  for (std::size_t i = first; i < to.size(); ++i) to[i].is_elementwise = true;
}

}  // namespace etude::onnx::importing
