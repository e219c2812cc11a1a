// SPDX-License-Identifier: Apache-2.0
// The functions in the formulas of optimiser updates, here on numbers;
// ops/network/optimizer_updates.cc has them on tensors. And the number of rates of an update.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

namespace etude::optimizer {

inline float square_root(float x) { return std::sqrt(x); }
inline double square_root(double x) { return std::sqrt(x); }
inline float larger(float a, float b) { return a > b || a != a ? a : b; }  // NaN is kept
inline double larger(double a, double b) { return a > b || a != a ? a : b; }
inline float smaller(float a, float b) { return a < b || a != a ? a : b; }
inline double smaller(double a, double b) { return a < b || a != a ? a : b; }
inline float sign_of(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; }  // NaN is kept
inline double sign_of(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }

// The number of rates of an update. Those that a rule does not set are 0.
constexpr std::size_t kRates = 10;

// Names of states that only some variants have.
template <bool first, bool last, std::size_t n>
constexpr auto some(const std::array<const char*, n>& all) {
  std::array<const char*, n - (first ? 0 : 1) - (last ? 0 : 1)> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = all[i + (first ? 0 : 1)];
  return out;
}

}  // namespace etude::optimizer
