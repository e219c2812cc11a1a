// SPDX-License-Identifier: Apache-2.0
// Scalar programs: finished expressions (expression.h) with numbered operands. They define
// element-wise ops, their derivatives (differentiate.h), and schedules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "etude/base/scalars/expression.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace scalar {

inline constexpr int kMaxNodes = 64;
// The maximum number of nodes during construction.
inline constexpr int kMaxRawNodes = 256;

// Nodes in topological order: operands come first, the last node is the result.
struct Program {
  std::array<Node, kMaxNodes> nodes{};
  int size = 0;
  int operands = 0;  // operand indices are below this
  int params = 0;
  uint32_t bools = 0;    // bit i: operand i is bool
  bool is_bool = false;  // the result is bool
  // Operand i was operand sources[i] before finish() renumbered the operands.
  std::array<uint8_t, 8> sources{};

  constexpr bool is_bool_node(int i) const {
    const Node& node = nodes[static_cast<std::size_t>(i)];
    if (node.fn == Fn::kOperand) return (bools >> node.args[0]) & 1;
    return info(node.fn).is_bool;
  }
};

// The program as nested calls. p1 is the first numeric attribute: where(x1 > 0, x1, p1 * x1) is
// printed as "where(greater(x1, 0), x1, multiply(p1, x1))".
std::string to_string(const Program& program);

// The node of operand i, or of numeric attribute i.
constexpr Symbol operand(Builder& builder, int i) {
  return {&builder, builder.add({Fn::kOperand, {static_cast<uint16_t>(i)}, 0})};
}
constexpr Symbol param(Builder& builder, int i) {
  return {&builder, builder.add({Fn::kParam, {static_cast<uint16_t>(i)}, 0})};
}

// Operands of where's condition and of the logical functions are bool.
constexpr void mark_bools(Program& program, const Node& node) {
  const bool logical = node.fn >= Fn::kLogicalAnd && node.fn <= Fn::kLogicalNot;
  const int bools = node.fn == Fn::kWhere ? 1 : logical ? info(node.fn).arity : 0;
  for (int a = 0; a < bools; ++a) {
    const Node& arg = program.nodes[node.args[static_cast<std::size_t>(a)]];
    if (arg.fn == Fn::kOperand) program.bools |= 1u << arg.args[0];
  }
}

// The nodes that `result` is computed from, including itself.
constexpr std::array<bool, kMaxRawNodes> nodes_of(const Builder& raw, std::size_t result) {
  std::array<bool, kMaxRawNodes> used{};
  used[result] = true;
  for (std::size_t i = result + 1; i-- > 0;) {
    if (!used[i]) continue;
    const int arity = info(raw[i].fn).arity;
    for (int a = 0; a < arity; ++a) used[raw[i].args[static_cast<std::size_t>(a)]] = true;
  }
  return used;
}

// Returns the program that computes `result`: only the nodes that it needs, with `result` as the
// last node. If `keep_all` is true, all operands keep their numbers. Otherwise the operands in use
// are renumbered from zero.
constexpr Program finish(const Builder& raw, std::size_t result, int operands, int params,
                         bool keep_all) {
  const std::array<bool, kMaxRawNodes> used = nodes_of(raw, result);
  Program out;
  out.params = params;
  std::array<uint16_t, kMaxRawNodes> place{};
  std::array<int, 8> number{-1, -1, -1, -1, -1, -1, -1, -1};
  const auto number_operand = [&](std::size_t i) {
    if (number[i] < 0) {
      number[i] = out.operands;
      out.sources[static_cast<std::size_t>(out.operands++)] = static_cast<uint8_t>(i);
    }
    return static_cast<uint16_t>(number[i]);
  };
  for (int i = 0; keep_all && i < operands; ++i) number_operand(static_cast<std::size_t>(i));
  for (std::size_t i = 0; i <= result; ++i) {
    if (!used[i]) continue;
    Node node = raw[i];
    if (node.fn == Fn::kOperand) node.args[0] = number_operand(node.args[0]);
    const int arity = info(node.fn).arity;
    for (int a = 0; a < arity; ++a) {
      uint16_t& arg = node.args[static_cast<std::size_t>(a)];
      arg = place[arg];
    }
    place[i] = static_cast<uint16_t>(out.size);
    out.nodes[static_cast<std::size_t>(out.size++)] = node;  // out of range: not constexpr
  }
  for (int i = 0; i < out.size; ++i) mark_bools(out, out.nodes[static_cast<std::size_t>(i)]);
  out.is_bool = out.is_bool_node(out.size - 1);
  return out;
}

// The program of a lambda on `kOperands` operands and `kParams` numeric attributes.
template <class F, int kOperands, int kParams>
constexpr Program build() {
  std::array<Node, kMaxRawNodes> nodes;
  Builder builder(nodes.data(), nodes.size());
  Symbol args[kOperands + kParams + 1];
  for (int i = 0; i < kOperands; ++i) args[i] = operand(builder, i);
  for (int i = 0; i < kParams; ++i) args[kOperands + i] = param(builder, i);
  const auto run = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return Symbol(F{}(args[I]...));
  };
  const Symbol result = run(std::make_index_sequence<kOperands + kParams>{});
  return finish(builder, result.node_in(builder), kOperands, kParams, true);
}

// Whether all functions of the program have an op and kernels. Some functions exist for host
// numbers only.
constexpr bool runs_on_tensors(const Program& program) {
  for (int i = 0; i < program.size; ++i) {
    if (!info(program.nodes[static_cast<std::size_t>(i)].fn).on_tensors) return false;
  }
  return true;
}

}  // namespace scalar
}  // namespace etude
