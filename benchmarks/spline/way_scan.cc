// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "benchmarks/spline/generic.h"
#include "benchmarks/spline/ways.h"
#include "etude/diff.h"

namespace etude::bench::spline {
namespace {

// The terms that depend on neither curve nor measure.
template <class S, class T>
S prices(const std::vector<S>& p, const Problem<T>& problem) {
  const auto place = [](std::size_t i) { return i; };
  const auto bends = sequence(p.size() - 2, place), each = sequence(problem.pooled.size(), place);
  const auto bend = [](auto sum, auto, const auto& p) {
    return sum + Squares::of(p[2] - 2 * p[1] + p[0], 0);
  };
  const auto distance = [](auto sum, auto, const auto& p, auto pooled) {
    return sum + Squares::of(p[0], pooled);
  };
  const S rough = scan(bends.size(), S(0), std::tuple(), bend, windows<3>(p, bends));
  const S away = scan(problem.pooled.size(), S(0), std::tuple(), distance, windows<1>(p, each),
                      problem.pooled);
  return Problem<T>::kRough * rough + Problem<T>::kAway * away;
}

// The loop over the points is a scan, whose body is compiled with its derivative.
template <class T, class C, class M>
class Scan final : public Generic<T, C, M> {
 public:
  using Generic<T, C, M>::Generic;
  T value(const std::vector<T>& p) override { return loss(p); }
  T value_with_gradient(const std::vector<T>& p, std::vector<T>& slope) override {
    const auto loss = [this](const auto& at) { return this->loss(at); };
    auto [value, gradient] = etude::value_with_gradient(loss, p);
    slope = std::move(gradient);
    return value;
  }

 private:
  template <class S>
  S loss(const std::vector<S>& p) const {
    const Points<T>& data = this->problem_.data;
    const std::size_t n = data.x.size();
    const auto place = [&data, controls = static_cast<int>(p.size())](std::size_t i) {
      return place_of<C>(data.x[i], controls);
    };
    const auto segments = sequence(n, [&](std::size_t i) { return place(i).segment; });
    const auto at = sequence(n, [&](std::size_t i) { return std::array{place(i).t, data.y[i]}; });
    const auto add = [](auto sum, auto, const auto& reads, const auto& at) {
      return sum + M::of(curve_of(C::weights(at[0]), reads), at[1]);
    };
    const S error = scan(n, S(0), std::tuple(), add, windows<C::kReads>(p, segments), at);
    return error / static_cast<T>(n) + prices(p, this->problem_);
  }
};

}  // namespace

template <class T>
std::unique_ptr<Objective<T>> make_scan(const Problem<T>& problem) {
  return make_way<Scan>(problem);
}
template std::unique_ptr<Objective<float>> make_scan(const Problem<float>& problem);
template std::unique_ptr<Objective<double>> make_scan(const Problem<double>& problem);

}  // namespace etude::bench::spline
