// SPDX-License-Identifier: Apache-2.0
// Square matrix products whose result memory is reused.
#include <cmath>
#include <stdexcept>

#include "benchmarks/workloads/workload.h"
#include "etude/ops.h"

namespace etude::bench {
namespace {

class Gemm final : public Instance {
 public:
  explicit Gemm(int64_t n) : n_(n), a_(hashed(1, {n, n})), b_(hashed(2, {n, n})) {}

  std::vector<double> check() override {
    const Tensor c = matmul(a_, b_);
    compare_corner(c);
    return digest({c});
  }
  // The block of the dropped result serves the next one.
  void run() override { keep(matmul(a_, b_)); }

 private:
  // Sizes without a published digest are compared with a plain double loop on one row.
  void compare_corner(const Tensor& c) const {
    const std::vector<double> a = a_.to_vector<double>(), b = b_.to_vector<double>(),
                              got = c.to_vector<double>();
    const auto n = static_cast<std::size_t>(n_);
    for (std::size_t j = 0; j < n; ++j) {
      double want = 0;
      for (std::size_t k = 0; k < n; ++k) want += a[k] * b[k * n + j];
      if (std::abs(want - got[j]) > 1e-3)
        throw std::runtime_error("gemm: row 0 differs from the plain loop");
    }
  }

  int64_t n_;
  Tensor a_, b_;
};

}  // namespace

std::vector<Workload> product_workloads() {
  const auto gemm = [](int64_t n, std::vector<double> expected) {
    return Workload{.name = "gemm_" + std::to_string(n),
                    .expected = std::move(expected),
                    .make = [n] { return std::make_unique<Gemm>(n); }};
  };
  return {gemm(32, {.6684639, 1.50154}),
          gemm(64, {.9174315, 2.14994}),
          gemm(128, {}),
          gemm(256, {-4.038396, 4.250901}),
          gemm(512, {}),
          gemm(1024, {})};
}

}  // namespace etude::bench
