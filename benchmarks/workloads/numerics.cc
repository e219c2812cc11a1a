// SPDX-License-Identifier: Apache-2.0
// Fourier transforms and factors of matrices.
#include <complex>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/workloads/workload.h"
#include "etude/ops.h"

namespace etude::bench {
namespace {

using Tensors = std::vector<Tensor>;

// A function of one tensor, and the part of its results that does not depend on the library
// (`Seen`).
class Function final : public Instance {
 public:
  using Run = std::function<Tensors(const Tensor&)>;
  using Seen = std::function<Tensors(const Tensors&)>;
  Function(Tensor x, Run run, Seen seen)
      : x_(std::move(x)), run_(std::move(run)), seen_(std::move(seen)) {}

  std::vector<double> check() override { return digest(seen_(run_(x_))); }
  void run() override { keep(run_(x_)); }

 private:
  Tensor x_;
  Run run_;
  Seen seen_;
};

Tensor complex_hashed(const Shape& shape) {
  return astype(hashed(1, shape), kComplex64) +
         astype(hashed(2, shape), kComplex64) * Tensor(std::complex<float>(0, 1));
}

Tensors parts_of(const Tensors& y) { return {real(y[0]), imag(y[0])}; }

Workload transform(std::string name, Shape shape, Function::Run run) {
  return {.name = std::move(name), .make = [shape = std::move(shape), run = std::move(run)] {
            return std::make_unique<Function>(complex_hashed(shape), run, parts_of);
          }};
}

// As many matrices as make the sizes take times of one order.
int64_t matrices_of(int64_t n) { return n == 16 ? 256 : n == 64 ? 32 : 4; }

Tensor general(int64_t n) {
  return hashed(3, {matrices_of(n), n, n}) + eye(n, {.dtype = kFloat32}) * 2.0;
}
Tensor positive(int64_t n) {
  const Tensor a = hashed(3, {matrices_of(n), n, n});
  return matmul(a, a, {.transpose_y = true}) / static_cast<double>(n) + eye(n, {.dtype = kFloat32});
}

Workload factor(const std::string& name, int64_t n, Tensor (*make)(int64_t), Function::Run run,
                Function::Seen seen) {
  return {.name = name + "_" + std::to_string(n),
          .make = [=] { return std::make_unique<Function>(make(n), run, seen); }};
}

std::vector<Workload> factors(int64_t n) {
  const auto all = [](const Tensors& y) { return y; };
  const auto sizes = [](const Tensors& y) { return Tensors{abs(y[0])}; };
  return {
      factor(
          "cholesky", n, positive, [](const Tensor& x) { return Tensors{linalg::cholesky(x)}; },
          all),
      {.name = "solve_" + std::to_string(n),
       .make =
           [=] {
             const auto run = [b = hashed(4, {matrices_of(n), n, 8})](const Tensor& x) {
               return Tensors{linalg::solve(x, b)};
             };
             return std::make_unique<Function>(positive(n), run, all);
           }},
      factor(
          "qr", n, general,
          [](const Tensor& x) {
            auto [q, r] = linalg::qr(x);
            return Tensors{r, q};
          },
          sizes),
      factor(
          "svd", n, general,
          [](const Tensor& x) {
            auto [u, s, vh] = linalg::svd(x);
            return Tensors{s, u, vh};
          },
          sizes),
      factor(
          "eigh", n, positive,
          [](const Tensor& x) {
            auto [values, vectors] = linalg::eigh(x);
            return Tensors{values, vectors};
          },
          sizes),
  };
}

}  // namespace

std::vector<Workload> numeric_workloads() {
  const auto fft = [](const Tensor& x) { return Tensors{fft::fft(x)}; };
  const auto fftn = [](const Tensor& x) { return Tensors{fft::fftn(x)}; };
  std::vector<Workload> out = {
      transform("fft_2e10", {1 << 10}, fft), transform("fft_2e15", {1 << 15}, fft),
      transform("fft_2e20", {1 << 20}, fft), transform("fft2_512", {512, 512}, fftn)};
  for (const int64_t n : {16, 64, 256}) {
    for (Workload& workload : factors(n)) out.push_back(std::move(workload));
  }
  return out;
}

}  // namespace etude::bench
