// SPDX-License-Identifier: Apache-2.0
// Which pump and which tube bring a heated floor to 23 degrees within 20 minutes? The answer uses
// derivatives of plain C++ by all numbers of a house.
//   ./dev run building
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "examples/physics/house.h"

using namespace etude;

// The time of a call, from the fastest of 50 runs of 100 calls.
template <class Fn>
double microseconds(const Fn& fn) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  for (int round = 0; round < 50; ++round) {
    const auto start = Clock::now();
    for (int k = 0; k < 100; ++k) fn(289 + 1e-6 * k);
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return best / 100;
}

int main() {
  House<double> h{{120, 0.008, 0.002, 0.4},
                  {40, 0.08, 2300, 880, 291},
                  {2e-4, 990, 4180, 295},
                  {0.3, 5, 330},
                  289,
                  9};
  const auto miss = [](const auto& house) {
    const auto by = after_20_minutes(house) - 296.15;
    return by * by;
  };
  std::printf("slab %.2f K after 20 minutes\n", after_20_minutes(h));
  const House<double> slope =
      gradient([](const auto& house) { return after_20_minutes(house); }, h);
  House<double> more = h;
  more.tube.length += 1e-3;
  std::printf("a metre of tube more: %.6f K, by differences %.6f K\n", slope.tube.length,
              (after_20_minutes(more) - after_20_minutes(h)) / 1e-3);
  for (int k = 0; k < 300; ++k) {  // steps in the logarithms of flow and length
    const House<double> g = gradient(miss, h);
    h.water.flow *= std::exp(-0.005 * g.water.flow * h.water.flow);
    h.tube.length *= std::exp(-0.005 * g.tube.length * h.tube.length);
  }
  std::printf("with %.0f litres a minute and %.0f m of tube: %.2f K\n", h.water.flow * 6e4,
              h.tube.length, after_20_minutes(h));
  double sum = 0;
  const double forward = microseconds([&](double room) { h.room = room, sum += miss(h); });
  const double both = microseconds(
      [&](double room) { h.room = room, sum += value_with_gradient(miss, h).second.film; });
  std::printf("value %.2f us, with all derivatives %.2f us, %.1f times\n", forward, both,
              both / forward);
  return std::isfinite(sum) ? 0 : 1;
}
