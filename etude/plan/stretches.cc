// SPDX-License-Identifier: Apache-2.0
#include "etude/plan/stretches.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "etude/passes/decisions.h"
#include "etude/plan/cluster_maker.h"

namespace etude::internal {

class StretchFinder {
 public:
  StretchFinder(Plan& plan, const Graph& graph, std::span<const RefPtr<Prepared>> calls)
      : plan_(plan), graph_(graph), calls_(calls) {}

  void find() {
    number_steps();
    find_borders();
    if (makes_clusters()) find_clusters();
    if (stretches().empty() && plan_.forks_.empty()) return;
    fill(plan_.steps_.size());
    if (!plan_.forks_.empty()) find_sections();
  }

 private:
  std::vector<Plan::Stretch>& stretches() { return plan_.stretches_; }

  // By node: the first step at or after it. A step is a node, but for views, which have none.
  void number_steps() {
    step_of_.assign(graph_.size() + 1, plan_.steps_.size());
    std::size_t step = plan_.steps_.size();
    for (std::size_t node = graph_.size(); node-- > 0;) {
      if (step > 0 && plan_.steps_[step - 1].node == node) --step;
      step_of_[node] = step;
    }
  }
  // No stretch crosses the ends of branches.
  void find_borders() {
    for (const Fork& fork : plan_.forks_) borders_.insert(fork.starts.begin(), fork.starts.end());
  }

  // Makes steps up to `end` stretches without code.
  void fill(std::size_t end) {
    for (const std::size_t border : borders_) {
      const std::size_t step = step_of_[border];
      if (done_ < step && step < end) add({.first = done_, .end = step});
    }
    if (done_ < end) add({.first = done_, .end = end});
  }
  void add(Plan::Stretch stretch) {
    done_ = stretch.end;
    stretches().push_back(std::move(stretch));
  }

  // Runs of steps that code may replace.
  void find_clusters() {
    const ClusterMaker maker(graph_, calls_);
    for (const ClusterMaker::Range& range : maker.ranges(borders_)) {
      const std::size_t first = step_of_[range.first], end = step_of_[range.last - 1] + 1;
      const uint32_t base = plan_.steps_[first].first_place;
      Cluster cluster = maker.cluster_of(range, [&](std::size_t node, int operand) {
        const Plan::Step& step = plan_.steps_[step_of_[node]];
        const uint32_t at = operand < 0 ? 0 : step.results + static_cast<uint32_t>(operand);
        return step.first_place + at - base;
      });
      std::vector<double> params = cluster.params();
      const ClusterCode* const code = ClusterCode::of(std::move(cluster));
      if (code == nullptr) continue;
      fill(first);
      add({first, end, code, base, std::move(params)});
    }
    if (wants_decisions()) report_clusters(maker);
  }

  void report_clusters(const ClusterMaker& maker) const {
    const std::vector<Plan::ClusterRange> clusters = plan_.clusters();
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const auto holds = [i](const Plan::ClusterRange& r) { return r.first <= i && i < r.end; };
      const auto cluster = std::ranges::find_if(clusters, holds);
      if (cluster != clusters.end()) {
        if (cluster->first != i) continue;
        report_decision("clusters",
                        "{} calls from {} on are one function once they have run for a "
                        "millisecond",
                        cluster->code->cluster().calls.size(), call_text(graph_.node(i)));
      } else if (!maker.is_view(i)) {
        report_decision("clusters", "{} is in no cluster: {}", call_text(graph_.node(i)),
                        maker.why_not(i));
      }
    }
  }

  std::size_t stretch_at(std::size_t step) const {
    const auto at = std::ranges::lower_bound(plan_.stretches_, step, {}, &Plan::Stretch::first);
    return static_cast<std::size_t>(at - plan_.stretches_.begin());
  }
  void find_sections() {
    std::size_t done = 0;
    const auto run_until = [&](std::size_t end) {
      if (done < end) plan_.sections_.push_back({done, end, {}});
      done = end;
    };
    for (const Fork& fork : plan_.forks_) {
      Plan::Section section;
      for (const std::size_t start : fork.starts) {
        section.branches.push_back(stretch_at(step_of_[start]));
      }
      section.first = section.branches.front();
      section.end = section.branches.back();
      run_until(section.first);
      done = section.end;
      plan_.sections_.push_back(std::move(section));
      report_decision("forks",
                      "{} branches from {} on run side by side, which saves about {:.0f} us on two "
                      "threads",
                      fork.starts.size() - 1, call_text(graph_.node(fork.starts[0])),
                      fork.saved_us);
    }
    run_until(plan_.stretches_.size());
    plan_.program_order_.resize(plan_.steps_.size());
    std::iota(plan_.program_order_.begin(), plan_.program_order_.end(), 0u);
    std::ranges::sort(plan_.program_order_, {}, [this](uint32_t step) {
      return plan_.source_nodes_[plan_.steps_[step].node];
    });
  }

  Plan& plan_;
  const Graph& graph_;
  std::span<const RefPtr<Prepared>> calls_;
  std::vector<std::size_t> step_of_;
  std::set<std::size_t> borders_;  // nodes
  std::size_t done_ = 0;           // steps that are in stretches
};

void find_stretches(Plan& plan, const Graph& graph, std::span<const RefPtr<Prepared>> calls) {
  StretchFinder(plan, graph, calls).find();
}

}  // namespace etude::internal
