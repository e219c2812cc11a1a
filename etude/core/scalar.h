// SPDX-License-Identifier: Apache-2.0
// Scalar programs: what an element-wise op computes per element, as a constexpr graph in a flat
// array. A generic lambda runs once, at compile time, on symbols (Sym); equal sub-expressions are
// one node. SIMD kernels, the double reference, printing and code generation all walk the array.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace scalar {

enum class Fn : uint8_t {
  kOperand,   // args[0]: number of the operand
  kParam,     // args[0]: number of the numeric attribute
  kConstant,  // the value
#define ETUDE_SCALAR_FN(enumerator, op, arity, result) enumerator,
#include "etude/core/scalar_fns.inc"
#undef ETUDE_SCALAR_FN
};

struct FnInfo {
  std::string_view op;
  int arity;
  bool is_truth;  // the result is true or false, whatever the dtype of the operands
};
constexpr FnInfo info(Fn fn) {
  constexpr bool value = false, truth = true;
  constexpr FnInfo kInfo[] = {
      {"operand", 0, value},
      {"param", 0, value},
      {"constant", 0, value},
#define ETUDE_SCALAR_FN(enumerator, op, arity, result) {op, arity, result},
#include "etude/core/scalar_fns.inc"
#undef ETUDE_SCALAR_FN
  };
  return kInfo[static_cast<int>(fn)];
}

struct Node {
  Fn fn = Fn::kConstant;
  std::array<uint8_t, 3> args{};
  double constant = 0;
  friend constexpr bool operator==(const Node&, const Node&) = default;
};

inline constexpr int kMaxNodes = 64;

// Nodes in an order in which operands come first; the last one is the result.
struct Program {
  std::array<Node, kMaxNodes> nodes{};
  int size = 0;
  int operands = 0;  // operand nodes are numbered below this
  int params = 0;
  uint32_t truths = 0;               // bit i: operand i is bool
  bool is_truth = false;             // the result is bool
  std::array<uint8_t, 8> sources{};  // operand i of this program is value sources[i] of its maker

  constexpr bool is_truth_node(int i) const {
    const Node& node = nodes[static_cast<std::size_t>(i)];
    if (node.fn == Fn::kOperand) return (truths >> node.args[0]) & 1;
    return info(node.fn).is_truth;
  }
};

// "select(x0 > 0, x0, 0.2 * x0)" in calls: "where(greater(x0, 0), x0, multiply(p0, x0))".
std::string to_string(const Program& program);

// Appends nodes; a node that is there already is used again.
class Builder {
 public:
  constexpr uint8_t add(const Node& node) {
    for (int i = 0; i < program.size; ++i) {
      if (program.nodes[static_cast<std::size_t>(i)] == node) return static_cast<uint8_t>(i);
    }
    program.nodes[static_cast<std::size_t>(program.size)] = node;  // out of range: not constexpr
    return static_cast<uint8_t>(program.size++);
  }
  Program program;
};

// A value in a scalar lambda: use operators and the functions of etude::math. Compile time only.
struct Sym {
  Builder* builder;
  uint8_t node;
};

constexpr Sym lift(Sym like, double value) {
  return {like.builder, like.builder->add({Fn::kConstant, {}, value})};
}
constexpr Sym lift(Sym, Sym value) { return value; }

constexpr bool is_constant(Sym s, double value) {
  const Node& node = s.builder->program.nodes[s.node];
  return node.fn == Fn::kConstant && node.constant == value;
}

template <class... S>
constexpr Sym call(Fn fn, Sym first, S... rest) {
  return {first.builder, first.builder->add({fn, {first.node, rest.node...}, 0})};
}

#define ETUDE_SCALAR_OPERATOR(op, fn)                                            \
  constexpr Sym operator op(Sym a, Sym b) { return call(fn, a, b); }             \
  constexpr Sym operator op(Sym a, double b) { return call(fn, a, lift(a, b)); } \
  constexpr Sym operator op(double a, Sym b) { return call(fn, lift(b, a), b); }
