// SPDX-License-Identifier: Apache-2.0
// Derivatives of scalar programs. A derivative is a program, too: it maps a tangent of one operand
// to the tangent of the result. The table of derivatives (scalar_functions.inc) yields it at
// compile time. Records of element-wise ops use these derivatives as their partials, unless they
// write their own. This header is expensive to compile; only files of records include it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "etude/base/internal/partials.h"
#include "etude/base/scalars/expression.h"
#include "etude/base/scalars/expression_math.h"
#include "etude/base/scalars/scalar_program.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal::partials {

constexpr scalar::Symbol sign_of(const scalar::Symbol& x) { return math::sign(x); }
// Uses only functions that complex numbers have as well: complex numbers lack hypot and an order,
// and only 0 has no logarithm.
constexpr scalar::Symbol root_of_one_and(const scalar::Symbol& x) { return sqrt(x * x + 1.0); }
constexpr scalar::Symbol with_logarithm(const scalar::Symbol& a) {
  const scalar::Symbol is_negative = math::logical_and(math::isnan(sqrt(a)), a == a);
  return where(math::logical_or(a == 0.0, is_negative), 1.0, a);
}

}  // namespace internal::partials

namespace scalar {

// The derivative of the call y = fn(a, b) by operand `which`.
constexpr Symbol partial(Fn fn, int which, const Symbol& a, const Symbol& b, const Symbol& y) {
  using namespace internal::partials;  // NOLINT(google-build-using-namespace)
  using math::digamma, math::floor_divide, math::sigmoid;
  using T = Symbol;
  const Symbol& x = a;
  switch (fn) {
#define ETUDE_UNARY(fn, f, dx) \
  case Fn::fn:                 \
    return dx;
#define ETUDE_BINARY(fn, f, da, db) \
  case Fn::fn:                      \
    return which == 0 ? Symbol(da) : Symbol(db);
#define ETUDE_ROUNDING(fn, f) ETUDE_UNARY(fn, f, 0.0)
#define ETUDE_OP_UNARY ETUDE_UNARY
#define ETUDE_OP_BINARY ETUDE_BINARY
#define ETUDE_OP_ROUNDING ETUDE_ROUNDING
#define ETUDE_OP_TRUTH(fn, f, arity) ETUDE_UNARY(fn, f, 0.0)
#include "etude/base/scalars/scalar_functions.inc"
    default:
      return 0.0;
  }
}

// Computes the derivative by one operand, node by node, and multiplies it by a tangent.
class Differentiator {
 public:
  // With `by_result`, partials of the last call read the result instead of recomputing it.
  constexpr Differentiator(Builder& builder, const Program& program, int wrt, bool by_result)
      : builder_(builder), program_(program), wrt_(wrt), by_result_(by_result) {}

  // The tangent of the result: linear in `t`, the tangent of the operand.
  constexpr Symbol push(const Symbol& result, const Symbol& t) {
    for (int i = 0; i < program_.size; ++i) {
      const Node& node = program_.nodes[static_cast<std::size_t>(i)];
      node_[i] = node.fn == Fn::kConstant ? Symbol(node.constant) : copy(node);
      const bool last = i + 1 == program_.size;
      partial_[i] = partial_of(node, last && by_result_ ? result : node_[i]);
    }
    return times(t, partial_[program_.size - 1]);
  }

 private:
  constexpr const Symbol& at(const std::array<Symbol, kMaxNodes>& of, const Node& node,
                             int arg) const {
    return of[node.args[static_cast<std::size_t>(arg)]];
  }
  constexpr Symbol copy(Node node) {
    const int arity = info(node.fn).arity;
    for (int a = 0; a < arity; ++a) {
      node.args[static_cast<std::size_t>(a)] = at(node_, node, a).node_in(builder_);
    }
    return {&builder_, builder_.add(node)};
  }
  constexpr Symbol partial_of(const Node& node, const Symbol& y) {
    if (node.fn == Fn::kOperand) return node.args[0] == wrt_ ? 1.0 : 0.0;
    if (node.fn == Fn::kWhere) {
      return scalar::where(at(node_, node, 0), at(partial_, node, 1), at(partial_, node, 2));
    }
    Symbol sum = 0.0;
    const int arity = info(node.fn).arity;
    for (int a = 0; a < arity; ++a) {
      const Symbol& inner = at(partial_, node, a);
      if (inner.is_constant(0)) continue;  // no tangent arrives
      const Symbol b = arity > 1 ? at(node_, node, 1) : Symbol(0.0);
      const bool reciprocal = node.fn == Fn::kDivide && at(node_, node, 0).is_constant(1);
      const Symbol outer =
          reciprocal ? -(y * y) : partial(node.fn, a, at(node_, node, 0), b, y);  // no division
      sum = plus(sum, times(inner, outer));
    }
    return sum;
  }
  static constexpr Symbol plus(const Symbol& a, const Symbol& b) {
    if (a.is_constant(0)) return b;
    if (b.is_constant(0)) return a;
    return b.is_call(Fn::kNegative) ? a - b.arg(0) : a + b;
  }

  // The strong product of a partial and `by`, which is a tangent or an inner derivative. If the
  // partial is a choice that includes a constant, the result is a choice of products, so that a
  // partial of 1 returns `by`.
  static constexpr Symbol times(const Symbol& by, const Symbol& partial) {
    if (partial.is_call(Fn::kNegative)) return -times(by, partial.arg(0));
    if (partial.is_call(Fn::kWhere)) {
      const Symbol a = partial.arg(1), b = partial.arg(2);
      if (a.is_constant() || b.is_constant()) {
        return scalar::where(partial.arg(0), times(by, a), times(by, b));
      }
    }
    return strong_product(by, partial);
  }

  Builder& builder_;
  const Program& program_;
  int wrt_;
  bool by_result_;
  std::array<Symbol, kMaxNodes> node_, partial_;
};

// The partial by operand `wrt`: a program on the operands among (operands..., result, t) that it
// reads.
constexpr Program partial_by(const Program& program, int wrt, bool by_result) {
  std::array<Node, kMaxRawNodes> nodes;
  Builder builder(nodes.data(), nodes.size());
  const Symbol result = operand(builder, program.operands);
  const Symbol t = operand(builder, program.operands + 1);
  Differentiator differentiator(builder, program, wrt, by_result);
  const uint16_t last = differentiator.push(result, t).node_in(builder);
  return finish(builder, last, program.operands + 2, program.params, false);
}

// The same, but the program may read the result of the call. It does so if it then reads no more
// values than otherwise, since a tape keeps all values that it reads.
constexpr Program partial_of(const Program& program, int wrt) {
  const Program with = partial_by(program, wrt, true);
  bool reads_result = false;
  for (int i = 0; i < with.operands; ++i) {
    reads_result |= with.sources[static_cast<std::size_t>(i)] == program.operands;
  }
  if (!reads_result) return with;
  const Program without = partial_by(program, wrt, false);
  return without.operands < with.operands ? without : with;
}

}  // namespace scalar
}  // namespace etude
