// SPDX-License-Identifier: Apache-2.0
#include "tests/pairs/program.h"

#include <cstdio>
#include <utility>

namespace pairs {
namespace {

using Kind = Expression::Kind;

class Maker {
 public:
  explicit Maker(uint64_t seed) : bits_(seed) {}

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(bits_() % n); }

  // The newest parameter is always read, and each of the others in half of the trees.
  Expression body(std::size_t parameters) {
    Expression out = curved(parameter(parameters - 1));
    for (std::size_t i = 0; i + 1 < parameters; ++i) {
      if (below(2) == 0) continue;
      Expression pair{below(3) == 0 ? Kind::kAdd : Kind::kMultiply, 0, 0, {}};
      pair.of = {std::move(out), parameter(i)};
      out = std::move(pair);
    }
    return curved(std::move(out));
  }
  Expression argument(std::size_t parameters) {
    if (below(3) == 0) return parameter(parameters - 1);
    return curved(body(parameters));
  }

 private:
  static Expression parameter(std::size_t i) { return {Kind::kParameter, i, 0, {}}; }
  Expression curved(Expression e) {
    Expression out;
    const std::size_t which = below(5);
    if (which == 0) {
      out = {Kind::kMultiply, 0, 0, {e, std::move(e)}};
      return {Kind::kSin, 0, 0, {std::move(out)}};
    }
    if (which == 1) return {Kind::kExp, 0, 0, {std::move(e)}};
    if (which == 2)
      return {Kind::kTimesNumber, 0, 0.25 * static_cast<double>(1 + below(5)), {std::move(e)}};
    return {Kind::kSin, 0, 0, {std::move(e)}};
  }

  std::mt19937_64 bits_;
};

std::string letter(std::size_t i) { return std::string(1, "xpqrs"[i]); }

std::string to_text(const Expression& e) {
  const auto of = [&](std::size_t i) { return to_text(e.of[i]); };
  switch (e.kind) {
    case Kind::kSin:
      return "sin(" + of(0) + ")";
    case Kind::kExp:
      return "exp(sin(" + of(0) + "))";
    case Kind::kAdd:
      return "(" + of(0) + " + " + of(1) + ")";
    case Kind::kSubtract:
      return "(" + of(0) + " - " + of(1) + ")";
    case Kind::kMultiply:
      return of(0) + " * " + of(1);
    case Kind::kTimesNumber: {
      char number[16];
      std::snprintf(number, sizeof number, "%g", e.number);
      return of(0) + " * " + number;
    }
    default:
      return letter(e.parameter);
  }
}

}  // namespace

Program make_program(uint64_t seed, uint64_t number, std::size_t features) {
  Maker maker(seed * 1000003 + number);
  Program out;
  const uint64_t pairs = features * features;
  std::vector<std::size_t> chosen;
  if (number < pairs || number % 2 == 0) {
    const uint64_t pair = number < pairs ? number : maker.below(pairs);
    chosen = {pair / features, pair % features};
  } else {
    chosen = {maker.below(features), maker.below(features), maker.below(features)};
  }
  for (const std::size_t feature : chosen) {
    out.levels.push_back({feature, maker.argument(out.levels.size() + 1)});
  }
  out.body = maker.body(out.levels.size() + 1);
  return out;
}

std::string to_text(const Program& program, const std::vector<std::string>& names) {
  std::string out = to_text(program.body);
  for (std::size_t i = program.levels.size(); i-- > 0;) {
    const Level& at = program.levels[i];
    out = names[at.feature] + "([&](" + letter(i + 1) + ") { return " + out + "; }, " +
          to_text(at.argument) + ")";
  }
  return out;
}

}  // namespace pairs
