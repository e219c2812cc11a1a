// SPDX-License-Identifier: Apache-2.0
#include "etude/plan/forks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <numeric>
#include <string_view>

#include "etude/base/environment.h"
#include "etude/passes/graph_copy.h"

namespace etude::internal {
namespace {

constexpr double kLeastSavedUs = 50;  // less is lost where a worker has to wake up first
constexpr double kLeastBranchUs = 50;
constexpr std::size_t kLeastWindow = 256;       // nodes that a fork may have in any graph
constexpr std::size_t kMostVisits = 1'000'000;  // of nodes, in the search of a large graph
constexpr double kTiny = 1e-9;
constexpr uint32_t kNoNode = ~uint32_t{0};

// The estimated time that a fork takes and saves on two threads. More threads save more.
double length_of(const CallTime& t) { return t.alone + t.split / 2; }
double saved_by(const CallTime& all, double longest) {
  return length_of(all) - std::max(longest, (all.alone + all.split) / 2);
}

// The connected components of a range of nodes that grows at its end.
class Components {
 public:
  explicit Components(std::size_t nodes) : parent_(nodes), time_(nodes) {}

  void begin() {
    all_ = {};
    longest_ = 0;
  }
  void add(uint32_t node, const CallTime& time) {
    parent_[node] = node;
    time_[node] = time;
    all_ += time;
    longest_ = std::max(longest_, length_of(time));
  }
  void join(uint32_t a, uint32_t b) {
    a = find(a);
    b = find(b);
    if (a == b) return;
    parent_[std::max(a, b)] = std::min(a, b);
    time_[std::min(a, b)] += time_[std::max(a, b)];
    longest_ = std::max(longest_, length_of(time_[std::min(a, b)]));
  }
  uint32_t find(uint32_t node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }
  const CallTime& time(uint32_t root) const { return time_[root]; }
  double saved() const { return saved_by(all_, longest_); }
  double total() const { return all_.alone + all_.split; }

 private:
  std::vector<uint32_t> parent_;
  std::vector<CallTime> time_;
  CallTime all_;
  double longest_ = 0;
};

class Finder {
 public:
  Finder(const Graph& graph, std::span<const RefPtr<Prepared>> calls,
         std::span<const CallTime> times, Forks setting)
      : graph_(graph),
        calls_(calls),
        times_(times),
        is_forced_(setting == Forks::kAlways),
        components_(graph.size()) {}

  ForkedOrder find() {
    ForkedOrder out;
    if (!may_pay()) return out;
    find_makers();
    out.nodes.resize(graph_.size());
    std::iota(out.nodes.begin(), out.nodes.end(), 0u);
    for (const auto& [first, end] : best_windows()) add_fork(first, end, out);
    return out;
  }

 private:
  struct Window {
    std::size_t first, end;
  };

  bool is_view(std::size_t node) const { return calls_[node]->view_of >= 0; }
  double least_saved() const { return is_forced_ ? kTiny : kLeastSavedUs; }

  // Work that one thread does is the only work that a fork speeds up: two branches save half of it.
  bool may_pay() const {
    double alone = 0;
    for (const CallTime& time : times_) alone += time.alone;
    return alone / 2 >= least_saved();
  }

  // By value: the node that wrote its bytes, through views; kNoNode: an input or a constant.
  void find_makers() {
    maker_.assign(graph_.value_count(), kNoNode);
    reads_.assign(graph_.size(), 0);
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Graph::Node node = graph_.node(i);
      const auto self = static_cast<uint32_t>(i);
      const uint32_t maker =
          is_view(i) ? maker_[node.operands[static_cast<std::size_t>(calls_[i]->view_of)]] : self;
      for (uint32_t r = 0; r < node.results; ++r) maker_[node.first_result + r] = maker;
      if (is_view(i)) continue;
      for (const GraphValue v : node.operands) {
        if (v != kNoValue && maker_[v] != kNoNode) ++reads_[maker_[v]];
      }
    }
  }

