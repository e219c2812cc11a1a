// SPDX-License-Identifier: Apache-2.0
// Separate element-wise calls on long arrays: each is one pass over memory; staged, all are one
// pass.
#include "benchmarks/workloads/workload.h"
#include "etude/ops.h"
#include "etude/stage/function.h"

namespace etude::bench {
namespace {

Tensor curve(const Tensor& x) { return tanh(.75 * x + .25) * exp(-(x * x)); }

class Elementwise final : public Instance {
 public:
  Elementwise(int64_t n, bool is_staged) : n_(n), is_staged_(is_staged), x_(hashed(1, {n}, 2)) {}

  // The mean over about a thousand elements, the first and the last.
  std::vector<double> check() override {
    const Tensor y = value();
    const std::vector<double> seen =
        slice(y, {0}, {n_}, {.step = {std::max<int64_t>(1, n_ / 997)}}).to_vector<double>();
    double sum = 0;
    for (const double e : seen) sum += e;
    return {sum / static_cast<double>(seen.size()), seen[0], Tensor(y.at(n_ - 1)).item<double>()};
  }
  void run() override { keep(value()); }

 private:
  Tensor value() const { return is_staged_ ? staged_(x_) : curve(x_); }

  int64_t n_;
  bool is_staged_;
  Tensor x_;
  Function<Tensor(const Tensor&)> staged_ = function(curve);
};

Workload elementwise(std::string name, int64_t n, std::vector<double> expected) {
  return {.name = std::move(name),
          .expected = std::move(expected),
          .make = [n] { return std::make_unique<Elementwise>(n, false); },
          .staged = [n] { return std::make_unique<Elementwise>(n, true); }};
}

}  // namespace

std::vector<Workload> array_workloads() {
  return {elementwise("ew_1e3", 1000, {.07647619, .2512368, .02794795}),
          elementwise("ew_1e6", 1000000, {.0930106, .2512368, .002117397}),
          elementwise("ew_3e7", 30000000, {})};
}

}  // namespace etude::bench
