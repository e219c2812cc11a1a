// SPDX-License-Identifier: Apache-2.0
#include "etude/plan/cluster_maker.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/plan/cluster_code.h"

namespace etude::internal {
namespace {

constexpr std::size_t kForEver = ~std::size_t{0};

bool is_small(const Type* type) {
  const bool is_known = type->dtype() == kFloat32 || type->dtype() == kBool;
  return is_known && type->device() == Device() && type->count() >= 1 &&
         type->count() <= static_cast<int64_t>(Cluster::kMostElements);
}

}  // namespace

// A cluster under construction. Values are identified by the bytes that they show, so a value and a
// view of the whole value are the same.
class ClusterMaker::Draft {
 public:
  explicit Draft(const ClusterMaker& maker) : maker_(maker) {}

  // Value v, which the cluster has already or loads from `place`.
  uint32_t value(GraphValue v, const Cluster::Place& place) {
    const Shown shown = *maker_.shown_[v];
    if (const auto known = ids_.find(shown); known != ids_.end()) return known->second;
    const Type* const type = maker_.graph_.type(v);
    const auto whole = roots_.find(shown.root);
    const uint32_t id = add(shown, type->dtype());
    if (whole == roots_.end()) {
      cluster_.loads.push_back(place);
      cluster_.loads.back().value = id;
    } else {  // a part of a value of the cluster
      SmallCall part;
      auto& list = part.at.emplace_back(static_cast<std::size_t>(shown.count));
      std::iota(list.begin(), list.end(), static_cast<uint16_t>(shown.first));
      cluster_.calls.push_back({std::move(part), {whole->second}, id});
    }
    return id;
  }

  // A value that the cluster computes, by a call or in the previous step.
  uint32_t make(GraphValue root) {
    const Type* const type = maker_.graph_.type(root);
    return roots_[root] = add({root, 0, type->count()}, type->dtype());
  }

  void call(const SmallCall& what, std::vector<uint32_t> operands, uint32_t result) {
    cluster_.calls.push_back({what, std::move(operands), result});
  }

  Cluster& cluster() { return cluster_; }

 private:
  uint32_t add(const Shown& shown, DType dtype) {
    const auto id = static_cast<uint32_t>(cluster_.values.size());
    cluster_.values.push_back({static_cast<uint32_t>(shown.count), dtype == kBool});
    ids_.emplace(shown, id);
    return id;
  }

  const ClusterMaker& maker_;
  Cluster cluster_;
  std::map<Shown, uint32_t> ids_;
  std::map<GraphValue, uint32_t> roots_;  // those made here
};

ClusterMaker::ClusterMaker(const Graph& graph, std::span<const RefPtr<Prepared>> calls)
    : graph_(graph),
      calls_(calls),
      described_(graph.size()),
      shown_(graph.value_count()),
      last_read_(graph.value_count(), 0) {
  find_shown();
  for (std::size_t i = 0; i < graph.size(); ++i) describe(i);
}

void ClusterMaker::find_shown() {
  std::vector<GraphValue> root(graph_.value_count());
  std::vector<int64_t> bytes(graph_.value_count(), 0);
  std::iota(root.begin(), root.end(), GraphValue{0});
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    const Graph::Node node = graph_.node(i);
    if (is_view(i)) {
      const GraphValue of = node.operands[static_cast<std::size_t>(calls_[i]->view_of)];
      root[node.first_result] = root[of];
      bytes[node.first_result] = bytes[of] + calls_[i]->view_offset;
      continue;
    }
    for (const GraphValue v : node.operands) {
      if (v != kNoValue) last_read_[root[v]] = i;
    }
  }
  for (const GraphValue v : graph_.outputs()) {
    if (v != kNoValue) last_read_[root[v]] = kForEver;
  }
  for (GraphValue v = 0; v < root.size(); ++v) {
    const Type* const type = graph_.type(v);
    if (type == nullptr || !is_small(type)) continue;
    if (graph_.type(root[v])->dtype() != type->dtype()) continue;
    shown_[v] = Shown{root[v], bytes[v] / itemsize(type->dtype()), type->count()};
  }
}

void ClusterMaker::describe(std::size_t i) {
  const Graph::Node node = graph_.node(i);
  if (is_view(i) || node.results != 1 || !shown_[node.first_result]) return;
  InlineVector<const Type*, 6> types;
  for (const GraphValue v : node.operands) {
    if (v == kNoValue || !shown_[v]) return;
    types.push_back(graph_.type(v));
  }
  SmallCall call;
  if (describe_call(*calls_[i], {types.data(), types.size()}, call))
    described_[i] = std::move(call);
}

std::size_t ClusterMaker::work_of(std::size_t i) const {
  return Cluster::work(*described_[i],
                       static_cast<std::size_t>(graph_.type(graph_.node(i).first_result)->count()));
}