  // The windows, ranges of nodes without an effect, that save most together. A window may begin
  // where it separates a node from several readers; elsewhere a longer one saves as much.
  std::vector<Window> best_windows() {
    const std::size_t n = graph_.size();
    const std::size_t most = std::max(kLeastWindow, kMostVisits / std::max<std::size_t>(n, 1));
    std::vector<double> alone(n + 1, 0);  // the time of all nodes before
    for (std::size_t i = 0; i < n; ++i) alone[i + 1] = alone[i] + times_[i].alone;
    std::vector<double> best(n + 1, 0);
    std::vector<std::size_t> from(n + 1);  // the window or single node that ends there
    std::iota(from.begin(), from.end(), std::size_t{0});
    for (std::size_t i = 0; i < n; ++i) from[i + 1] = i;
    bool begins = true;
    for (std::size_t a = 0; a < n; ++a) {
      if (a > 0 && best[a - 1] >= best[a]) {
        best[a] = best[a - 1];
        from[a] = a - 1;
      }
      const Graph::Node node = graph_.node(a);
      const bool is_barrier = has_effects(node.op, node.attrs);
      const std::size_t end = std::min(n, a + most);
      const bool may_pay = (alone[end] - alone[a]) / 2 >= least_saved();
      if (begins && may_pay && !is_barrier && !is_view(a)) try_windows(a, end, best, from);
      begins = is_barrier || is_view(a) ? begins || is_barrier : reads_[a] != 1;
    }
    if (n > 0 && best[n - 1] >= best[n]) from[n] = n - 1;
    std::vector<Window> out;
    for (std::size_t at = n; at > 0; at = from[at]) {
      if (from[at] + 1 < at) out.push_back({from[at], at});
    }
    std::ranges::reverse(out);
    return out;
  }
  void try_windows(std::size_t a, std::size_t most, std::vector<double>& best,
                   std::vector<std::size_t>& from) {
    components_.begin();
    for (std::size_t b = a; b < most; ++b) {
      if (is_view(b)) continue;
      const Graph::Node node = graph_.node(b);
      if (has_effects(node.op, node.attrs)) return;
      grow(b, a);
      const double saved = components_.saved();
      if (saved < least_saved() || best[a] + saved <= best[b + 1] + kTiny) continue;
      best[b + 1] = best[a] + saved;
      from[b + 1] = a;
    }
  }
  // Adds node b to the components of the nodes from a on.
  void grow(std::size_t b, std::size_t a) {
    const auto self = static_cast<uint32_t>(b);
    components_.add(self, times_[b]);
    for (const GraphValue v : graph_.node(b).operands) {
      if (v == kNoValue || maker_[v] == kNoNode || maker_[v] < a) continue;
      components_.join(self, maker_[v]);
    }
  }

  // Components as branches of nearly the same time: the longest goes to the shortest branch.
  void add_fork(std::size_t first, std::size_t end, ForkedOrder& out) {
    components_.begin();
    std::vector<uint32_t> roots;
    for (std::size_t i = first; i < end; ++i) {
      if (!is_view(i)) grow(i, first);
    }
    for (std::size_t i = first; i < end; ++i) {
      if (!is_view(i) && components_.find(static_cast<uint32_t>(i)) == i)
        roots.push_back(static_cast<uint32_t>(i));
    }
    const auto length = [&](uint32_t root) { return length_of(components_.time(root)); };
    std::ranges::stable_sort(roots, std::greater(), length);
    const auto wanted =
        is_forced_ ? roots.size() : static_cast<std::size_t>(components_.total() / kLeastBranchUs);
    const std::size_t count = std::clamp<std::size_t>(wanted, 2, Fork::kMostBranches);
    std::vector<CallTime> branches(std::min(count, roots.size()));
    std::vector<std::size_t> branch_of(end - first, branches.size());
    CallTime all;
    for (const uint32_t root : roots) {
      const auto shortest = std::ranges::min_element(branches, {}, length_of);
      *shortest += components_.time(root);
      all += components_.time(root);
      branch_of[root - first] = static_cast<std::size_t>(shortest - branches.begin());
    }
    const double saved =
        saved_by(all, length_of(*std::ranges::max_element(branches, {}, length_of)));
    if (branches.size() < 2 || saved < least_saved()) return;
    order_branches(first, end, branch_of, branches.size(), out);
    out.forks.back().saved_us = saved;
  }

