// SPDX-License-Identifier: Apache-2.0
// Generated programs: wrappers around each other, and expressions on vectors between them. The
// walkers here run on any type of vector, so that the library and the reference read the same
// program.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace pairs {

// A tree of calls on the parameters that are in sight.
struct Expression {
  enum class Kind : uint8_t { kParameter, kSin, kExp, kAdd, kSubtract, kMultiply, kTimesNumber };
  Kind kind = Kind::kParameter;
  std::size_t parameter = 0;
  double number = 0;
  std::vector<Expression> of;
};

// Wrapper `feature` runs the inner levels on `argument`.
struct Level {
  std::size_t feature;
  Expression argument;
};

// level 0 ( level 1 ( ... body )); parameter 0 is the argument x of the program, and each level
// adds one.
struct Program {
  std::vector<Level> levels;
  Expression body;
};

// The program with that number: all ordered pairs of features first, then pairs and triples by
// chance.
Program make_program(uint64_t seed, uint64_t number, std::size_t features);
// As C++-like text. `names[i]` is a feature.
std::string to_text(const Program& program, const std::vector<std::string>& names);

template <class V>
V evaluate(const Expression& e, const std::vector<V>& parameters) {
  using Kind = Expression::Kind;
  const auto part = [&](std::size_t i) { return evaluate(e.of[i], parameters); };
  switch (e.kind) {
    case Kind::kSin:
      return sin(part(0));
    case Kind::kExp:
      return exp(sin(part(0)));
    case Kind::kAdd:
      return part(0) + part(1);
    case Kind::kSubtract:
      return part(0) - part(1);
    case Kind::kMultiply:
      return part(0) * part(1);
    case Kind::kTimesNumber:
      return part(0) * e.number;
    default:
      return parameters[e.parameter];
  }
}

// `wrap(feature, inside, argument)` runs a wrapper; inside is a function of a vector.
template <class V, class Wrap>
V run_from(const Program& program, std::size_t level, const std::vector<V>& parameters,
           const Wrap& wrap) {
  if (level == program.levels.size()) return evaluate(program.body, parameters);
  const Level& at = program.levels[level];
  // By value: a pullback may run it again after this call.
  const std::function<V(const V&)> inside = [&program, level, parameters, wrap](const V& q) {
    std::vector<V> more = parameters;
    more.push_back(q);
    return run_from(program, level + 1, more, wrap);
  };
  return wrap(at.feature, inside, evaluate(at.argument, parameters));
}

}  // namespace pairs
