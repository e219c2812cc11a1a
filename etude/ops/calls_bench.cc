// SPDX-License-Identifier: Apache-2.0
// The cost of a call without its kernel: dispatch, numbers as operands, attributes, contexts,
// copies.
#include <benchmark/benchmark.h>

#include "etude/autodiff/gradient_tape.h"
#include "etude/eager/profile.h"
#include "etude/ops.h"

namespace etude {
namespace {

const Tensor a({{1.0f, 2.0f}, {3.0f, 4.0f}}), b({{.5f, .5f}, {.25f, 1.0f}});

void call_of_two(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(call_of_two);

void call_with_a_number(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(a + 2.0);
}
BENCHMARK(call_with_a_number);

void call_with_attributes(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(sum(a, {.axis = {1}}));
}
BENCHMARK(call_with_attributes);

void call_in_place(benchmark::State& state) {
  Tensor x = a;
  for (auto _ : state) x += b;
}
BENCHMARK(call_in_place);

void copy_of_a_tensor(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Tensor(a));
}
BENCHMARK(copy_of_a_tensor);

void call_while_profiled(benchmark::State& state) {
  const ProfileScope scope;
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(call_while_profiled)->Iterations(200000);

// Of one of n calls, recorded.
void record(benchmark::State& state) {
  for (auto _ : state) {
    GradientTape tape;
    tape.watch(a);
    Tensor y = a;
    for (int i = 0; i < state.range(0); ++i) y = y * b;
    benchmark::DoNotOptimize(y);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(record)->Arg(1)->Arg(100)->Arg(10000);

// The same, and swept.
void record_and_sweep(benchmark::State& state) {
  for (auto _ : state) {
    GradientTape tape;
    tape.watch(a);
    Tensor y = a;
    for (int i = 0; i < state.range(0); ++i) y = y * b;
    benchmark::DoNotOptimize(tape.gradient(y, a));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(record_and_sweep)->Arg(1)->Arg(100)->Arg(10000);

}  // namespace
}  // namespace etude
