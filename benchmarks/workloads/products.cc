// SPDX-License-Identifier: Apache-2.0
// Square matrix products whose result memory is reused, and a convolution of equal channels.
#include <cmath>
#include <stdexcept>

#include "benchmarks/workloads/workload.h"
#include "etude/autodiff/gradient.h"
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

class Conv3x3 final : public Instance {
 public:
  explicit Conv3x3(bool gradients) : gradients_(gradients) {}

  std::vector<double> check() override { return digest(results()); }
  void run() override { keep(results()); }

 private:
  static Tensor convolved(const Tensor& x, const Tensor& w) {
    return nn::conv2d(x, w, {.explicit_padding = {1, 1, 1, 1}});
  }
  std::vector<Tensor> results() const {
    if (!gradients_) return {convolved(x_, w_)};
    const auto [dx, dw] = gradient(
        [](const Tensor& x, const Tensor& w) {
          const Tensor y = convolved(x, w);
          return sum(y * y);
        },
        x_, w_);
    return {dx, dw};
  }

  bool gradients_;
  Tensor x_ = hashed(1, {8, 56, 56, 64}), w_ = hashed(2, {3, 3, 64, 64}, .1);
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
          gemm(1024, {}),
          {.name = "conv3x3_fwd",
           .expected = {.9638546, .6308758},
           .make = [] { return std::make_unique<Conv3x3>(false); }},
          {.name = "conv3x3_fb",
           .expected = {-.8440094, 2.483494, -1469.462, 824.2506},
           .make = [] { return std::make_unique<Conv3x3>(true); }}};
}

}  // namespace etude::bench
