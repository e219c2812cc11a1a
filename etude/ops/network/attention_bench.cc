// SPDX-License-Identifier: Apache-2.0
// Attention of 8 heads of 64 numbers over the length of the sequence, forward and with its
// gradient: time, and the peak memory of the call besides operands and results. It grows linearly
// with the length; the matrix of scores would grow with its square.
#include <benchmark/benchmark.h>

#include "etude/autodiff/gradient.h"
#include "etude/core/buffer.h"
#include "etude/ops.h"
#include "etude/ops/random.h"

namespace etude {
namespace {

using State = benchmark::State;

constexpr int64_t kHeads = 8, kSize = 64;

template <bool causal>
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v) {
  return nn::scaled_dot_product_attention(q, k, v, {.causal = causal});
}

Tensor data(int64_t length) { return random::normal({kHeads, length, kSize}); }

// Times `run`; then measures the peak memory of one more call, including its results.
template <class F>
void measure(State& state, int64_t passes, const F& run) {
  for (auto _ : state) benchmark::DoNotOptimize(run());
  const MemoryScope memory;
  benchmark::DoNotOptimize(run());
  state.counters["peak_bytes"] = static_cast<double>(memory.stats().peak_bytes);
  const double flops = static_cast<double>(passes * 2 * kHeads * kSize) *
                       static_cast<double>(state.range(0) * state.range(0));
  state.counters["flops"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

template <bool causal>
void forward(State& state) {
  const Tensor q = data(state.range(0)), k = data(state.range(0)), v = data(state.range(0));
  measure(state, 2, [&] { return attend<causal>(q, k, v); });
}

template <bool causal>
void with_gradient(State& state) {
  const Tensor q = data(state.range(0)), k = data(state.range(0)), v = data(state.range(0));
  const auto slope = gradient([](const Tensor& q, const Tensor& k, const Tensor& v) {
    return sum(attend<causal>(q, k, v));
  });
  measure(state, 7, [&] { return slope(q, k, v); });
}

BENCHMARK(forward<false>)->RangeMultiplier(2)->Range(256, 4096);
BENCHMARK(forward<true>)->RangeMultiplier(2)->Range(256, 4096);
BENCHMARK(with_gradient<false>)->RangeMultiplier(2)->Range(256, 4096);
BENCHMARK(with_gradient<true>)->RangeMultiplier(2)->Range(256, 4096);

}  // namespace
}  // namespace etude
