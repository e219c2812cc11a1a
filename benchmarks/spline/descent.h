// SPDX-License-Identifier: Apache-2.0
// Fits the curves by steepest descent, with steps that are halved until the loss falls. The same
// for all ways to compute a gradient.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "benchmarks/spline/memory.h"
#include "benchmarks/spline/problem.h"

namespace etude::bench::spline {

enum class Stop { flat, settled, iterations };
inline const char* name_of(Stop stop) {
  constexpr const char* kNames[] = {"gradient", "loss", "iterations"};
  return kNames[static_cast<int>(stop)];
}

template <class T>
struct Fit {
  std::vector<T> p;
  Stop stop = Stop::iterations;
  int iterations = 0, losses = 0, gradients = 0;
  T value = 0;
  std::size_t allocations = 0;  // after the first iteration
};

template <class T>
class Descent {
 public:
  Descent(Objective<T>& objective, const std::vector<T>& start) : objective_(objective) {
    fit_.p = start;
    trial_ = slope_ = start;
  }

  Fit<T> run() {
    constexpr int kMost = 2000;
    constexpr T kFlat = T(1e-5), kSettled = T(1e-7);
    int small_changes = 0;
    std::size_t allocated = 0;
    fit_.value = loss(fit_.p);
    for (fit_.iterations = 0; fit_.iterations < kMost; ++fit_.iterations) {
      if (fit_.iterations == 1) allocated = allocations();
      ++fit_.gradients;
      objective_.value_with_gradient(fit_.p, slope_);
      if (largest_slope() <= kFlat) {
        fit_.stop = Stop::flat;
        break;
      }
      const T before = fit_.value;
      step();
      small_changes = std::abs(before - fit_.value) <= kSettled * before ? small_changes + 1 : 0;
      if (small_changes == 2) {
        fit_.stop = Stop::settled;
        break;
      }
    }
    if (fit_.iterations > 0) fit_.allocations = allocations() - allocated;
    return std::move(fit_);
  }

 private:
  T loss(const std::vector<T>& p) {
    ++fit_.losses;
    return objective_.value(p);
  }
  T largest_slope() const {
    T most = 0;
    for (const T each : slope_) most = std::max(most, std::abs(each));
    return most;
  }
  // Where no step pays, p stays.
  void step() {
    constexpr int kMostHalvings = 30;
    T square = 0, length = 1;
    for (const T each : slope_) square += each * each;
    for (int i = 0; i <= kMostHalvings; ++i, length /= 2) {
      for (std::size_t k = 0; k < trial_.size(); ++k) {
        trial_[k] = fit_.p[k] - length * slope_[k];
      }
      const T value = loss(trial_);
      if (value <= fit_.value - T(1e-4) * length * square) {
        fit_.value = value;
        std::swap(fit_.p, trial_);
        return;
      }
    }
  }

  Objective<T>& objective_;
  Fit<T> fit_;
  std::vector<T> trial_, slope_;
};

template <class T>
Fit<T> descend(Objective<T>& objective, const std::vector<T>& start) {
  return Descent<T>(objective, start).run();
}

}  // namespace etude::bench::spline
