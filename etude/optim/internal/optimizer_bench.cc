// SPDX-License-Identifier: Apache-2.0
// One update of all parameters of a model.
#include <benchmark/benchmark.h>

#include "etude/core/create.h"
#include "etude/diff/differentiable.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "etude/optim/sgd.h"

namespace etude::optim {
namespace {

// `count` matrices of `size` numbers each.
std::vector<Tensor> parameters(int64_t count, int64_t size) {
  std::vector<Tensor> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(full({size}, .5));
  return out;
}

template <class Optimizer>
void update(benchmark::State& state) {
  std::vector<Tensor> model = parameters(state.range(0), state.range(1));
  const std::vector<Tensor> gradients = parameters(state.range(0), state.range(1));
  Optimizer optimizer;
  for (auto _ : state) optimizer.update(model, gradients);
  state.SetItemsProcessed(state.iterations() * state.range(0) * state.range(1));
}
BENCHMARK(update<SGD>)->Args({10, 100})->Args({200, 10000})->Args({4, 10000000});
BENCHMARK(update<Adam>)->Args({10, 100})->Args({200, 10000})->Args({4, 10000000});

}  // namespace
}  // namespace etude::optim
