// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/merge.h"

#include <functional>
#include <string_view>
#include <unordered_map>

#include "etude/base/internal/hash.h"
#include "etude/core/internal/host_door.h"
#include "etude/passes/graph_copy.h"

namespace etude::internal {
namespace {

// In bytes. Longer constants are merged only if they share their memory.
constexpr int64_t kMostCompared = 4096;

uint64_t hash_of(const Tensor& x) {
  const int64_t bytes = x.type()->bytes();
  // Host code does not read elements of other devices: their copies are compared by address.
  if (bytes > kMostCompared || !x.device().is_home()) {
    return mix(x.type()->id(), reinterpret_cast<uintptr_t>(TensorAccess::data(x)));
  }
  const auto* data = static_cast<const char*>(host_elements(x));
  const uint64_t of_data = std::hash<std::string_view>()({data, static_cast<std::size_t>(bytes)});
  return mix(x.type()->id(), of_data);
}

bool are_one(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type()) return false;
  if (a.type()->bytes() > kMostCompared || !a.device().is_home())
    return TensorAccess::data(a) == TensorAccess::data(b);
  return same_value(a, b);
}

void merge_constants(GraphCopy& copy) {
  const Graph& graph = copy.graph();
  std::unordered_multimap<uint64_t, GraphValue> known;
  for (GraphValue v = graph.first_constant(); v < graph.first_result(); ++v) {
    const auto value = [&](GraphValue c) -> const Tensor& {
      return graph.constants()[c - graph.first_constant()];
    };
    const uint64_t hash = hash_of(value(v));
    auto [at, end] = known.equal_range(hash);
    while (at != end && !are_one(value(at->second), value(v))) ++at;
    if (at != end) {
      copy.set(v, copy.at(at->second));
    } else {
      known.emplace(hash, v);
    }
  }
}

}  // namespace

GraphRef merge_equal_nodes(const Graph& graph) {
  GraphCopy copy(graph);
  copy.build().merge_equal_nodes();
  merge_constants(copy);
  for (std::size_t i = 0; i < graph.size(); ++i) copy.copy(graph.node(i));
  GraphRef merged = copy.finish();
  const bool is_same =
      merged->size() == graph.size() && merged->constants().size() == graph.constants().size();
  return is_same ? GraphRef(&graph) : merged;
}

}  // namespace etude::internal
