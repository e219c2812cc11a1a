// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/node_times.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "etude/core/call/values.h"
#include "etude/core/context/context.h"

namespace etude::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 7;  // the first prepares kernels
constexpr double kMostSeconds = 3;

double micros_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count() * 1e6;
}

// One run. All values stay until its end, so that no call pays for the release of memory.
void run_once(const Graph& graph, std::span<const Tensor> inputs, std::vector<double>& best) {
  std::vector<Tensor> values(graph.value_count());
  std::ranges::copy(inputs, values.begin());
  std::ranges::copy(graph.constants(), values.begin() + graph.first_constant());
  const Tensor absent;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    OperandList in;
    for (const GraphValue v : node.operands) in.add(v == kNoValue ? absent : values[v]);
    const Clock::time_point start = Clock::now();
    Values out = execute(node.op, in.view(), node.attrs, node.where);
    best[i] = std::min(best[i], micros_since(start));
    for (uint32_t r = 0; r < node.results; ++r) values[node.first_result + r] = std::move(out[r]);
  }
}

}  // namespace

std::vector<double> node_times(const Graph& graph, std::span<const Tensor> inputs) {
  std::vector<const Type*> types;
  for (const Tensor& x : inputs) types.push_back(x.has_value() ? x.type() : nullptr);
  internal::require_inputs(graph, types);
  std::vector<double> best(graph.size(), 1e300);
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < kRuns && (i < 2 || micros_since(start) < 1e6 * kMostSeconds); ++i) {
    run_once(graph, inputs, best);
  }
  return best;
}

}  // namespace etude::tools
