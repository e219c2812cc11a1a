// SPDX-License-Identifier: Apache-2.0
// The loss as a user writes it: one generic function of the control points, for plain numbers and
// the numbers of a derivative. Errors are added in lanes, so that the compiler can use vectors and
// sums of float lose fewer digits.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "benchmarks/spline/problem.h"

namespace etude::bench::spline {

// The curve where the weights are w and the control points it reads begin at p.
template <class T, std::size_t n, class Reads>
constexpr auto curve_of(const std::array<T, n>& w, const Reads& p) {
  std::remove_cvref_t<decltype(p[0])> sum = w[0] * p[0];
  for (std::size_t i = 1; i < n; ++i) sum += w[i] * p[i];
  return sum;
}

template <class T, class C, class M, class S>
S mean_error(const Points<T>& data, const std::vector<S>& p) {
  constexpr std::size_t kLanes = 8;
  std::array<S, kLanes> sums{};
  const int controls = static_cast<int>(p.size());
  const auto error = [&](std::size_t i) {
    const Place<T> place = place_of<C>(data.x[i], controls);
    return M::of(curve_of(C::weights(place.t), p.data() + place.segment), data.y[i]);
  };
  const std::size_t n = data.x.size();
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) sums[l] += error(i + l);
  }
  for (; i < n; ++i) sums[0] += error(i);
  for (std::size_t l = 1; l < kLanes; ++l) sums[0] += sums[l];
  return sums[0] / static_cast<T>(n);
}

template <class T, class S>
S prices(const Problem<T>& problem, const std::vector<S>& p) {
  const auto square = [](const S& v) { return v * v; };
  S rough = 0, away = 0;
  for (std::size_t i = 2; i < p.size(); ++i) rough += square(p[i] - 2 * p[i - 1] + p[i - 2]);
  for (std::size_t i = 0; i < problem.pooled.size(); ++i) away += square(p[i] - problem.pooled[i]);
  return Problem<T>::kRough * rough + Problem<T>::kAway * away;
}

template <class T, class C, class M>
struct Loss {
  const Problem<T>& problem;
  template <class S>
  S operator()(const std::vector<S>& p) const {
    return mean_error<T, C, M>(problem.data, p) + prices(problem, p);
  }
};

// Ways whose plain loss is that function.
template <class T, class C, class M>
class Generic : public Objective<T> {
 public:
  explicit Generic(const Problem<T>& problem) : problem_(problem) {}
  T value(const std::vector<T>& p) override { return Loss<T, C, M>{problem_}(p); }

 protected:
  const Problem<T>& problem_;
};

}  // namespace etude::bench::spline