ETUDE_SCALAR_OPERATOR(+, Fn::kAdd)
ETUDE_SCALAR_OPERATOR(-, Fn::kSubtract)
ETUDE_SCALAR_OPERATOR(*, Fn::kMultiply)
ETUDE_SCALAR_OPERATOR(/, Fn::kDivide)
ETUDE_SCALAR_OPERATOR(==, Fn::kEqual)
ETUDE_SCALAR_OPERATOR(!=, Fn::kNotEqual)
ETUDE_SCALAR_OPERATOR(<, Fn::kLess)
ETUDE_SCALAR_OPERATOR(<=, Fn::kLessEqual)
ETUDE_SCALAR_OPERATOR(>, Fn::kGreater)
ETUDE_SCALAR_OPERATOR(>=, Fn::kGreaterEqual)
#undef ETUDE_SCALAR_OPERATOR
constexpr Sym operator-(Sym a) { return call(Fn::kNegative, a); }

// Operands of where's condition and of the logical functions are bool.
constexpr void mark_truths(Program& program, const Node& node) {
  const bool logical = node.fn >= Fn::kLogicalAnd && node.fn <= Fn::kLogicalNot;
  const int truths = node.fn == Fn::kWhere ? 1 : logical ? info(node.fn).arity : 0;
  for (int a = 0; a < truths; ++a) {
    const Node& arg = program.nodes[node.args[static_cast<std::size_t>(a)]];
    if (arg.fn == Fn::kOperand) program.truths |= 1u << arg.args[0];
  }
}

// Keeps what `result` needs, numbers the operands that are left from zero, and makes the result
// the last node.
constexpr Program finish(const Program& raw, int result, int operands, int params,
                         bool keep_all = true) {
  std::array<bool, kMaxNodes> used{};
  used[static_cast<std::size_t>(result)] = true;
  for (int i = raw.size - 1; i >= 0; --i) {
    const Node& node = raw.nodes[static_cast<std::size_t>(i)];
    if (!used[static_cast<std::size_t>(i)]) continue;
    for (int a = 0; a < info(node.fn).arity; ++a)
      used[node.args[static_cast<std::size_t>(a)]] = true;
  }
  Program out;
  out.params = params;
  std::array<uint8_t, kMaxNodes> place{};
  std::array<int, 16> number{};
  number.fill(-1);
  if (keep_all) {
    for (int i = 0; i < operands; ++i) {
      number[static_cast<std::size_t>(i)] = out.operands;
      out.sources[static_cast<std::size_t>(out.operands++)] = static_cast<uint8_t>(i);
    }
  }
  for (int i = 0; i <= result; ++i) {
    if (!used[static_cast<std::size_t>(i)]) continue;
    Node node = raw.nodes[static_cast<std::size_t>(i)];
    if (node.fn == Fn::kOperand) {
      int& n = number[node.args[0]];
      if (n < 0) {
        n = out.operands;
        out.sources[static_cast<std::size_t>(out.operands++)] = node.args[0];
      }
      node.args[0] = static_cast<uint8_t>(n);
    }
    for (int a = 0; a < info(node.fn).arity; ++a) {
      uint8_t& arg = node.args[static_cast<std::size_t>(a)];
      arg = place[arg];
    }
    place[static_cast<std::size_t>(i)] = static_cast<uint8_t>(out.size);
    out.nodes[static_cast<std::size_t>(out.size++)] = node;
  }
  for (int i = 0; i < out.size; ++i) mark_truths(out, out.nodes[static_cast<std::size_t>(i)]);
  out.is_truth = out.is_truth_node(out.size - 1);
  return out;
}

// The program of a lambda on `kOperands` operands and `kParams` numeric attributes.
template <class F, int kOperands, int kParams>
constexpr Program build() {
  Builder builder;
  Sym args[kOperands + kParams + 1]{};
  for (int i = 0; i < kOperands; ++i) {
    args[i] = {&builder, builder.add({Fn::kOperand, {static_cast<uint8_t>(i)}, 0})};
  }
  for (int i = 0; i < kParams; ++i) {
    args[kOperands + i] = {&builder, builder.add({Fn::kParam, {static_cast<uint8_t>(i)}, 0})};
  }
  const auto run = [&]<std::size_t... I>(std::index_sequence<I...>) { return F{}(args[I]...); };
  const Sym result = run(std::make_index_sequence<kOperands + kParams>{});
  return finish(builder.program, lift(args[0], result).node, kOperands, kParams);
}

}  // namespace scalar
}  // namespace etude
