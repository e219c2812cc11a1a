// SPDX-License-Identifier: Apache-2.0
// The results of a program by definition: values, gradients with respect to all sources, and second
// derivatives, on numbers with derivatives (number.h). It includes nothing of the library.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/pairs/number.h"

namespace pairs {

// The sources that programs read; a gradient is taken with respect to each.
enum Source : uint8_t { kArgument, kCaptured, kVariable, kFieldA, kFieldB, kSources };
inline constexpr const char* kSourceNames[] = {"x", "w", "v", "s.a", "s.b"};
using Point = std::array<std::array<double, kLength>, kSources>;

// Along which x moves for the second derivative, and the weights of the sum that is the result.
inline constexpr std::array<double, kLength> kDirection = {0.5, -1.0, 0.75};
inline constexpr std::array<double, kLength> kWeights = {1.0, 0.5, -0.75};

// The world of a run on numbers: sources, and generators that are not in use.
class JudgeRun {
 public:
  using V = Numbers;
  using Map = std::function<Numbers(const Numbers&)>;
  std::array<Numbers, kSources> sources;
  std::size_t generators = 0;
  const char* left = nullptr;  // a type whose range a number left that a program stores in it

  // The program stores x in that type. This run goes on with all digits.
  void stores(const Numbers& x, const FloatFormat& type) {
    const auto fits = [&](long double part) { return std::isfinite(rounded(part, type)); };
    for (const Number& n : x.at) {
      if (!n.all_of(fits)) left = type.name;
    }
  }
  // The program takes the sine of x, rounded to that type. Where a step of the type is a sixteenth
  // or more, rounding alone decides the sine.
  void takes_sine(const Numbers& x, const FloatFormat& type) {
    const long double limit = std::ldexp(1.0L, type.fraction - 4);
    for (const Number& n : x.at) {
      if (std::abs(n.value()) >= limit) left = type.name;
    }
  }

  // The derivative of f at x along `direction`.
  Numbers slope(const Map& f, const Numbers& x, const Numbers& direction) {
    const std::size_t k = generators++;
    const Numbers e = Numbers::made([&](std::size_t) { return Number::along(k, 0); });
    const Numbers y = f(x + e * direction);
    --generators;
    return Numbers::made([&](std::size_t i) { return y.at[i].upper(k); });
  }
  // The gradient of sum(f) at x.
  Numbers gradient(const Map& f, const Numbers& x) {
    return Numbers::made([&](std::size_t i) {
      Numbers unit;
      unit.at[i] = Number(1);
      return sum(slope(f, x, unit));
    });
  }
};

// Results in one layout for both sides: the value; for each source the gradient; the second
// derivative by x along kDirection.
struct Results {
  std::vector<double> value, gradient, second;
  const char* left = nullptr;  // JudgeRun::left of any run: the type cannot hold these
};

// The results of `program`, a function of a JudgeRun and x, at a point.
template <class P>
Results judge(const P& program, const Point& point) {
  Numbers weights;
  for (std::size_t i = 0; i < kLength; ++i) weights.at[i] = Number(kWeights[i]);
  Results out;
  const auto result = [&](std::size_t source, std::size_t element, bool second) {
    JudgeRun run;
    run.generators = second ? 2 : 1;
    for (std::size_t s = 0; s < kSources; ++s) {
      for (std::size_t i = 0; i < kLength; ++i) {
        const bool moves = s == source && i == element;
        Number& at = run.sources[s].at[i] =
            moves ? Number::along(0, point[s][i]) : Number(point[s][i]);
        if (second && s == kArgument) at = at + Number::along(1, 0) * Number(kDirection[i]);
      }
    }
    const Number y = sum(program(run, run.sources[kArgument]) * weights);
    if (run.left != nullptr) out.left = run.left;
    return y;
  };
  for (std::size_t s = 0; s < kSources; ++s) {
    for (std::size_t i = 0; i < kLength; ++i) {
      const Number y = result(s, i, false);
      if (out.value.empty()) out.value = {static_cast<double>(y.value())};
      out.gradient.push_back(static_cast<double>(y.part(1)));
    }
  }
  for (std::size_t i = 0; i < kLength; ++i) {
    out.second.push_back(static_cast<double>(result(kArgument, i, true).part(3)));
  }
  return out;
}

}  // namespace pairs
