// SPDX-License-Identifier: Apache-2.0
// The expression language of scalars: constant graphs in flat arrays. A generic lambda runs once,
// at compile time, on symbols; equal subexpressions are one node. Element-wise ops, their
// derivatives (differentiate.h), bodies of scans and schedules are such graphs. Kernels, the double
// reference, printing and code generation traverse the same array.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace scalar {

enum class Fn : uint8_t {
  kOperand,   // args[0]: index of the operand
  kParam,     // args[0]: index of the numeric attribute
  kConstant,  // the value
  kWhere,     // args: a bool, the value if true, the value if false
#define ETUDE_UNARY(fn, f, dx) fn,
#define ETUDE_BINARY(fn, f, da, db) fn,
#define ETUDE_ROUNDING(fn, f) fn,
#define ETUDE_OP_UNARY(fn, f, dx) fn,
#define ETUDE_OP_BINARY(fn, f, da, db) fn,
#define ETUDE_OP_ROUNDING(fn, f) fn,
#define ETUDE_OP_TRUTH(fn, f, arity) fn,
#include "etude/base/scalars/scalar_functions.inc"
};

struct FnInfo {
  std::string_view op;  // the op of this name is the function on tensors
  int arity;
  bool is_bool;     // the result is bool, for any dtype of the operands
  bool on_tensors;  // such an op exists
};
// Made once, not in each call: compilers limit the steps of a constant expression.
inline constexpr FnInfo kFnInfo[] = {
    {"operand", 0, false, true},
    {"param", 0, false, true},
    {"constant", 0, false, true},
    {"where", 3, false, true},
#define ETUDE_UNARY(fn, f, dx) {#f, 1, false, true},
#define ETUDE_BINARY(fn, f, da, db) {#f, 2, false, true},
#define ETUDE_ROUNDING(fn, f) {#f, 1, false, true},
#define ETUDE_NUMBER_UNARY(fn, f, dx) {#f, 1, false, false},
#define ETUDE_NUMBER_BINARY(fn, f, da, db) {#f, 2, false, false},
#define ETUDE_NUMBER_ROUNDING(fn, f) {#f, 1, false, false},
#define ETUDE_OP_UNARY(fn, f, dx) {#f, 1, false, true},
#define ETUDE_OP_BINARY(fn, f, da, db) {#f, 2, false, true},
#define ETUDE_OP_ROUNDING(fn, f) {#f, 1, false, true},
#define ETUDE_OP_TRUTH(fn, f, arity) {#f, arity, true, true},
#include "etude/base/scalars/scalar_functions.inc"
};
constexpr const FnInfo& info(Fn fn) { return kFnInfo[static_cast<std::size_t>(fn)]; }

struct Node {
  Fn fn = Fn::kConstant;
  std::array<uint16_t, 3> args{};
  double constant = 0;
  friend constexpr bool operator==(const Node&, const Node&) = default;
};

// Appends nodes to a borrowed array, operands first. Reuses a node that exists already.
class Builder {
 public:
  constexpr Builder(Node* nodes, std::size_t capacity) : nodes_(nodes), capacity_(capacity) {}

  constexpr uint16_t add(const Node& node) {
    // Compares the function first: compilers limit the steps of a constant expression.
    for (std::size_t i = 0; i < size_; ++i) {
      if (nodes_[i].fn != node.fn) continue;
      if (nodes_[i] == node && is_same_zero(nodes_[i].constant, node.constant)) {
        return static_cast<uint16_t>(i);
      }
    }
    if (size_ == capacity_)
      throw "etude: an expression has more operations than fit (base/scalars/expression.h)";
    nodes_[size_] = node;
    return static_cast<uint16_t>(size_++);
  }
  constexpr std::size_t size() const { return size_; }
  constexpr const Node& operator[](std::size_t i) const { return nodes_[i]; }

 private:
  // 0 and -0 compare equal, but are different constants.
  static constexpr bool is_same_zero(double a, double b) {
    return a != 0 || __builtin_signbit(a) == __builtin_signbit(b);
  }
  Node* nodes_;
  std::size_t capacity_;
  std::size_t size_ = 0;
};

// A value, or a bool, in an expression under construction: a node, or a constant, which becomes a
// node when another node needs it. Use operators, where, and the functions of <cmath>. Op records
// use the functions of etude::math (expression_math.h).
class Symbol {
 public:
  constexpr Symbol() = default;
  template <class N>
  requires(std::is_arithmetic_v<N>) constexpr Symbol(N constant)
      : constant_(static_cast<double>(constant)) {}
  constexpr Symbol(Builder* builder, uint16_t node) : builder_(builder), node_(node) {}

  // Makes `if (x > 0)` a compile-time error: the branch is unknown while a body is recorded.
  template <std::same_as<bool> B>
  constexpr explicit operator B() const {
    static_assert(sizeof(B) == 0,
                  "etude: this code is compiled once for all values, as the body of a scan is: it "
                  "cannot branch on a value; use where(condition, a, b) for if and ?:");
    return false;
  }

  constexpr bool is_constant() const { return builder_ == nullptr; }
  constexpr bool is_constant(double value) const {
    return is_constant() && constant_ == value &&
           __builtin_signbit(constant_) == __builtin_signbit(value);
  }
  constexpr double constant() const { return constant_; }
  constexpr Builder* builder() const { return builder_; }
  constexpr uint16_t node_in(Builder& builder) const {
    return is_constant() ? builder.add({Fn::kConstant, {}, constant_}) : node_;
  }
  constexpr const Node& node() const { return (*builder_)[node_]; }
  // Operand `i` of this call; converted back to a constant if it is a constant.
  constexpr Symbol arg(std::size_t i) const { return of(*builder_, node().args[i]); }
  static constexpr Symbol of(Builder& builder, uint16_t node) {
    if (builder[node].fn == Fn::kConstant) return builder[node].constant;
    return {&builder, node};
  }
  constexpr bool is_call(Fn fn) const { return !is_constant() && node().fn == fn; }
  friend constexpr bool is_same(const Symbol& a, const Symbol& b) {
    if (a.is_constant() || b.is_constant()) return a.is_constant() && b.is_constant(a.constant_);
    return a.node_ == b.node_;
  }

