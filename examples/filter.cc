// SPDX-License-Identifier: Apache-2.0
// A filter fitted to a signal, and a smooth curve through noisy data: two sums over windows of
// neighbouring numbers. In the first sum the windows are data, and the taps of the filter are the
// parameters. In the second the windows are parts of the unknown curve, as in a stencil.
#include <array>
#include <cmath>
#include <cstdio>
#include <tuple>
#include <utility>
#include <vector>

#include "etude/diff.h"

using namespace etude;

constexpr std::size_t kTaps = 5, kCount = 2000;
using Taps = std::array<double, kTaps>;

// Steepest descent with momentum.
template <class F, class X>
double descend(const F& loss, X& x, double rate, int steps) {
  double last = 0;
  X moment = zero_tangent(x);
  for (int step = 0; step < steps; ++step) {
    auto [value, slope] = value_with_gradient(loss, x);
    moment = 0.9 * std::move(moment) + std::move(slope);
    move(x, -rate * moment);
    last = value;
  }
  return last;
}

int main() {
  const Taps truth = {0.1, -0.4, 1.0, 0.3, -0.2};
  std::vector<double> signal(kCount + kTaps - 1), heard;
  for (std::size_t i = 0; i < signal.size(); ++i) {
    const auto t = static_cast<double>(i);
    signal[i] = std::sin(0.7 * t) + std::sin(1.9 * t * t / kCount) + 0.5 * std::cos(2.6 * t);
  }
  const auto place = sequence(kCount, [](std::size_t i) { return i; });
  for (std::size_t i = 0; i < kCount; ++i)
    heard.push_back(dot(truth, windows<kTaps>(signal, place)[i]));

  const auto miss_of_filter = [&](const auto& taps) {
    const auto add = [](auto sum, const auto& h, const auto& near, auto y) {
      auto error = h[0] * near[0] - y;
      for (std::size_t k = 1; k < kTaps; ++k) error += h[k] * near[k];
      return sum + error * error;
    };
    const auto from = decltype(taps[0] + 0.0)(0);
    return scan(kCount, from, taps, add, windows<kTaps>(signal, place), heard) / double{kCount};
  };
  Taps taps{};
  const double left = descend(miss_of_filter, taps, 0.1, 500);
  std::printf("taps %.3f %.3f %.3f %.3f %.3f, mean squared error %.1e\n", taps[0], taps[1], taps[2],
              taps[3], taps[4], left);

  // The curve u that is near the data and whose second differences are small.
  std::vector<double> data, u;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double noise = std::sin(12.9898 * static_cast<double>(i * i % 977));
    data.push_back(std::cos(0.01 * static_cast<double>(i)) + 0.2 * noise);
  }
  u = data;
  const auto roughness = [&](const auto& v) {
    const auto from = decltype(v[0] + 0.0)(0);
    const auto bend = [](auto sum, const auto&, const auto& near) {
      const auto second = near[0] - 2.0 * near[1] + near[2];
      return sum + 10.0 * second * second;
    };
    const auto away = [](auto sum, const auto&, auto x, auto y) { return sum + (x - y) * (x - y); };
    const auto inner = sequence(kCount - 2, [](std::size_t i) { return i; });
    return scan(kCount - 2, from, std::tuple(), bend, windows<3>(v, inner)) +
           scan(kCount, from, std::tuple(), away, v, data);
  };
  descend(roughness, u, 0.005, 300);
  double off = 0;
  for (std::size_t i = 0; i < kCount; ++i) off += std::pow(u[i] - std::cos(0.01 * i), 2) / kCount;
  std::printf("curve: root of the mean squared distance from the truth %.3f\n", std::sqrt(off));
}
