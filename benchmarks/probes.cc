// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/probes.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace etude::bench {
namespace {

constexpr int kSteps = 50000;
constexpr int kChains = 12;  // more than latency times ports

#if defined(__x86_64__)
__attribute__((target("avx512f"))) float multiply_add_512() {
  __m512 sum[kChains];
  for (__m512& s : sum) s = _mm512_set1_ps(1);
  const __m512 a = _mm512_set1_ps(0.9999f), b = _mm512_set1_ps(1e-4f);
  for (int i = 0; i < kSteps; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) sum[j] = _mm512_fmadd_ps(sum[j], a, b);
  }
  float out[16], total = 0;
  for (const __m512& s : sum) {
    _mm512_storeu_ps(out, s);
    total += out[0];
  }
  return total;
}

__attribute__((target("avx2,fma"))) float multiply_add_256() {
  __m256 sum[kChains];
  for (__m256& s : sum) s = _mm256_set1_ps(1);
  const __m256 a = _mm256_set1_ps(0.9999f), b = _mm256_set1_ps(1e-4f);
  for (int i = 0; i < kSteps; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) sum[j] = _mm256_fmadd_ps(sum[j], a, b);
  }
  float out[8], total = 0;
  for (const __m256& s : sum) {
    _mm256_storeu_ps(out, s);
    total += out[0];
  }
  return total;
}
#endif

float multiply_add_scalar() {
  float sum[kChains];
  std::fill(sum, sum + kChains, 1.0f);
  for (int i = 0; i < kSteps; ++i) {
    for (float& s : sum) s = std::fma(s, 0.9999f, 1e-4f);
  }
  return sum[0];
}

template <class F>
double shortest(int times, const F& f) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

}  // namespace

double probe_gflops() {
  float (*run)() = multiply_add_scalar;
  int lanes = 1;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    run = multiply_add_512;
    lanes = 16;
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    run = multiply_add_256;
    lanes = 8;
  }
#endif
  volatile float sink = 0;
  const double seconds = shortest(100, [&] { sink = run(); });
  return 2e-9 * kSteps * kChains * lanes / seconds;
}

double probe_copy_gb() {
  const std::size_t bytes = std::size_t{64} << 20;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const double seconds = shortest(10, [&] { std::memcpy(to.data(), from.data(), bytes); });
  volatile char sink = to[bytes / 2];
  static_cast<void>(sink);
  return 2e-9 * static_cast<double>(bytes) / seconds;
}

}  // namespace etude::bench
