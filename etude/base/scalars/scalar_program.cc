// SPDX-License-Identifier: Apache-2.0
#include "etude/base/scalars/scalar_program.h"

#include <array>
#include <string>

#include <fmt/format.h>

namespace etude::scalar {
namespace {

// Nodes that are used more than once get a name, so that the text is linear in the program.
class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {
    for (int i = 0; i < program.size; ++i) {
      for (int a = 0; a < info(node(i).fn).arity; ++a) ++uses_[arg(i, a)];
    }
  }

  std::string print() {
    std::string text;
    for (int i = 0; i + 1 < program_.size; ++i) {
      if (info(node(i).fn).arity == 0 || uses_[static_cast<std::size_t>(i)] < 2) continue;
      const std::string name = fmt::format("v{}", ++names_count_);
      text += fmt::format("{} = {}; ", name, expression(i));
      names_[static_cast<std::size_t>(i)] = name;
    }
    return text + expression(program_.size - 1);
  }

 private:
  const Node& node(int i) const { return program_.nodes[static_cast<std::size_t>(i)]; }
  std::size_t arg(int i, int a) const { return node(i).args[static_cast<std::size_t>(a)]; }

  std::string expression(int i) const {
    if (!names_[static_cast<std::size_t>(i)].empty()) return names_[static_cast<std::size_t>(i)];
    switch (node(i).fn) {
      case Fn::kOperand:
        return fmt::format("x{}", node(i).args[0] + 1);
      case Fn::kParam:
        return fmt::format("p{}", node(i).args[0] + 1);
      case Fn::kConstant:
        return fmt::format("{}", node(i).constant);
      default:
        break;
    }
    std::string text = std::string(info(node(i).fn).op) + "(";
    for (int a = 0; a < info(node(i).fn).arity; ++a) {
      if (a > 0) text += ", ";
      text += expression(static_cast<int>(arg(i, a)));
    }
    return text + ")";
  }

  const Program& program_;
  std::array<int, kMaxNodes> uses_{};
  std::array<std::string, kMaxNodes> names_;
  int names_count_ = 0;
};

}  // namespace

std::string to_string(const Program& program) { return Printer(program).print(); }

}  // namespace etude::scalar
