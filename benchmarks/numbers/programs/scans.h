// SPDX-License-Identifier: Apache-2.0
// Loops by scan, whose bodies a compiler knows: one with a sine, one of products and sums alone.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "etude/diff/scan.h"

namespace etude::bench::numbers {

// s += h p sin(s)
struct SineBody {
  static constexpr double kStep = 1e-6;
  template <class S, class P>
  constexpr auto operator()(const S& s, const P& p) const {
    using std::sin;
    return s + kStep * sin(s) * p;
  }
  // Cotangents of s after a step to before it, and of p, which are added.
  static void back(double s, double p, double& ct, double& of_p) {
    of_p += ct * kStep * std::sin(s);
    ct += ct * kStep * p * std::cos(s);
  }
};
// s += h (p - s^2 / 10)
struct PolynomialBody {
  static constexpr double kStep = 1e-6;
  template <class S, class P>
  constexpr auto operator()(const S& s, const P& p) const {
    return s + kStep * (p - s * s * 0.1);
  }
  static void back(double s, double, double& ct, double& of_p) {
    of_p += ct * kStep;
    ct -= ct * kStep * 0.2 * s;
  }
};

template <class Body, std::size_t steps>
struct ScanLoop {
  // Five numbers, two of them used. More than four select reverse mode.
  static std::vector<double> make(std::size_t) { return {0.3, 0.9, 0, 0, 0}; }
  template <class T>
  T operator()(const std::vector<T>& x) const {
    return scan(steps, x[0], x[1], Body());
  }
  static std::vector<double> hand(const std::vector<double>& x) {
    std::vector<double> states(steps + 1);
    states[0] = x[0];
    for (std::size_t i = 0; i < steps; ++i) states[i + 1] = Body()(states[i], x[1]);
    double ct = 1, of_p = 0;
    for (std::size_t i = steps; i-- > 0;) Body::back(states[i], x[1], ct, of_p);
    return {ct, of_p, 0, 0, 0};
  }
};

}  // namespace etude::bench::numbers