 private:
  Builder* builder_ = nullptr;
  uint16_t node_ = 0;
  double constant_ = 0;
};

// The call as a node, without simplification. At least one operand is not a constant.
template <class... S>
constexpr Symbol note(Fn fn, const S&... args) {
  Builder* builder = nullptr;
  ((builder = builder == nullptr ? args.builder() : builder), ...);
  if (builder == nullptr) throw "etude: a function of constants alone; write its value";
  return {builder, builder->add({fn, {args.node_in(*builder)...}, 0})};
}

// Simplification. Every rewrite is exact for all values, including zeros of both signs, infinities
// and NaN: arithmetic of two constants (in double, like all constants), x - 0, x + -0, x * 1, x /
// 1, x * -1 and x / -1, -(-x), a choice between equal values, and a choice by a constant. x + 0 (-0
// + 0 is 0) and x * 0 (NaN and infinities) are not exact.
constexpr Symbol operator-(const Symbol& a) {
  if (a.is_constant()) return -a.constant();
  if (a.is_call(Fn::kNegative)) return a.arg(0);
  return note(Fn::kNegative, a);
}
constexpr Symbol operator+(const Symbol& a, const Symbol& b) {
  if (a.is_constant() && b.is_constant()) return a.constant() + b.constant();
  if (b.is_constant(-0.0)) return a;
  if (a.is_constant(-0.0)) return b;
  return note(Fn::kAdd, a, b);
}
constexpr Symbol operator-(const Symbol& a, const Symbol& b) {
  if (a.is_constant() && b.is_constant()) return a.constant() - b.constant();
  if (b.is_constant(0)) return a;
  return note(Fn::kSubtract, a, b);
}
constexpr Symbol operator*(const Symbol& a, const Symbol& b) {
  if (a.is_constant() && b.is_constant()) return a.constant() * b.constant();
  if (b.is_constant(1)) return a;
  if (a.is_constant(1)) return b;
  if (b.is_constant(-1)) return -a;
  if (a.is_constant(-1)) return -b;
  return note(Fn::kMultiply, a, b);
}
constexpr Symbol operator/(const Symbol& a, const Symbol& b) {
  if (a.is_constant() && b.is_constant() && b.constant() != 0) return a.constant() / b.constant();
  if (b.is_constant(1)) return a;
  if (b.is_constant(-1)) return -a;
  return note(Fn::kDivide, a, b);
}
constexpr Symbol operator+(const Symbol& a) { return a; }
constexpr Symbol& operator+=(Symbol& a, const Symbol& b) { return a = a + b; }
constexpr Symbol& operator-=(Symbol& a, const Symbol& b) { return a = a - b; }
constexpr Symbol& operator*=(Symbol& a, const Symbol& b) { return a = a * b; }
constexpr Symbol& operator/=(Symbol& a, const Symbol& b) { return a = a / b; }

// Bools: constants if both operands are constants, else a node.
#define ETUDE_SYMBOL_TRUTH(op, fn)                                                           \
  constexpr Symbol operator op(const Symbol& a, const Symbol& b) {                           \
    if (a.is_constant() && b.is_constant()) return a.constant() op b.constant() ? 1.0 : 0.0; \
    return note(fn, a, b);                                                                   \
  }
ETUDE_SYMBOL_TRUTH(==, Fn::kEqual)
ETUDE_SYMBOL_TRUTH(!=, Fn::kNotEqual)
ETUDE_SYMBOL_TRUTH(<, Fn::kLess)
ETUDE_SYMBOL_TRUTH(<=, Fn::kLessEqual)
ETUDE_SYMBOL_TRUTH(>, Fn::kGreater)
ETUDE_SYMBOL_TRUTH(>=, Fn::kGreaterEqual)
#undef ETUDE_SYMBOL_TRUTH

// `a` if the condition holds, else `b`; both are evaluated.
constexpr Symbol where(const Symbol& condition, const Symbol& a, const Symbol& b) {
  if (condition.is_constant()) return condition.constant() != 0 ? a : b;
  if (is_same(a, b)) return a;
  return note(Fn::kWhere, condition, a, b);
}

// The product of the chain rule: 0 if one factor is 0, even if the other is infinite or NaN. If a
// factor is a constant, it is finite, and a plain product has the same value.
constexpr Symbol strong_product(const Symbol& a, const Symbol& b) {
  if (a.is_constant(0) || b.is_constant(0)) return 0.0;
  if (a.is_constant() || b.is_constant()) return a * b;
  return note(Fn::kStrongProduct, a, b);
}

// The functions of <cmath>. The other functions are in etude::math.
#define ETUDE_UNARY(fn, f, dx) \
  constexpr Symbol f(const Symbol& x) { return note(Fn::fn, x); }
#define ETUDE_BINARY(fn, f, da, db) \
  constexpr Symbol f(const Symbol& a, const Symbol& b) { return note(Fn::fn, a, b); }
#define ETUDE_ROUNDING(fn, f) ETUDE_UNARY(fn, f, 0)
#include "etude/base/scalars/scalar_functions.inc"

}  // namespace scalar
}  // namespace etude
