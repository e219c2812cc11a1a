// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/recompute.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>
#include <vector>

#include "etude/core/op/registry.h"
#include "etude/passes/decisions.h"
#include "etude/passes/facts.h"
#include "etude/passes/graph_copy.h"
#include "etude/passes/lifetimes.h"

namespace etude::internal {
namespace {

constexpr int64_t kLeastFall = 32;     // this part of the most bytes alive must be saved
constexpr int64_t kSmall = 8;          // a value of this part of another may live longer for it
constexpr std::size_t kMostNodes = 8;  // to compute one value again
constexpr std::size_t kMostUses = 64;  // of a value that is computed again
constexpr int kRounds = 4;

// The live bytes at each step. Each query costs the logarithm of the number of steps.
class LiveCurve {
 public:
  explicit LiveCurve(const std::vector<int64_t>& bytes)
      : leaves_(std::bit_ceil(std::max<std::size_t>(bytes.size(), 1))),
        most_(2 * leaves_),
        added_(2 * leaves_) {
    std::ranges::copy(bytes, most_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (std::size_t k = leaves_ - 1; k > 0; --k) settle(k);
  }
  // Adds to the steps [first, end).
  void add(std::size_t first, std::size_t end, int64_t bytes) {
    add(1, 0, leaves_, first, end, bytes);
  }
  int64_t most() const { return most_[1]; }
  // The first step with the most live bytes.
  std::size_t peak() const {
    std::size_t k = 1;
    while (k < leaves_) k = most_[2 * k] >= most_[2 * k + 1] ? 2 * k : 2 * k + 1;
    return k - leaves_;
  }

 private:
  void settle(std::size_t k) { most_[k] = std::max(most_[2 * k], most_[2 * k + 1]) + added_[k]; }
  void add(std::size_t k, std::size_t from, std::size_t to, std::size_t first, std::size_t end,
           int64_t bytes) {
    if (end <= from || to <= first) return;
    if (first <= from && to <= end) {
      most_[k] += bytes;
      added_[k] += bytes;
      return;
    }
    const std::size_t middle = from + (to - from) / 2;
    add(2 * k, from, middle, first, end, bytes);
    add(2 * k + 1, middle, to, first, end, bytes);
    settle(k);
  }

  std::size_t leaves_;
  std::vector<int64_t> most_, added_;  // of a part of the steps; to all of it
};

// An interval between two steps in which a value has no readers.
struct Gap {
  GraphValue value;
  uint32_t after, before;  // these two read it
  double worth = 0;        // bytes that are saved for each that computing it again moves
};

// The requirements for recomputing a value before a step.
struct Again {
  std::vector<GraphValue> made;    // computed again; all are roots
  std::vector<GraphValue> read;    // alive at that step
  std::vector<GraphValue> longer;  // kept alive until that step
  int64_t extra = 0;               // bytes of these
  int64_t moved = 0;               // bytes that the nodes read and write
};

class Recomputation {
 public:
  Recomputation(const Graph& graph, const RecomputeLimits& limits)
      : graph_(graph),
        limits_(limits),
        lives_(graph),
        curve_(lives_.live_bytes()),
        uses_(graph.value_count()),
        starts_(graph.value_count()),
        views_(graph.value_count()) {}

  GraphRef run() {
    const int64_t before = curve_.most();
    if (before < limits_.least_peak) return GraphRef(&graph_);
    find_uses();
    const auto enough = static_cast<int64_t>(static_cast<double>(before) * limits_.enough);
    for (int round = 0; round < kRounds && take_gaps(enough); ++round) {
    }
    if (again_.empty()) return GraphRef(&graph_);
    GraphRef out = rebuild();
    const auto is_lower = [&] {
      return Lifetimes(*out).most_bytes() <= before - before / kLeastFall;
    };
    return !limits_.only_if_lower || is_lower() ? out : GraphRef(&graph_);
  }

 private:
  static constexpr uint32_t kForEver = ~uint32_t{0};

  // The steps that read a root directly or through a view. Views are not steps.
  void find_uses() {
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Graph::Node node = graph_.node(i);
      if (node.results == 1 && lives_.is_view(node.first_result)) {
        views_[lives_.root[node.first_result]].push_back(node.first_result);
        continue;
      }
      for (const GraphValue v : node.operands) {
        if (v == kNoValue) continue;
        std::vector<uint32_t>& uses = uses_[lives_.root[v]];
        if (uses.empty() || uses.back() != i) uses.push_back(static_cast<uint32_t>(i));
      }
    }
  }

