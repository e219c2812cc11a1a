// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/check_program.h"

#include <bit>
#include <cstring>

#include "etude/base/check.h"
#include "etude/kernels/cpu/elementwise.h"

namespace etude::codegen {
namespace {

using scalar::Fn;
using scalar::Node;
using scalar::Program;

// Whether argument `a` of the function has to be a truth.
bool wants_truth(Fn fn, int a) {
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
  const scalar::FnInfo& info = scalar::info(node.fn);
  // Functions of bits are for integers, and some of <cmath> have no op.
  ETUDE_REQUIRE_CODE(kUnimplemented, info.on_tensors && !info.op.starts_with("bitwise_"),
                     "node {} of the program calls '{}', which has no kernel for float32", i,
                     info.op);
  for (int a = 0; a < info.arity; ++a) {
    const int arg = node.args[static_cast<std::size_t>(a)];
    ETUDE_REQUIRE(arg < i, "node {} of the program, '{}', uses node {}, which is not before it", i,
                  info.op, arg);
    const bool want = wants_truth(node.fn, a), is = program.is_truth_node(arg);
    ETUDE_REQUIRE(want == is,
                  "node {} of the program, '{}', needs {} for argument {}, but node {} is {}", i,
                  info.op, want ? "a truth" : "a number", a, arg, is ? "a truth" : "a number");
  }
}

}  // namespace

void check_program(const Program& program) {
  ETUDE_REQUIRE(program.size >= 1 && program.size <= scalar::kMaxNodes,
                "the program has {} nodes, but 1 to {} can be compiled. Split it", program.size,
                scalar::kMaxNodes);
  const int most = static_cast<int>(kernels::cpu::kMaxOperands);
  ETUDE_REQUIRE(program.operands >= 0 && program.operands <= most,
                "the program has {} operands, but at most {} fit one pass. Split it",
                program.operands, most);
  for (int i = 0; i < program.size; ++i) {
    const Node& node = program.nodes[static_cast<std::size_t>(i)];
    ETUDE_REQUIRE(static_cast<std::size_t>(node.fn) < std::size(scalar::kFnInfo),
                  "node {} of the program has function number {}, but there are {}", i,
                  static_cast<int>(node.fn), std::size(scalar::kFnInfo));
    check_leaf(program, i, node);
    check_call(program, i, node);
  }
  const bool is = program.is_truth_node(program.size - 1);
  ETUDE_REQUIRE(program.is_truth == is,
                "the program says that its result is {}, but its last node is {}",
                program.is_truth ? "a truth" : "a number", is ? "a truth" : "a number");
}

void check_options(const CompileOptions& options) {
  ETUDE_REQUIRE(options.isa >= internal::Isa::kPortable && options.isa <= internal::best_isa(),
                "code for {} was asked for, but this machine, or ETUDE_ISA, allows {} at most",
                options.isa > internal::Isa::kAvx512 ? "an unknown instruction set"
                                                     : internal::name(options.isa),
                internal::name(internal::best_isa()));
  ETUDE_REQUIRE(options.tier == Tier::kFast || options.tier == Tier::kBest,
                "tier {} was asked for, but there are 1 and 2", static_cast<int>(options.tier));
  ETUDE_REQUIRE(options.layout == Layout::kDense || options.layout == Layout::kStrided,
                "layout {} was asked for, but there are 0, dense, and 1, strided",
                static_cast<int>(options.layout));
}

std::string key_of(const Program& program, const CompileOptions& options) {
  std::string key;
  const auto add = [&key](const auto& value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    key.append(bytes, sizeof value);
  };
  add(options.tier);
  add(options.layout);
  add(options.isa);
  add(program.size);
  add(program.truths & ((1u << program.operands) - 1));
  for (int i = 0; i < program.size; ++i) {
    const Node& node = program.nodes[static_cast<std::size_t>(i)];
    add(node.fn);
    const int arity = scalar::info(node.fn).arity;
    const bool is_numbered = node.fn == Fn::kOperand || node.fn == Fn::kParam;
    for (int a = 0; a < (is_numbered ? 1 : arity); ++a) add(node.args[static_cast<std::size_t>(a)]);
    if (node.fn == Fn::kConstant) add(std::bit_cast<uint64_t>(node.constant));
  }
  return key;
}

}  // namespace etude::codegen
