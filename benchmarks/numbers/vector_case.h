// SPDX-License-Identifier: Apache-2.0
// The case of a program that is a function of one vector of numbers: a struct with `parameters`,
// operator() for every scalar, and hand().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/numbers/adolc.h"
#include "benchmarks/numbers/harness.h"
#include "etude/diff/scalar_operators.h"

namespace etude::bench::numbers {

template <class Program>
Case vector_case(const std::string& name, double aim) {
  const auto program = std::make_shared<const Program>();
  const auto f = [program](const auto& x) { return (*program)(x); };
  Case out;
  out.name = name;
  out.aim = aim;
  out.parameters = program->parameters;
  out.primal = contender([=] { return f(program->parameters); });
  out.gradient = contender([=] { return etude::gradient(f, program->parameters); });
  out.hand = contender([=] { return program->hand(); });
  out.value_at = [=](const std::vector<double>& x) { return f(x); };
  add_adolc(out, f);
  return out;
}

}  // namespace etude::bench::numbers
