// SPDX-License-Identifier: Apache-2.0
#include "etude/base/scalars/evaluate.h"

#include <array>
#include <cmath>
#include <cstddef>

#include "etude/base/check.h"
#include "etude/base/scalars/scalar_program.h"

namespace etude::scalar {
namespace {

double bool_value(Fn fn, double a, double b) {
  switch (fn) {
    case Fn::kEqual:
      return a == b;
    case Fn::kNotEqual:
      return a != b;
    case Fn::kLess:
      return a < b;
    case Fn::kLessEqual:
      return a <= b;
    case Fn::kGreater:
      return a > b;
    case Fn::kGreaterEqual:
      return a >= b;
    case Fn::kLogicalAnd:
      return a != 0 && b != 0;
    case Fn::kLogicalOr:
      return a != 0 || b != 0;
    case Fn::kLogicalXor:
      return (a != 0) != (b != 0);
    case Fn::kLogicalNot:
      return a == 0;
    case Fn::kIsnan:
      return std::isnan(a);
    case Fn::kIsinf:
      return std::isinf(a);
    case Fn::kIsfinite:
      return std::isfinite(a);
    default:
      return std::signbit(a);
  }
}

double value(Fn fn, double a, double b) {
  switch (fn) {
    case Fn::kAdd:
      return a + b;
    case Fn::kSubtract:
      return a - b;
    case Fn::kMultiply:
      return a * b;
    case Fn::kDivide:
      return a / b;
    case Fn::kNegative:
      return -a;
    case Fn::kStrongProduct:
      return a == 0 || b == 0 ? 0 : a * b;
    case Fn::kMaximum:  // NaN if one is
      return std::isnan(a) || a > b ? a : b;
    case Fn::kMinimum:
      return std::isnan(a) || a < b ? a : b;
#define ETUDE_UNARY(fn, f, dx) \
  case Fn::fn:                 \
    return std::f(a);
#define ETUDE_BINARY(fn, f, da, db) \
  case Fn::fn:                      \
    return std::f(a, b);
#define ETUDE_ROUNDING(fn, f) ETUDE_UNARY(fn, f, 0)
#include "etude/base/scalars/scalar_functions.inc"
    default:
      ETUDE_THROW(kUnimplemented,
                  "'{}' is a function of tensors; a program of it has no single value",
                  info(fn).op);
  }
}

}  // namespace

double evaluate(const Program& program, std::span<const double> operands,
                std::span<const double> params) {
  std::array<double, kMaxNodes> at{};
  for (int i = 0; i < program.size; ++i) {
    const Node& node = program.nodes[static_cast<std::size_t>(i)];
    const double a = at[node.args[0]], b = at[node.args[1]];
    double& out = at[static_cast<std::size_t>(i)];
    if (node.fn == Fn::kOperand) {
      out = operands[node.args[0]];
    } else if (node.fn == Fn::kParam) {
      out = params[node.args[0]];
    } else if (node.fn == Fn::kConstant) {
      out = node.constant;
    } else if (node.fn == Fn::kWhere) {
      out = a != 0 ? b : at[node.args[2]];
    } else {
      out = info(node.fn).is_bool ? bool_value(node.fn, a, b) : value(node.fn, a, b);
    }
  }
  return at[static_cast<std::size_t>(program.size - 1)];
}

}  // namespace etude::scalar
