// SPDX-License-Identifier: Apache-2.0
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

// The control points that the curve reads at each point of the data.
template <class T, class C, class S>
struct ReadsOfPoints {
  const Points<T>& data;
  const std::vector<S>& p;
  std::size_t size() const { return data.x.size(); }
  std::array<S, C::kReads> operator[](std::size_t i) const {
    const S* at =
        &p[static_cast<std::size_t>(place_of<C>(data.x[i], static_cast<int>(p.size())).segment)];
    std::array<S, C::kReads> out;
    for (std::size_t k = 0; k < out.size(); ++k) out[k] = at[k];
    return out;
  }
};
// The place in its segment and the datum of each point.
template <class T, class C>
struct PlacesOfPoints {
  const Points<T>& data;
  int controls;
  std::size_t size() const { return data.x.size(); }
  std::array<T, 2> operator[](std::size_t i) const {
    return {place_of<C>(data.x[i], controls).t, data.y[i]};
  }
};

// The loop over the points is a scan, whose body is compiled with its derivative.
template <class T, class C, class M>
class Scan final : public Generic<T, C, M> {
 public:
  using Generic<T, C, M>::Generic;
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
    const auto add = [](auto sum, auto, const auto& reads, const auto& at) {
      return sum + M::of(curve_of(C::weights(at[0]), reads), at[1]);
    };
    const S sum =
        scan(data.x.size(), S(0), std::array<T, 0>(), add, ReadsOfPoints<T, C, S>{data, p},
             PlacesOfPoints<T, C>{data, static_cast<int>(p.size())});
    return sum / static_cast<T>(data.x.size()) + prices(this->problem_, p);
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