std::vector<ClusterMaker::Range> ClusterMaker::ranges(const std::set<std::size_t>& borders) const {
  std::vector<Range> out;
  for (std::size_t i = 0; i < graph_.size();) {
    if (!described_[i] || work_of(i) > Cluster::kMostWork) {
      ++i;
      continue;
    }
    Range range{i, i};
    std::size_t work = 0, calls = 0;
    for (; i < graph_.size() && (described_[i] || is_view(i)); ++i) {
      if (i > range.first && borders.contains(i)) break;
      if (is_view(i)) continue;
      work += work_of(i);
      if (work > Cluster::kMostWork) break;
      ++calls;
      range.last = i + 1;
    }
    if (calls > 1) out.push_back(range);  // the first and the last node are no views
  }
  return out;
}

std::string ClusterMaker::why_not(std::size_t i) const {
  const Graph::Node node = graph_.node(i);
  if (described_[i]) {
    const std::size_t work = work_of(i);
    if (work <= Cluster::kMostWork)
      return "the calls beside it are in no cluster, and one call alone gains nothing";
    return fmt::format("its work is {}, of at most {} in one function", work, Cluster::kMostWork);
  }
  if (node.results != 1) return "it has several results";
  const auto too_large = [&](GraphValue v) {
    return fmt::format("{} is more than {} elements of float32 or bool",
                       graph_.type(v)->to_string(), Cluster::kMostElements);
  };
  if (!shown_[node.first_result]) return too_large(node.first_result);
  for (const GraphValue v : node.operands) {
    if (v == kNoValue) return "an operand is absent";
    if (!shown_[v]) return too_large(v);
  }
  return "its kernel does not describe how it computes an element";
}

Cluster ClusterMaker::cluster_of(const Range& range, const SlotOf& slot_of) const {
  Draft draft(*this);
  for (std::size_t i = range.first; i < range.last; ++i) {
    if (is_view(i)) continue;
    const Graph::Node node = graph_.node(i);
    std::vector<uint32_t> operands;
    for (std::size_t o = 0; o < node.operands.size(); ++o) {
      const uint32_t slot = slot_of(i, static_cast<int>(o));
      operands.push_back(draft.value(node.operands[o], {.slot = slot}));
    }
    const uint32_t result = draft.make(node.first_result);
    draft.call(*described_[i], std::move(operands), result);
    if (last_read_[node.first_result] >= range.last) {
      draft.cluster().stores.push_back({.value = result, .slot = slot_of(i, -1)});
    }
  }
  return std::move(draft.cluster());
}

std::optional<Cluster> ClusterMaker::loop_of(const LoopShape& loop) const {
  std::size_t work = 0;
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    if (is_view(i)) continue;
    if (!described_[i]) return std::nullopt;
    work += work_of(i);
  }
  const std::size_t inputs = graph_.inputs().size(), outputs = graph_.outputs().size();
  const std::size_t slots = inputs + outputs + graph_.constants().size();
  const bool is_known = std::ranges::all_of(
      graph_.outputs(), [this](GraphValue v) { return v != kNoValue && shown_[v].has_value(); });
  if (!is_known || work > Cluster::kMostWork || slots > Cluster::kMostSlots) return std::nullopt;
  for (GraphValue c = 0; c < loop.carried; ++c) {
    if (!shown_[c]) return std::nullopt;
  }

  Draft draft(*this);
  Cluster& cluster = draft.cluster();
  cluster.is_loop = true;
  cluster.is_reverse = loop.is_reverse;
  for (GraphValue c = 0; c < loop.carried; ++c) {
    const uint32_t before = draft.make(c);
    cluster.carried.push_back({.before = before, .from = {before, c}});
  }
  const auto value = [&](GraphValue v) {
    const Shown& shown = *shown_[v];
    const Type* const type = graph_.type(shown.root);
    const bool is_constant = shown.root >= graph_.first_constant();
    Cluster::Place place{.slot = static_cast<uint32_t>(shown.root + (is_constant ? outputs : 0))};
    place.offset = shown.first * itemsize(type->dtype());
    const bool is_row = shown.root >= loop.carried && shown.root < loop.carried + loop.rows;
    if (is_row) place.stride = type->bytes();
    return draft.value(v, place);
  };
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    if (is_view(i)) continue;
    const Graph::Node node = graph_.node(i);
    std::vector<uint32_t> operands;
    for (const GraphValue v : node.operands) operands.push_back(value(v));
    draft.call(*described_[i], std::move(operands), draft.make(node.first_result));
  }
  for (std::size_t y = 0; y < outputs; ++y) {
    const GraphValue v = graph_.outputs()[y];
    Cluster::Place place{.value = value(v), .slot = static_cast<uint32_t>(inputs + y)};
    if (y < loop.carried) {
      cluster.carried[y].after = place.value;
      cluster.carried[y].to = place;
      continue;
    }
    place.stride = graph_.type(v)->bytes();
    cluster.stores.push_back(place);
  }
  return std::move(cluster);
}

}  // namespace etude::internal
