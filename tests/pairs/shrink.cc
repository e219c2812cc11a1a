// SPDX-License-Identifier: Apache-2.0
#include "tests/pairs/shrink.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/pairs/runner.h"

namespace pairs {
namespace {

// Reads the parameter outside of `gone` in its place, and lowers the numbers above.
void drop_parameter(Expression& e, std::size_t gone) {
  if (e.kind == Expression::Kind::kParameter && e.parameter >= gone) --e.parameter;
  for (Expression& part : e.of) drop_parameter(part, gone);
}

// The trees with one call less: a part in the place of the whole.
std::vector<Expression> smaller(const Expression& e) {
  std::vector<Expression> out = e.of;
  for (std::size_t i = 0; i < e.of.size(); ++i) {
    for (const Expression& part : smaller(e.of[i])) {
      out.push_back(e);
      out.back().of[i] = part;
    }
  }
  return out;
}

std::vector<Program> smaller(const Program& program) {
  std::vector<Program> out;
  for (std::size_t i = 0; i < program.levels.size(); ++i) {
    Program less = program;
    less.levels.erase(less.levels.begin() + static_cast<std::ptrdiff_t>(i));
    for (std::size_t j = i; j < less.levels.size(); ++j)
      drop_parameter(less.levels[j].argument, i + 1);
    drop_parameter(less.body, i + 1);
    out.push_back(less);
  }
  for (std::size_t i = 0; i < program.levels.size(); ++i) {
    for (const Expression& argument : smaller(program.levels[i].argument)) {
      out.push_back(program);
      out.back().levels[i].argument = argument;
    }
  }
  for (const Expression& body : smaller(program.body)) {
    out.push_back(program);
    out.back().body = body;
  }
  return out;
}

}  // namespace

Program shrunk(Program program, const std::string& kind) {
  for (bool again = true; again;) {
    again = false;
    for (const Program& less : smaller(program)) {
      const std::vector<Wrong> wrong = run_forked({less}, 1)[0].wrong;
      if (std::none_of(wrong.begin(), wrong.end(), [&](const Wrong& w) { return w.kind == kind; }))
        continue;
      program = less;
      again = true;
      break;
    }
  }
  return program;
}

}  // namespace pairs