  // Within a branch nodes keep their order. Views come with the node that wrote their bytes; other
  // views precede all branches.
  void order_branches(std::size_t first, std::size_t end, std::vector<std::size_t> branch_of,
                      std::size_t branches, ForkedOrder& out) {
    std::vector<std::vector<uint32_t>> lists(branches + 1);
    for (std::size_t i = first; i < end; ++i) {
      const uint32_t maker = is_view(i) ? maker_[graph_.node(i).first_result] : kNoNode;
      const bool is_free = is_view(i) && (maker == kNoNode || maker < first);
      std::size_t list = 0;
      if (!is_free) {
        const auto node = is_view(i) ? maker : static_cast<uint32_t>(i);
        list = 1 + branch_of[components_.find(node) - first];
      }
      lists[list].push_back(static_cast<uint32_t>(i));
    }
    Fork fork{first, end, {}, 0};
    std::size_t at = first;
    for (std::size_t list = 0; list <= branches; ++list) {
      if (list > 0) fork.starts.push_back(at);
      for (const uint32_t node : lists[list]) out.nodes[at++] = node;
    }
    fork.starts.push_back(end);
    out.forks.push_back(std::move(fork));
  }

  const Graph& graph_;
  std::span<const RefPtr<Prepared>> calls_;
  std::span<const CallTime> times_;
  const bool is_forced_;
  Components components_;
  std::vector<uint32_t> maker_;  // by value
  std::vector<uint32_t> reads_;  // by node: operands that it made
};

std::atomic<Forks>& setting() {
  static std::atomic<Forks> forks{[] {
    constexpr std::array<std::string_view, 3> kChoices{"0", "1", "2"};
    const int choice = environment_choice("ETUDE_FORKS", kChoices);
    return choice < 0 ? Forks::kIfFaster : static_cast<Forks>(choice);
  }()};
  return forks;
}

}  // namespace

Forks forks_setting() noexcept { return setting().load(std::memory_order_relaxed); }
void set_forks(Forks forks) noexcept { setting().store(forks, std::memory_order_relaxed); }

ForkedOrder find_forks(const Graph& graph, std::span<const RefPtr<Prepared>> calls,
                       std::span<const CallTime> times, Forks setting) {
  if (setting == Forks::kNever) return {};
  return Finder(graph, calls, times, setting).find();
}

void ForkedOrder::drop_least() {
  const auto least = std::ranges::min_element(forks, {}, &Fork::saved_us);
  std::sort(nodes.begin() + static_cast<std::ptrdiff_t>(least->first),
            nodes.begin() + static_cast<std::ptrdiff_t>(least->end));
  forks.erase(least);
}

std::vector<ForkSpot> spots_of(const ForkedOrder& order) {
  std::vector<ForkSpot> spots(order.nodes.size());
  for (std::size_t f = 0; f < order.forks.size(); ++f) {
    const std::vector<std::size_t>& starts = order.forks[f].starts;
    for (std::size_t b = 0; b + 1 < starts.size(); ++b) {
      for (std::size_t i = starts[b]; i < starts[b + 1]; ++i) {
        spots[i] = {static_cast<int32_t>(f), static_cast<int32_t>(b)};
      }
    }
  }
  return spots;
}

GraphRef in_order(const Graph& graph, std::span<const uint32_t> nodes) {
  GraphCopy copy(graph);
  for (const uint32_t node : nodes) copy.copy(graph.node(node));
  return copy.finish();
}

}  // namespace etude::internal
