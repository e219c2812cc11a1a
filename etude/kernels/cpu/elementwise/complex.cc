// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/elementwise/complex.h"

#include <cmath>
#include <complex>
#include <cstring>

#include "etude/device/cpu/parallel.h"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kChunk = 1 << 15;

struct CountParams : KernelParams {
  int64_t count = 0;
};

// result[i] = F(x[i]) for complex x, split by size alone.
template <class R, class Out, auto kFunction>
bool run_map(const KernelCall& call) {
  const auto* x = static_cast<const std::complex<R>*>(call.in[0]);
  auto* y = static_cast<Out*>(call.out[0]);
  const int64_t count = static_cast<const CountParams*>(call.params)->count;
  const int64_t chunks = (count + kChunk - 1) / kChunk;
  parallel_for(chunks, static_cast<double>(count) * 1e-3, [&](int64_t chunk) {
    const int64_t end = std::min(count, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; ++i) y[i] = kFunction(x[i]);
  });
  return true;
}

template <class R>
std::complex<R> conj_of(std::complex<R> z) {
  return {z.real(), -z.imag()};
}
template <class R>
R real_of(std::complex<R> z) {
  return z.real();
}
template <class R>
R imag_of(std::complex<R> z) {
  return z.imag();
}
template <class R>
R abs_of(std::complex<R> z) {
  return std::hypot(z.real(), z.imag());
}

// The kernel of a function on complex operands, for both widths.
template <auto kSingle, auto kDouble>
void prepare_map(const PrepareCall& call) {
  auto p = etude::internal::make_ref<CountParams>();
  p->count = call.out.results[0]->count();
  using Single = decltype(kSingle(std::complex<float>()));
  using Double = decltype(kDouble(std::complex<double>()));
  const bool single = call.dtype(0) == kComplex64;
  call.set(single ? run_map<float, Single, kSingle> : run_map<double, Double, kDouble>, p);
}

bool run_zeros(const KernelCall& call) {
  const int64_t bytes = static_cast<const CountParams*>(call.params)->count;
  if (bytes > 0) std::memset(call.out[0], 0, static_cast<std::size_t>(bytes));
  return true;
}

}  // namespace

void prepare_complex_conj(const PrepareCall& call) {
  prepare_map<conj_of<float>, conj_of<double>>(call);
}
void prepare_complex_real(const PrepareCall& call) {
  prepare_map<real_of<float>, real_of<double>>(call);
}
void prepare_complex_imag(const PrepareCall& call) {
  prepare_map<imag_of<float>, imag_of<double>>(call);
}
void prepare_complex_abs(const PrepareCall& call) {
  prepare_map<abs_of<float>, abs_of<double>>(call);
}

void prepare_zeros(const PrepareCall& call) {
  auto p = etude::internal::make_ref<CountParams>();
  p->count = call.out.results[0]->bytes();
  call.set(run_zeros, p);
}

}  // namespace etude::kernels::cpu
