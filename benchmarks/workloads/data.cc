// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "benchmarks/workloads/workload.h"
#include "etude/base/hash.h"

namespace etude::bench {

Tensor hashed(uint64_t seed, const Shape& shape, double scale) {
  std::vector<float> out(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const uint64_t bits = internal::mix((seed << 32) + i) >> 40;
    out[i] = static_cast<float>((std::ldexp(static_cast<double>(bits), -23) - 1) * scale);
  }
  return Tensor(out, shape);
}

Tensor glorot(uint64_t seed, const Shape& shape) {
  double in = 1;
  for (int a = 0; a + 1 < shape.rank(); ++a) in *= static_cast<double>(shape[a]);
  double out = static_cast<double>(shape[shape.rank() - 1]);
  for (int a = 0; a + 2 < shape.rank(); ++a) out *= static_cast<double>(shape[a]);
  return hashed(seed, shape, std::sqrt(6 / (in + out)));
}

Tensor labels(int64_t n) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<int32_t>(7 * i % 10));
  return Tensor(out);
}

Tensor rotation(int64_t n) {
  const auto size = static_cast<std::size_t>(n);
  std::vector<double> q(size * size, 0);
  for (std::size_t i = 0; i < size; ++i) q[i * size + i] = 1;
  for (const uint64_t seed : {11u, 12u}) {
    const std::vector<double> v = hashed(seed, {n, 1}).to_vector<double>();
    double norm = 0;
    for (const double e : v) norm += e * e;
    std::vector<double> next(q);
    for (std::size_t i = 0; i < size; ++i) {
      double dot = 0;
      for (std::size_t k = 0; k < size; ++k) dot += q[i * size + k] * v[k];
      for (std::size_t j = 0; j < size; ++j) next[i * size + j] -= 2 * dot * v[j] / norm;
    }
    q = next;
  }
  return Tensor(std::vector<float>(q.begin(), q.end()), {n, n});
}

std::vector<double> digest(const std::vector<Tensor>& arrays) {
  std::vector<double> out;
  for (const Tensor& array : arrays) {
    const std::vector<double> a = array.to_vector<double>();
    double wave = 0, size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      wave += a[i] * std::cos(0.7 * static_cast<double>(i));
      size += std::abs(a[i]);
    }
    out.push_back(wave / std::sqrt(static_cast<double>(a.size())));
    out.push_back(size / static_cast<double>(a.size()));
  }
  return out;
}

void keep(const Tensor& x) {
  const void* volatile sink = x.ref();
  static_cast<void>(sink);
}

}  // namespace etude::bench
