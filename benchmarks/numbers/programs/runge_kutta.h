// SPDX-License-Identifier: Apache-2.0
// Hunters and prey (Lotka and Volterra): x' = a x - b x y, y' = d x y - c y, by 1000 steps of the
// classical Runge-Kutta method. The loss is the mean squared distance from an observed course, by
// the two initial numbers and the four rates.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

namespace etude::bench::numbers {

struct RungeKutta {
  static constexpr std::size_t kSteps = 1000;
  static constexpr double kStep = 0.01;
  template <class T>
  using State = std::array<T, 2>;

  std::vector<double> parameters = {1.1, 0.7, 1.3, 0.9, 0.8, 1.2};  // x, y, a, b, c, d
  std::vector<State<double>> observed = make_course();

  template <class T>
  T operator()(const std::vector<T>& p) const {
    State<T> at = {p[0], p[1]};
    T loss(0);
    for (std::size_t n = 0; n < kSteps; ++n) {
      at = step(at, &p[2]);
      const T dx = at[0] - observed[n][0], dy = at[1] - observed[n][1];
      loss += dx * dx + dy * dy;
    }
    return loss / static_cast<double>(kSteps);
  }

  // The adjoint of each step, last to first, from the states kept on the way there.
  std::vector<double> hand() const {
    const double* rates = &parameters[2];
    std::vector<State<double>> course(kSteps + 1);
    course[0] = {parameters[0], parameters[1]};
    for (std::size_t n = 0; n < kSteps; ++n) course[n + 1] = step(course[n], rates);
    State<double> back = {0, 0};
    std::array<double, 4> of_rates = {};
    for (std::size_t n = kSteps; n-- > 0;) {
      for (std::size_t i = 0; i < 2; ++i) {
        back[i] += 2 * (course[n + 1][i] - observed[n][i]) / static_cast<double>(kSteps);
      }
      back = step_back(course[n], rates, back, of_rates);
    }
    return {back[0], back[1], of_rates[0], of_rates[1], of_rates[2], of_rates[3]};
  }

 private:
  static std::vector<State<double>> make_course() {
    std::vector<State<double>> course(kSteps);
    for (std::size_t n = 0; n < kSteps; ++n) {
      const double t = kStep * static_cast<double>(n + 1);
      course[n] = {1 + 0.3 * std::cos(t), 1.2 + 0.3 * std::sin(t)};
    }
    return course;
  }

  template <class T>
  static State<T> slope(const State<T>& at, const T* rates) {
    const T meetings = at[0] * at[1];
    return {rates[0] * at[0] - rates[1] * meetings, rates[3] * meetings - rates[2] * at[1]};
  }
  template <class T>
  static State<T> along(const State<T>& at, double h, const State<T>& k) {
    return {at[0] + h * k[0], at[1] + h * k[1]};
  }
  template <class T>
  static State<T> step(const State<T>& at, const T* rates) {
    const State<T> k1 = slope(at, rates);
    const State<T> k2 = slope(along(at, kStep / 2, k1), rates);
    const State<T> k3 = slope(along(at, kStep / 2, k2), rates);
    const State<T> k4 = slope(along(at, kStep, k3), rates);
    return {at[0] + kStep / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0]),
            at[1] + kStep / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])};
  }

  // The cotangent of `at` from the cotangent of slope(at). Adds the cotangents of the rates.
  static State<double> slope_back(const State<double>& at, const double* rates,
                                  const State<double>& back, std::array<double, 4>& of_rates) {
    const double meetings = at[0] * at[1];
    of_rates[0] += back[0] * at[0];
    of_rates[1] -= back[0] * meetings;
    of_rates[2] -= back[1] * at[1];
    of_rates[3] += back[1] * meetings;
    const double of_meetings = rates[3] * back[1] - rates[1] * back[0];
    return {rates[0] * back[0] + of_meetings * at[1], of_meetings * at[0] - rates[2] * back[1]};
  }
  static State<double> step_back(const State<double>& at, const double* rates,
                                 const State<double>& back, std::array<double, 4>& of_rates) {
    const State<double> at2 = along(at, kStep / 2, slope(at, rates));
    const State<double> at3 = along(at, kStep / 2, slope(at2, rates));
    const State<double> at4 = along(at, kStep, slope(at3, rates));
    const auto weighted = [&](double by_step, double h, const State<double>& next) {
      return State<double>{by_step * back[0] + h * next[0], by_step * back[1] + h * next[1]};
    };
    const State<double> none = {0, 0};
    const State<double> b4 = slope_back(at4, rates, weighted(kStep / 6, 0, none), of_rates);
    const State<double> b3 = slope_back(at3, rates, weighted(kStep / 3, kStep, b4), of_rates);
    const State<double> b2 = slope_back(at2, rates, weighted(kStep / 3, kStep / 2, b3), of_rates);
    const State<double> b1 = slope_back(at, rates, weighted(kStep / 6, kStep / 2, b2), of_rates);
    return {back[0] + b1[0] + b2[0] + b3[0] + b4[0], back[1] + b1[1] + b2[1] + b3[1] + b4[1]};
  }
};

}  // namespace etude::bench::numbers