  bool may_be_again(GraphValue v) const {
    return lives_.is_placed(v) && is_cheap(graph_.node(lives_.maker[v]).op) &&
           uses_[v].size() <= kMostUses && views_[v].size() <= kMostUses;
  }

  // The last step that reads the copy of `v` that exists at a step, before it is recomputed.
  uint32_t end_of_life(GraphValue v, uint32_t at) const {
    if (lives_.is_output[v] || graph_.is_constant(v)) return kForEver;
    const std::vector<uint32_t>& uses = uses_[v];
    const auto next = std::ranges::upper_bound(starts_[v], at);
    const auto end = next == starts_[v].end() ? uses.end() : std::ranges::lower_bound(uses, *next);
    if (end == uses.begin()) return lives_.maker[v] == Lifetimes::kNone ? 0 : lives_.maker[v];
    return *std::prev(end);
  }

  // Adds to `out` the requirements for having `v` at step `at`, to recompute a value of `bytes`.
  bool provide(GraphValue v, uint32_t at, int64_t bytes, Again& out) const {
    const auto has = [v](const std::vector<GraphValue>& list) {
      return std::ranges::find(list, v) != list.end();
    };
    if (has(out.made) || has(out.longer)) return true;
    if (end_of_life(v, at) >= at) {
      if (may_be_again(v)) out.read.push_back(v);  // else it stays as long as it does anyway
      return true;
    }
    if (lives_.bytes(v) * kSmall <= bytes) {
      out.longer.push_back(v);
      out.extra += lives_.bytes(v);
      return true;
    }
    return starts_[v].empty() && make(v, at, bytes, out);
  }
  // The op that computes `v` from the other results of its node, which are small; null: the node
  // itself.
  const Op* shorter_way(GraphValue v) const {
    const Graph::Node node = graph_.node(lives_.maker[v]);
    const std::string_view again = node.op.def().again;
    if (again.empty() || v != node.first_result) return nullptr;
    for (uint32_t r = 1; r < node.results; ++r) {
      if (lives_.bytes(v + r) * kSmall > lives_.bytes(v)) return nullptr;
    }
    const Op& op = Registry::global().at(again);
    return op.def().dtypes.contains(graph_.type(v)->dtype()) ? &op : nullptr;
  }
  bool make(GraphValue v, uint32_t at, int64_t bytes, Again& out) const {
    if (!may_be_again(v) || out.made.size() >= kMostNodes) return false;
    const Graph::Node node = graph_.node(lives_.maker[v]);
    const bool is_shorter = shorter_way(v) != nullptr;
    out.made.push_back(v);
    for (uint32_t r = 0; r < node.results; ++r) {
      out.moved += lives_.bytes(node.first_result + r);
      if (is_shorter && r > 0 && !provide(node.first_result + r, at, bytes, out)) return false;
    }
    for (const GraphValue operand : node.operands) {
      if (operand == kNoValue) continue;
      out.moved += lives_.bytes(operand);
      if (!provide(lives_.root[operand], at, bytes, out)) return false;
    }
    return true;
  }
  // False if recomputation is impossible, or costs more than half of its savings.
  bool find(const Gap& gap, Again& out) const {
    const int64_t bytes = lives_.bytes(gap.value);
    return make(gap.value, gap.before, bytes, out) && 2 * out.extra <= bytes;
  }

  // The longest interval without readers of `v` between two of its readers.
  Gap longest_gap(GraphValue v) const {
    Gap out{v, 0, 0};
    const std::vector<uint32_t>& uses = uses_[v];
    for (std::size_t u = 1; u < uses.size(); ++u) {
      const bool is_longer = uses[u] - uses[u - 1] > out.before - out.after;
      if (!is_longer || std::ranges::binary_search(starts_[v], uses[u])) continue;
      out.after = uses[u - 1];
      out.before = uses[u];
    }
    return out;
  }

