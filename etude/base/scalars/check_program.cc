// SPDX-License-Identifier: Apache-2.0
#include "etude/base/scalars/check_program.h"

#include "etude/base/check.h"

namespace etude::scalar {
namespace {

// Whether argument `a` of the function must be a bool.
bool wants_bool(Fn fn, int a) {
  if (fn == Fn::kWhere) return a == 0;
  return fn >= Fn::kLogicalAnd && fn <= Fn::kLogicalNot;
}

void check_leaf(const Program& program, int i, const Node& node) {
  if (node.fn == Fn::kOperand) {
    ETUDE_REQUIRE(node.args[0] < program.operands,
                  "node {} of the program reads operand {}, but it has {} operands", i,
                  node.args[0], program.operands);
  }
  if (node.fn == Fn::kParam) {
    ETUDE_REQUIRE(node.args[0] < program.params,
                  "node {} of the program reads parameter {}, but it has {} parameters", i,
                  node.args[0], program.params);
  }
}

void check_call(const Program& program, int i, const Node& node) {
  const FnInfo& info = scalar::info(node.fn);
  for (int a = 0; a < info.arity; ++a) {
    const int arg = node.args[static_cast<std::size_t>(a)];
    ETUDE_REQUIRE(arg < i, "node {} of the program, '{}', uses node {}, which is not before it", i,
                  info.op, arg);
    const bool want = wants_bool(node.fn, a), is = program.is_bool_node(arg);
    ETUDE_REQUIRE(want == is,
                  "node {} of the program, '{}', needs {} for argument {}, but node {} is {}", i,
                  info.op, want ? "a bool" : "a number", a, arg, is ? "a bool" : "a number");
  }
}

}  // namespace

void check_program(const Program& program, int most) {
  ETUDE_REQUIRE(program.size >= 1 && program.size <= kMaxNodes,
                "the program has {} nodes, but 1 to {} fit. Split it", program.size, kMaxNodes);
  ETUDE_REQUIRE(program.operands >= 0 && program.operands <= most,
                "the program has {} operands, but at most {} fit one pass. Split it",
                program.operands, most);
  for (int i = 0; i < program.size; ++i) {
    const Node& node = program.nodes[static_cast<std::size_t>(i)];
    ETUDE_REQUIRE(static_cast<std::size_t>(node.fn) < std::size(kFnInfo),
                  "node {} of the program has function number {}, but there are {}", i,
                  static_cast<int>(node.fn), std::size(kFnInfo));
    check_leaf(program, i, node);
    check_call(program, i, node);
  }
  const bool is = program.is_bool_node(program.size - 1);
  ETUDE_REQUIRE(program.is_bool == is,
                "the program states that its result is {}, but its last node is {}",
                program.is_bool ? "a bool" : "a number", is ? "a bool" : "a number");
}

}  // namespace etude::scalar
