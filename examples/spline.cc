// SPDX-License-Identifier: Apache-2.0
// Spline personalisation in two stages: a curve is fitted to the data of many users, and from there
// to the few points of one. For small devices: float, and nothing but headers.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "etude/diff.h"

using namespace etude;

using Point = std::array<float, 2>;

// A uniform cubic B-spline on [0, 1] with the control points p.
template <class T>
T spline(const std::vector<T>& p, float x) {
  const float at = x * static_cast<float>(p.size() - 3);
  const std::size_t i = std::min(std::size_t(at), p.size() - 4);
  const float t = at - static_cast<float>(i), u = 1 - t;
  return (u * u * u * p[i] + (3 * t * t * t - 6 * t * t + 4) * p[i + 1] +
          (3 * u * u * u - 6 * u * u + 4) * p[i + 2] + t * t * t * p[i + 3]) /
         6;
}

// Mean squared error, with penalties for curvature and for the distance to `pooled`.
struct Loss {
  const std::vector<Point>& data;
  const std::vector<float>& pooled;
  template <class T>
  T operator()(const std::vector<T>& p) const {
    const auto square = [](T v) { return v * v; };
    T error = 0, rough = 0, away = 0;
    for (const Point& d : data) error += square(spline(p, d[0]) - d[1]);
    for (std::size_t i = 2; i < p.size(); ++i) rough += square(p[i] - 2 * p[i - 1] + p[i - 2]);
    for (std::size_t i = 0; i < pooled.size(); ++i) away += square(p[i] - pooled[i]);
    return error / static_cast<float>(data.size()) + 1e-3F * rough + 1e-3F * away;
  }
};

// Steepest descent with steps that are halved until the loss falls; it ends when the loss hardly
// changes.
int fit(std::vector<float>& p, const Loss& loss) {
  std::vector<float> trial = p;
  float last = INFINITY;
  for (int iteration = 0; iteration < 2000; ++iteration) {
    const auto [value, slope] = value_with_gradient(loss, p);
    if (last - value <= 1e-6F * value) return iteration;
    last = value;
    for (float step = 1; step > 1e-9F; step /= 2) {
      for (std::size_t i = 0; i < p.size(); ++i) trial[i] = p[i] - step * slope[i];
      if (loss(trial) <= value - 1e-4F * step * dot(slope, slope)) break;
    }
    std::swap(p, trial);
  }
  return 2000;
}

int main() {
  std::minstd_rand bits(1);
  const auto uniform = [&] { return static_cast<float>(bits()) / 2147483647.0F; };
  std::vector<Point> everyone, one;
  for (int user = 0; user < 200; ++user) {
    const float size = 0.8F + 0.4F * uniform(), shift = 0.1F * uniform();
    for (int i = 0; i < (user == 0 ? 512 : 20); ++i) {
      const float x = user == 0 ? uniform() * uniform() : uniform();
      (user == 0 ? one : everyone).push_back({x, size * std::tanh(3 * (x + shift) - 1)});
    }
  }
  std::vector<float> p(16, 0.0F), none;
  int steps = fit(p, {everyone, none});
  std::printf("pooled: %d steps, loss %.5f\n", steps, Loss{everyone, none}(p));
  const std::vector<float> pooled = p;
  steps = fit(p, {one, pooled});
  std::printf("one user: %d steps, loss %.5f, then %.5f\n", steps, Loss{one, pooled}(pooled),
              Loss{one, pooled}(p));
  for (const float point : p) std::printf("%.4f\n", point);
}
