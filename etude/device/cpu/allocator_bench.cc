// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

#include "etude/core/buffer.h"
#include "etude/device/cpu/float_mode.h"
#include "etude/device/cpu/parallel.h"

namespace etude::internal {
namespace {

// Allocation and free of one block, the list warm.
void block(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    void* memory = allocate_block(bytes);
    benchmark::DoNotOptimize(memory);
    free_block(memory, bytes);
  }
}
BENCHMARK(block)->Arg(64)->Arg(128)->Arg(4160)->Arg(16448);

// Many blocks live at once, as on a tape: per block, allocation and free.
void many_blocks(benchmark::State& state) {
  std::vector<void*> blocks(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    for (void*& b : blocks) b = allocate_block(128);
    for (void* b : blocks) free_block(b, 128);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(many_blocks)->Arg(1000)->Arg(20000);

void buffer(benchmark::State& state) {
  for (auto _ : state) {
    Buffer* memory = allocate_buffer(state.range(0));
    benchmark::DoNotOptimize(memory->data);
    free_buffer(memory);
  }
}
BENCHMARK(buffer)->Arg(8 << 10)->Arg(64 << 10)->Arg(256 << 10)->Arg(1 << 20)->Arg(64 << 20);

void counting(benchmark::State& state) {
  for (auto _ : state) {
    count_tensor(+1);
    count_tensor(-1);
  }
}
BENCHMARK(counting);

void stats(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(memory_stats());
}
BENCHMARK(stats);

void float_scope(benchmark::State& state) {
  for (auto _ : state) {
    const FloatModeScope scope;
    benchmark::ClobberMemory();
  }
}
BENCHMARK(float_scope);

void nested_float_scope(benchmark::State& state) {
  const FloatModeScope outer;
  for (auto _ : state) {
    const FloatModeScope scope;
    benchmark::ClobberMemory();
  }
}
BENCHMARK(nested_float_scope);

// range(0): threads. Two chunks without work: the cost of a parallel region.
void empty_region(benchmark::State& state) {
  set_thread_count(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    parallel_for(2, 100, [](int64_t chunk) { benchmark::DoNotOptimize(chunk); });
  }
  set_thread_count(0);
}
BENCHMARK(empty_region)->Arg(1)->Arg(2)->UseRealTime();

// A loop of 0.9 ms in 32 chunks.
void long_loop(benchmark::State& state) {
  set_thread_count(static_cast<int>(state.range(0)));
  std::vector<float> values(32 << 10, 1.0F);
  for (auto _ : state) {
    parallel_for(32, 900, [&](int64_t chunk) {
      float* v = values.data() + (chunk << 10);
      for (int round = 0; round < 40; ++round) {
        for (int i = 0; i < 1024; ++i) v[i] = v[i] * 0.999F + 0.001F;
        benchmark::ClobberMemory();
      }
    });
  }
  set_thread_count(0);
}
BENCHMARK(long_loop)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace etude::internal
