// SPDX-License-Identifier: Apache-2.0
// Kernels by family over their sizes, through the calls that users make: items a second are
// elements or, for products and convolutions, fused multiply-adds.
#include <benchmark/benchmark.h>

#include "etude/ops.h"
#include "etude/ops/random.h"

namespace etude {
namespace {

using State = benchmark::State;

Tensor data(const Shape& shape) { return random::uniform(shape, {.low = .5, .high = 1.5}); }

// A family: its calls on n numbers.
template <class F>
void over_sizes(const char* name, F f, int64_t most = 100000000) {
  benchmark::RegisterBenchmark(name,
                               [f](State& state) {
                                 const Tensor x = data({state.range(0)});
                                 for (auto _ : state) benchmark::DoNotOptimize(f(x));
                                 state.SetItemsProcessed(state.iterations() * state.range(0));
                               })
      ->RangeMultiplier(10)
      ->Range(1, most);
}

// The same on rows of 256.
template <class F>
void over_rows(const char* name, F f) {
  benchmark::RegisterBenchmark(name,
                               [f](State& state) {
                                 const Tensor x = data({state.range(0), 256});
                                 for (auto _ : state) benchmark::DoNotOptimize(f(x));
                                 state.SetItemsProcessed(state.iterations() * state.range(0) * 256);
                               })
      ->RangeMultiplier(10)
      ->Range(1, 100000);
}

void register_families() {
  over_sizes("add", [](const Tensor& x) { return x + x; });
  over_sizes("number", [](const Tensor& x) { return x * 2.0; });
  over_sizes("tanh", [](const Tensor& x) { return tanh(x); });
  over_sizes("exp", [](const Tensor& x) { return exp(x); });
  over_sizes("sin", [](const Tensor& x) { return sin(x); });
  over_sizes("compare", [](const Tensor& x) { return x < 1.0; });
  over_sizes("sum", [](const Tensor& x) { return sum(x); });
  over_sizes(
      "cumulative_sum", [](const Tensor& x) { return cumulative_sum(x); }, 1000000);
  over_sizes(
      "sort", [](const Tensor& x) { return sort(x); }, 1000000);
  over_sizes(
      "flip", [](const Tensor& x) { return flip(x); }, 10000000);
  over_sizes(
      "convert", [](const Tensor& x) { return astype(x, kFloat16); }, 10000000);
  over_sizes(
      "uniform", [](const Tensor& x) { return random::uniform(x.shape()); }, 10000000);
  over_rows("rows of sum", [](const Tensor& x) { return sum(x, {.axis = {1}}); });
  over_rows("columns of sum", [](const Tensor& x) { return sum(x, {.axis = {0}}); });
  over_rows("softmax", [](const Tensor& x) { return nn::softmax(x); });
  over_rows("layer_normalize", [](const Tensor& x) { return nn::layer_normalize(x, {-1}); });
  over_rows("transpose", [](const Tensor& x) { return permute_dims(x, {1, 0}); });
  over_rows("broadcast", [](const Tensor& x) {
    static const Tensor row = data({256});
    return x + row;
  });
}

[[maybe_unused]] const bool kRegistered = (register_families(), true);

void product(State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const Tensor x = data({m, k}), y = data({k, n});
  for (auto _ : state) benchmark::DoNotOptimize(matmul(x, y));
  state.SetItemsProcessed(state.iterations() * m * n * k);
}
BENCHMARK(product)
    ->Args({2, 2, 2})
    ->Args({16, 16, 16})
    ->Args({64, 64, 64})
    ->Args({256, 256, 256})
    ->Args({1024, 1024, 1024})
    ->Args({32, 256, 784})
    ->Args({128, 10, 256})
    ->Args({1024, 768, 256})
    ->Args({1, 1024, 1024})
    ->Args({1024, 1, 1024});

// Images [n, size, size, channels] under 3x3 or 5x5 filters, with padding.
void convolution(State& state) {
  const int64_t n = state.range(0), size = state.range(1), in = state.range(2),
                out = state.range(3), window = state.range(4);
  const Tensor x = data({n, size, size, in}), w = data({window, window, in, out});
  for (auto _ : state) benchmark::DoNotOptimize(nn::conv2d(x, w, {.padding = "same"}));
  state.SetItemsProcessed(state.iterations() * n * size * size * in * out * window * window);
}
BENCHMARK(convolution)
    ->Args({128, 28, 1, 6, 5})
    ->Args({128, 14, 6, 16, 5})
    ->Args({32, 32, 3, 16, 3})
    ->Args({32, 32, 16, 16, 3})
    ->Args({32, 16, 32, 32, 3})
    ->Args({32, 8, 64, 64, 3})
    ->Args({8, 56, 64, 64, 3});

void pooling(State& state) {
  const Tensor x = data({128, 28, 28, state.range(0)});
  for (auto _ : state) benchmark::DoNotOptimize(nn::max_pool2d(x, {2, 2}));
  state.SetItemsProcessed(state.iterations() * x.size());
}
BENCHMARK(pooling)->Arg(6)->Arg(64);

}  // namespace
}  // namespace etude
