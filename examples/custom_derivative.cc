// SPDX-License-Identifier: Apache-2.0
// Defines a derivative for an existing function: the root of an equation, found by iteration. By
// the implicit function theorem its slope needs no derivative of the iterations.
#include <cmath>
#include <cstdio>
#include <utility>

#include "etude/diff.h"

using namespace etude;

// Kepler's equation: the eccentric anomaly E of an orbit, for which E - e sin(E) = M.
double eccentric_anomaly(double mean_anomaly, double eccentricity) {
  double at = mean_anomaly;
  for (int i = 0; i < 50; ++i) {
    at -= (at - eccentricity * std::sin(at) - mean_anomaly) / (1 - eccentricity * std::cos(at));
  }
  return at;
}

template <>
struct etude::derivative_of<&eccentric_anomaly> {
  static auto vjp(double mean_anomaly, double eccentricity) {
    const double at = eccentric_anomaly(mean_anomaly, eccentricity);
    return std::pair{at, [=](double dy, double& d_mean, double& d_eccentricity) {
                       const double slope = dy / (1 - eccentricity * std::cos(at));
                       d_mean += slope;
                       d_eccentricity += slope * std::sin(at);
                     }};
  }
};

int main() {
  const auto [value, slopes] = value_with_gradient<&eccentric_anomaly>(1.0, 0.3);
  const auto [by_mean, by_eccentricity] = slopes;
  std::printf("E(1, 0.3) = %.6f, its slopes %.6f and %.6f\n", value, by_mean, by_eccentricity);
  const double h = 1e-6;
  std::printf("by differences       %.6f and %.6f\n",
              (eccentric_anomaly(1 + h, 0.3) - eccentric_anomaly(1 - h, 0.3)) / (2 * h),
              (eccentric_anomaly(1, 0.3 + h) - eccentric_anomaly(1, 0.3 - h)) / (2 * h));

  // In a larger function: the distance from the focus, 1 - e cos(E).
  const auto distance = [](auto mean, auto e) {
    return 1.0 - e * cos(differentiable<&eccentric_anomaly>(mean, e));
  };
  const auto [d_mean, d_e] = gradient(distance, 1.0, 0.3);
  std::printf("slopes of the distance: %.6f and %.6f\n", d_mean, d_e);

  // A rule can also change a cotangent on its way: here it is clipped.
  const auto steep = [](auto x) {
    const auto gentle = with_derivative(x, [](auto dx) { return fmin(dx, decltype(dx)(1.0)); });
    return exp(gentle * 3.0);
  };
  std::printf("clipped slope of exp(3x) at 2: %g\n", pullback(steep, 2.0)(1.0));
}
