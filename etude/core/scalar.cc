// SPDX-License-Identifier: Apache-2.0
#include "etude/core/scalar.h"

#include <fmt/format.h>

namespace etude::scalar {
namespace {

std::string print(const Program& program, int i) {
  const Node& node = program.nodes[static_cast<std::size_t>(i)];
  switch (node.fn) {
    case Fn::kOperand:
      return fmt::format("x{}", node.args[0] + 1);
    case Fn::kParam:
      return fmt::format("p{}", node.args[0] + 1);
    case Fn::kConstant:
      return fmt::format("{}", node.constant);
    default:
      break;
  }
  std::string text = std::string(info(node.fn).op) + "(";
  for (int a = 0; a < info(node.fn).arity; ++a) {
    if (a > 0) text += ", ";
    text += print(program, node.args[static_cast<std::size_t>(a)]);
  }
  return text + ")";
}

}  // namespace

std::string to_string(const Program& program) { return print(program, program.size - 1); }

}  // namespace etude::scalar
