// SPDX-License-Identifier: Apache-2.0
// A simulation fitted by gradients: the length and the friction of a pendulum from its observed
// swings. The loop is a scan, whose derivative is compiled to straight code.
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "etude/diff.h"

using namespace etude;

constexpr double kStep = 0.01;
constexpr std::size_t kSteps = 1000;

template <class T>
struct Swing {
  T angle, speed, error;
};
template <class T>
struct Pendulum {
  T gravity_by_length, friction;
};

// One step of the semi-implicit Euler method; adds the squared distance to the observed angle.
constexpr auto kAdvance = [](const auto& at, const auto& pendulum, auto observed) {
  using std::sin;
  auto next = at;
  next.speed -= kStep * (pendulum.gravity_by_length * sin(at.angle) + pendulum.friction * at.speed);
  next.angle += kStep * next.speed;
  const auto miss = next.angle - observed;
  next.error += miss * miss;
  return next;
};

int main() {
  std::vector<double> observed;
  Swing<double> truth{1.0, 0.0, 0.0};
  for (std::size_t i = 0; i < kSteps; ++i) {
    truth = kAdvance(truth, Pendulum<double>{9.81 / 1.3, 0.25}, 0.0);
    observed.push_back(truth.angle + 0.01 * std::sin(37.0 * static_cast<double>(i)));  // some noise
  }

  const auto loss = [&](const auto& pendulum) {
    using T = std::decay_t<decltype(pendulum.friction)>;
    const Swing<T> start{T(1.0), T(0.0), T(0.0)};
    return scan(kSteps, start, pendulum, kAdvance, observed).error / static_cast<double>(kSteps);
  };
  Pendulum<double> guess{9.81 / 1.0, 0.0}, moment{0, 0};
  double last = 0;
  for (int step = 0; step < 400; ++step) {
    const auto [value, slope] = value_with_gradient(loss, guess);
    moment = 0.9 * moment + slope;
    move(guess, -0.05 * moment);
    if (step % 100 == 0) std::printf("step %3d  mean squared error %.6f\n", step, value);
    last = value;
  }
  std::printf("length %.3f m, friction %.3f, mean squared error %.6f\n",
              9.81 / guess.gravity_by_length, guess.friction, last);
}