  // By savings; equal savings in the order of the values.
  std::vector<Gap> find_gaps() const {
    std::vector<Gap> out;
    for (GraphValue v = graph_.first_result(); v < graph_.value_count(); ++v) {
      if (lives_.is_view(v) || lives_.bytes(v) < limits_.least_bytes || !may_be_again(v)) continue;
      Gap gap = longest_gap(v);
      Again again;
      if (gap.before - gap.after < 2 || !find(gap, again)) continue;
      gap.worth = static_cast<double>(lives_.bytes(v) - again.extra) /
                  static_cast<double>(std::max<int64_t>(again.moved, 1));
      out.push_back(gap);
    }
    std::ranges::stable_sort(out, std::ranges::greater(), &Gap::worth);
    return out;
  }

  // Chooses gaps that cover the current peak, until the peak is at most `enough` bytes. Returns
  // false if no gap was found, or if none is needed.
  bool take_gaps(int64_t enough) {
    bool has_any = false;
    for (const Gap& gap : find_gaps()) {
      if (curve_.most() <= enough) return false;
      const std::size_t peak = curve_.peak();
      if (gap.after >= peak || peak >= gap.before) continue;
      Again again;
      if (!find(gap, again)) continue;
      take(gap, again);
      has_any = true;
    }
    return has_any;
  }

  void take(const Gap& gap, const Again& again) {
    const uint32_t at = gap.before;
    for (const GraphValue v : again.longer) {
      if (lives_.is_placed(v)) curve_.add(end_of_life(v, at) + 1, at + 1, lives_.bytes(v));
    }
    for (const auto* list : {&again.longer, &again.read}) {
      for (const GraphValue v : *list) add_step(uses_[v], at);
    }
    add_step(starts_[gap.value], at);
    if (wants_decisions()) {
      report_decision("recompute_cheap",
                      "{} is computed again before {}: {} bytes are not kept for {} "
                      "nodes, and {} are read and written for it",
                      call_text(graph_.node(lives_.maker[gap.value])), call_text(graph_.node(at)),
                      lives_.bytes(gap.value), gap.before - gap.after, again.moved);
    }
    curve_.add(gap.after + 1, at, -lives_.bytes(gap.value));
    for (const GraphValue v : again.made) {
      again_.emplace_back(at, v);
      for (const GraphValue view : views_[v]) {
        if (lives_.maker[view] < at) again_.emplace_back(at, view);
      }
    }
  }
  static void add_step(std::vector<uint32_t>& steps, uint32_t step) {
    const auto at = std::ranges::lower_bound(steps, step);
    if (at == steps.end() || *at != step) steps.insert(at, step);
  }

  GraphRef rebuild() {
    std::ranges::sort(again_);
    const auto same = std::ranges::unique(again_);
    again_.erase(same.begin(), same.end());
    GraphCopy copy(graph_);
    auto next = again_.begin();
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      for (; next != again_.end() && next->first == i; ++next) {
        const Graph::Node node = graph_.node(lives_.maker[next->second]);
        const Op* shorter = lives_.is_view(next->second) ? nullptr : shorter_way(next->second);
        if (shorter != nullptr) {
          copy.copy_again_by(*shorter, node);
        } else {
          copy.copy_again(node, next->second);
        }
      }
      copy.copy(graph_.node(i));
    }
    return copy.finish(false);  // without views that are not read again
  }

  const Graph& graph_;
  const RecomputeLimits limits_;
  const Lifetimes lives_;
  LiveCurve curve_;
  // By root:
  std::vector<std::vector<uint32_t>> uses_;    // in order
  std::vector<std::vector<uint32_t>> starts_;  // the steps before which it is computed again
  std::vector<std::vector<GraphValue>> views_;
  std::vector<std::pair<uint32_t, GraphValue>> again_;  // (step, value to recompute)
};

// An upper bound of the live bytes.
int64_t bytes_of_results(const Graph& graph) {
  int64_t bytes = 0;
  for (GraphValue v = graph.first_result(); v < graph.value_count(); ++v) {
    if (graph.type(v) != nullptr) bytes += graph.type(v)->bytes();
  }
  return bytes;
}

}  // namespace

GraphRef recompute_cheap(const Graph& graph) { return recompute_cheap(graph, {}); }

GraphRef recompute_cheap(const Graph& graph, const RecomputeLimits& limits) {
  if (bytes_of_results(graph) < limits.least_peak) return GraphRef(&graph);
  return Recomputation(graph, limits).run();
}

}  // namespace etude::internal
