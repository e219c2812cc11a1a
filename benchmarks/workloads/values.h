// SPDX-License-Identifier: Apache-2.0
// The data that all systems use, as plain numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace etude::bench {

// Element i of `count`: splitmix64 of (seed << 32) + i, 24 bits of it, in [-scale, scale).
inline std::vector<float> hashed_values(uint64_t seed, std::size_t count, double scale = 1) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    uint64_t z = (seed << 32) + i + 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    const uint64_t bits = (z ^ (z >> 31)) >> 40;
    out[i] = static_cast<float>((std::ldexp(static_cast<double>(bits), -23) - 1) * scale);
  }
  return out;
}

// The scale of hashed_values for weights of this shape: sqrt(6 / (in + out)).
inline double glorot_scale(const std::vector<int64_t>& shape) {
  double in = 1;
  for (std::size_t a = 0; a + 1 < shape.size(); ++a) in *= static_cast<double>(shape[a]);
  double out = static_cast<double>(shape.back());
  for (std::size_t a = 0; a + 2 < shape.size(); ++a) out *= static_cast<double>(shape[a]);
  return std::sqrt(6 / (in + out));
}

// 7 i mod 10.
template <class T>
std::vector<T> label_values(int64_t n) {
  std::vector<T> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<T>(7 * i % 10));
  return out;
}

// An orthogonal n x n matrix: two Householder reflections, in double, rounded at the end.
inline std::vector<float> rotation_values(std::size_t n) {
  std::vector<double> q(n * n, 0);
  for (std::size_t i = 0; i < n; ++i) q[i * n + i] = 1;
  for (const uint64_t seed : {11u, 12u}) {
    const std::vector<float> v = hashed_values(seed, n);
    double norm = 0;
    for (const double e : v) norm += e * e;
    for (std::size_t i = 0; i < n; ++i) {
      double dot = 0;
      for (std::size_t k = 0; k < n; ++k) dot += q[i * n + k] * v[k];
      for (std::size_t j = 0; j < n; ++j) q[i * n + j] -= 2 * dot * v[j] / norm;
    }
  }
  return {q.begin(), q.end()};
}

// The sum of a[i] cos(0.7 i) / sqrt(size), and the mean of |a[i]|, appended to `out`.
template <class T>
void add_digest(std::vector<double>& out, const std::vector<T>& a) {
  double wave = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    wave += x * std::cos(0.7 * static_cast<double>(i));
    size += std::abs(x);
  }
  out.push_back(wave / std::sqrt(static_cast<double>(a.size())));
  out.push_back(size / static_cast<double>(a.size()));
}

}  // namespace etude::bench
