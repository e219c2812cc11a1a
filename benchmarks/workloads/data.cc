// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "benchmarks/workloads/values.h"
#include "benchmarks/workloads/workload.h"
#include "etude/lazy/lazy.h"
#include "etude/lazy/metrics.h"

namespace etude::bench {

Tensor hashed(uint64_t seed, const Shape& shape, double scale) {
  return Tensor(hashed_values(seed, static_cast<std::size_t>(shape.count()), scale), shape);
}

Tensor glorot(uint64_t seed, const Shape& shape) {
  return hashed(seed, shape, glorot_scale(shape.to_vector()));
}

Tensor labels(int64_t n) { return Tensor(label_values<int32_t>(n)); }

Tensor rotation(int64_t n) { return Tensor(rotation_values(static_cast<std::size_t>(n)), {n, n}); }

std::vector<double> digest(const std::vector<Tensor>& arrays) {
  std::vector<double> out;
  for (const Tensor& array : arrays) add_digest(out, array.to_vector<double>());
  return out;
}

namespace {

std::vector<Tensor>& kept() {
  static auto* list = new std::vector<Tensor>;
  return *list;
}

}  // namespace

void keep(const Tensor& x) {
  const void* volatile sink = x.ref();
  static_cast<void>(sink);
  if (is_pending(x)) kept().push_back(x);
}
void keep(const std::vector<Tensor>& all) {
  for (const Tensor& x : all) keep(x);
}

namespace {

class Lazy final : public Instance {
 public:
  explicit Lazy(std::unique_ptr<Instance> eager) : eager_(std::move(eager)) {}

  std::vector<double> check() override {
    const LazyScope lazy;
    return eager_->check();
  }
  void run() override {
    const LazyScope lazy;
    eager_->run();
    lazy_barrier();
    kept().clear();
  }
  // The time that is not spent in runs and compiles is the time of recording.
  std::vector<std::pair<std::string, double>> details() override {
    constexpr int kRuns = 20;
    const LazyMetrics metrics;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kRuns; ++i) run();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    const LazyCounts counts = metrics.counts();
    const auto calls = static_cast<double>(counts.recorded);
    const double runs = metrics.execute_times().total;
    return {{"calls", calls / kRuns},
            {"segments", static_cast<double>(counts.executes) / kRuns},
            {"compiles", static_cast<double>(counts.compiles)},
            {"record_ns", calls == 0 ? 0 : (spent.count() - runs) / calls * 1e9}};
  }

 private:
  std::unique_ptr<Instance> eager_;
};

}  // namespace

Workload with_lazy_mode(Workload workload) {
  if (workload.make) {
    workload.lazy = [make = workload.make] { return std::make_unique<Lazy>(make()); };
  }
  return workload;
}

}  // namespace etude::bench
