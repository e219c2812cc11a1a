// SPDX-License-Identifier: Apache-2.0
#include "etude/plan/cluster_code.h"

#include <array>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "etude/base/internal/fork_lock.h"

namespace etude::internal {
namespace {

// The content of to_string() as bytes: plans look up each cluster that they find.
class Key {
 public:
  explicit Key(const Cluster& cluster) {
    add(cluster.is_loop, cluster.is_reverse, cluster.values.size(), cluster.calls.size());
    for (const Cluster::Value& value : cluster.values) add(value.count, value.is_bool);
    add_places(cluster.loads);
    add_places(cluster.stores);
    for (const Cluster::Call& call : cluster.calls) add_call(call);
    for (const Cluster::Carried& c : cluster.carried) {
      add(c.before, c.after);
      const std::array places = {c.from, c.to};
      add_places(places);
    }
  }
  std::string bytes;

 private:
  template <class... T>
  void add(const T&... numbers) {
    (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
  }
  void add_places(std::span<const Cluster::Place> places) {
    add(places.size());
    for (const auto& p : places) add(p.value, p.slot, p.offset, p.stride);
  }
  void add_call(const Cluster::Call& call) {
    const SmallCall& what = call.what;
    add(what.kind, call.result, call.operands.size(), what.at.size(), what.params.size());
    for (const uint32_t v : call.operands) add(v);
    for (const auto& list : what.at) {
      add(list.size());
      bytes.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof list[0]);
    }
    add(what.depth, what.strides[0], what.strides[1], what.combine, what.divisor,
        what.passes.size());
    for (const auto& p : what.passes) add(p.outer, p.size, p.inner);
    if (what.program == nullptr) return;
    const scalar::Program& program = *what.program;
    add(program.size, program.operands, program.bools);
    for (std::size_t k = 0; k < static_cast<std::size_t>(program.size); ++k) {
      const scalar::Node& node = program.nodes[k];
      add(node.fn, node.args[0], node.args[1], node.args[2], node.constant);
    }
  }
};

}  // namespace

const ClusterCode* ClusterCode::of(Cluster cluster) {
  constexpr std::size_t kMost = 4096;
  static auto& mutex = *new ForkSafeMutex;
  static auto* const all = new std::unordered_map<std::string, const ClusterCode*>;
#ifdef ETUDE_ASSERTIONS
  check(cluster);
#endif
  const ClusterCode* code = nullptr;
  Key key(cluster);
  {
    const std::lock_guard lock(mutex);
    const auto [at, is_new] = all->try_emplace(std::move(key.bytes), nullptr);
    if (is_new && all->size() > kMost) {
      all->erase(at);
      return nullptr;
    }
    if (is_new) at->second = new ClusterCode(std::move(cluster));
    code = at->second;
  }
  if (const std::optional<Tier> tier = fixed_tier(); tier && code->tier() < *tier) {
    make_code_now(*code, *tier);
  }
  return code;
}

}  // namespace etude::internal
