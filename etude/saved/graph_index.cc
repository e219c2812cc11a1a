// SPDX-License-Identifier: Apache-2.0
#include "etude/saved/graph_index.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "etude/base/internal/hash.h"

namespace etude::saved::internal {
namespace {

using etude::internal::mix;

uint64_t hash_of(std::string_view text) { return std::hash<std::string_view>()(text); }

// Whether a graph is for many sizes, and its phase.
uint64_t start(Phase phase, bool is_symbolic) {
  return mix(static_cast<uint64_t>(phase), is_symbolic ? 1 : 2);
}

// The part of a type that a call and its graph have in common.
uint64_t hash_of(const Type* type, bool is_symbolic) {
  if (!is_symbolic) return std::hash<const void*>()(type);
  return mix(static_cast<uint64_t>(type->dtype()), static_cast<uint64_t>(type->rank()));
}

// The hash of a set of arguments: a sum, since their order differs between graph and call.
class ArgumentsHash {
 public:
  explicit ArgumentsHash(bool is_symbolic) : is_symbolic_(is_symbolic) {}

  void add_path(std::string_view path) { sum_ += mix(hash_of(path), 1); }
  void add_host(std::string_view path, std::string_view text) {
    sum_ += mix(mix(hash_of(path), 2), hash_of(text));
  }
  // A number may become a tensor without axes, so a type without axes does not count.
  void add_tensor(std::string_view path, const Type* type) {
    if (type->rank() == 0) return add_path(path);
    sum_ += mix(mix(hash_of(path), 3), internal::hash_of(type, is_symbolic_));
  }
  uint64_t of(Phase phase) const { return mix(start(phase, is_symbolic_), sum_); }

 private:
  const bool is_symbolic_;
  uint64_t sum_ = 0;
};

std::span<const uint32_t> found_in(const std::unordered_map<uint64_t, GraphIndex::Numbers>& table,
                                   uint64_t hash) {
  const auto found = table.find(hash);
  return found == table.end() ? std::span<const uint32_t>() : found->second;
}

}  // namespace

GraphIndex::GraphIndex(const std::deque<LoadedGraph>& graphs) {
  uint32_t number = 0;
  for (const LoadedGraph& graph : graphs) add(graph, number++);
}

void GraphIndex::add(const LoadedGraph& graph, uint32_t number) {
  const SavedGraph& saved = *graph.saved;
  const bool is_symbolic = graph.is_symbolic();
  ArgumentsHash named(is_symbolic);
  uint64_t types = start(saved.phase, is_symbolic);
  std::size_t input = 0;
  for (const SavedTensor& x : saved.tensors) {
    if (x.is_absent) continue;
    const Type* const type = graph.types[input++];
    if (x.state >= 0) continue;
    named.add_tensor(x.path, type);
    types = mix(types, hash_of(type, is_symbolic));
  }
  for (const SavedVariableArgument& v : saved.variable_arguments) named.add_path(v.path);
  ArgumentsHash whole = named;
  std::vector<std::string> hosts;
  for (const SavedHost& host : saved.hosts) {
    whole.add_host(host.path, host.text);
    hosts.push_back(host.path);
  }
  std::ranges::sort(hosts);
  host_paths_.insert(std::move(hosts));
  by_names_[named.of(saved.phase)].push_back(number);
  by_call_[whole.of(saved.phase)].push_back(number);
  if (graph.is_plain) {
    plain_[types].push_back(number);
  } else if (!is_symbolic) {
    has_other_form_[static_cast<std::size_t>(saved.phase)] = true;
  }
}

std::span<const uint32_t> GraphIndex::of_tensors(std::span<const Tensor* const> arguments,
                                                 bool is_symbolic) const {
  uint64_t types = start(ambient().phase, is_symbolic);
  for (const Tensor* x : arguments) {
    if (!x->has_value()) return {};
    types = mix(types, hash_of(type_at_home(*x), is_symbolic));
  }
  return found_in(plain_, types);
}

GraphIndex::Numbers GraphIndex::of_leaves(const std::vector<CallLeaf>& leaves, HostValues hosts,
                                          bool is_symbolic) const {
  const auto hash_with = [&](const std::vector<std::string>& host_paths) {
    ArgumentsHash out(is_symbolic);
    for (const CallLeaf& leaf : leaves) {
      const bool is_tensor = leaf.tensor != nullptr;
      if (is_tensor && !leaf.tensor->has_value()) continue;
      if (is_tensor) {
        out.add_tensor(leaf.path, type_at_home(*leaf.tensor));
      } else if (leaf.host != nullptr && std::ranges::binary_search(host_paths, leaf.path)) {
        out.add_host(leaf.path, leaf.host->text());
      } else {
        out.add_path(leaf.path);
      }
    }
    return out.of(ambient().phase);
  };
  Numbers out;
  const auto add_all = [&](std::span<const uint32_t> more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  if (hosts == HostValues::kOfGraph) {
    add_all(found_in(by_names_, hash_with({})));
    return out;
  }
  for (const std::vector<std::string>& paths : host_paths_) {
    add_all(found_in(by_call_, hash_with(paths)));
  }
  // Hashes of several sets may be equal: the number of a graph may come twice.
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

}  // namespace etude::saved::internal
