// SPDX-License-Identifier: Apache-2.0
// Square matrix products whose result memory is reused, a convolution of equal channels, and two
// chains of products side by side.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/workloads/workload.h"
#include "etude/autodiff/gradient.h"
#include "etude/ops.h"
#include "etude/stage/function.h"

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

// Two independent chains of products in one staged function, which may run them side by side. The
// detail `ratio` is their time, divided by the time of two functions with one chain each.
class Branches final : public Instance {
 public:
  std::vector<double> check() override {
    const auto [first, second] = both_(x_, v_, w_);
    compare(first, v_);
    compare(second, w_);
    return digest({first, second});
  }
  void run() override {
    const auto [first, second] = both_(x_, v_, w_);
    keep({first, second});
  }
  std::vector<std::pair<std::string, double>> details() override {
    const double in_turn = seconds([&] {
      keep(one_(x_, v_));
      keep(one_(x_, w_));
    });
    return {{"ratio", seconds([&] { run(); }) / in_turn}};
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int64_t kSize = 64;
  static constexpr int kLayers = 30;

  static Tensor chain(const Tensor& x, const Tensor& w) {
    Tensor y = x;
    for (int i = 0; i < kLayers; ++i) y = tanh(matmul(y, w));
    return y;
  }
  // Row 0 of a chain against plain loops.
  void compare(const Tensor& got, const Tensor& w) const {
    const std::vector<double> x = x_.to_vector<double>(), m = w.to_vector<double>();
    std::vector<double> row(x.begin(), x.begin() + kSize);
    for (int i = 0; i < kLayers; ++i) {
      std::vector<double> next(kSize, 0);
      for (std::size_t k = 0; k < kSize; ++k) {
        for (std::size_t j = 0; j < kSize; ++j) next[j] += row[k] * m[k * kSize + j];
      }
      for (std::size_t j = 0; j < kSize; ++j) row[j] = std::tanh(next[j]);
    }
    const std::vector<double> found = got.to_vector<double>();
    for (std::size_t j = 0; j < kSize; ++j) {
      if (!(std::abs(row[j] - found[j]) < 1e-4))
        throw std::runtime_error("branches: row 0 differs from the plain loop");
    }
  }
  template <class F>
  static double seconds(const F& f) {
    Clock::duration best = Clock::duration::max();
    for (int i = 0; i < 1000; ++i) {
      const Clock::time_point start = Clock::now();
      f();
      best = std::min(best, Clock::now() - start);
    }
    return std::chrono::duration<double>(best).count();
  }

  Tensor x_ = hashed(1, {kSize, kSize}), v_ = hashed(2, {kSize, kSize}, .2),
         w_ = hashed(3, {kSize, kSize}, .2);
  using T = Tensor;
  Function<T(const T&, const T&)> one_ = function(chain);
  Function<std::pair<T, T>(const T&, const T&, const T&)> both_ = function(
      [](const T& x, const T& v, const T& w) { return std::pair(chain(x, v), chain(x, w)); });
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
           .make = [] { return std::make_unique<Conv3x3>(true); }},
          {.name = "two_branches", .staged = [] { return std::make_unique<Branches>(); }}};
}

}  // namespace etude::bench
