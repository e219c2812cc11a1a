// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "benchmarks/spline/generic.h"
#include "benchmarks/spline/ways.h"
#include "etude/diff.h"

namespace etude::bench::spline {
namespace {

// The error of one point, and the price of one bend, by the few control points that they read.
template <class T, class C, class M>
struct ErrorAt {
  T t, y;
  template <class S>
  S operator()(const std::array<S, C::kReads>& p) const {
    return M::of(curve_of(C::weights(t), p), y);
  }
};
struct Bend {
  template <class S>
  S operator()(const std::array<S, 3>& p) const {
    return Squares::of(p[2] - 2 * p[1] + p[0], 0);
  }
};

// The loss is a sum of terms that read up to four numbers each, whose gradients go forward, in
// registers; the sum of those is written out.
template <class T, class C, class M>
class Terms final : public Generic<T, C, M> {
 public:
  using Generic<T, C, M>::Generic;
  T value_with_gradient(const std::vector<T>& p, std::vector<T>& slope) override {
    const Points<T>& data = this->problem_.data;
    const std::vector<T>& pooled = this->problem_.pooled;
    const int controls = static_cast<int>(p.size());
    std::fill(slope.begin(), slope.end(), T(0));
    T error = 0, rough = 0, away = 0;
    for (std::size_t i = 0; i < data.x.size(); ++i) {
      const Place<T> at = place_of<C>(data.x[i], controls);
      error += add<C::kReads>(ErrorAt<T, C, M>{at.t, data.y[i]}, p,
                              static_cast<std::size_t>(at.segment), slope);
    }
    const T share = 1 / static_cast<T>(data.x.size());
    for (T& each : slope) each *= share / Problem<T>::kRough;
    for (std::size_t i = 2; i < p.size(); ++i) rough += add<3>(Bend(), p, i - 2, slope);
    for (T& each : slope) each *= Problem<T>::kRough;
    for (std::size_t i = 0; i < pooled.size(); ++i) {
      const T distance = p[i] - pooled[i];
      away += distance * distance;
      slope[i] += 2 * Problem<T>::kAway * distance;
    }
    return error * share + Problem<T>::kRough * rough + Problem<T>::kAway * away;
  }

 private:
  template <int n, class F>
  static T add(const F& term, const std::vector<T>& p, std::size_t begin, std::vector<T>& slope) {
    std::array<T, n> reads;
    for (std::size_t k = 0; k < n; ++k) reads[k] = p[begin + k];
    const auto [value, slopes] = etude::value_with_gradient(term, reads);
    for (std::size_t k = 0; k < n; ++k) slope[begin + k] += slopes[k];
    return value;
  }
};

}  // namespace

template <class T>
std::unique_ptr<Objective<T>> make_terms(const Problem<T>& problem) {
  return make_way<Terms>(problem);
}
template std::unique_ptr<Objective<float>> make_terms(const Problem<float>& problem);
template std::unique_ptr<Objective<double>> make_terms(const Problem<double>& problem);

}  // namespace etude::bench::spline
