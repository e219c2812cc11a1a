// SPDX-License-Identifier: Apache-2.0
// Running plans with forks.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "etude/core/internal/mode.h"
#include "etude/device/cpu/branches.h"
#include "etude/eager/dispatch.h"
#include "etude/passes/decisions.h"
#include "etude/plan/plan.h"

namespace etude::internal {
namespace {

// While alive, plans on this thread run as in the thread that forked, which is not watched. This
// thread may wait for branches of another plan, in a profile or under a cancellation.
class UnwatchedScope {
 public:
  UnwatchedScope() noexcept { mode_word &= ~(kModeProfile | kModeCancel); }
  UnwatchedScope(const UnwatchedScope&) = delete;
  UnwatchedScope& operator=(const UnwatchedScope&) = delete;
  ~UnwatchedScope() { mode_word = saved_; }

 private:
  const uint32_t saved_ = mode_word;
};

}  // namespace

const Plan::Step* Plan::run_sections(const Frame& frame) const {
  for (const Section& section : sections_) {
    const Step* const failed = section.branches.empty()
                                   ? run_stretches(frame, section.first, section.end)
                                   : run_fork(frame, section);
    if (failed != nullptr) return failed;
  }
  return nullptr;
}

// Every branch runs until its own first failure. The first of these in the order of the program is
// the failure of the fork: all steps before it have run.
const Plan::Step* Plan::run_fork(const Frame& frame, const Section& fork) const {
  struct End {
    const Step* failed = nullptr;
    std::optional<Error> error;
  };
  std::array<End, Fork::kMostBranches> ends;
  const std::size_t count = fork.branches.size() - 1;
  run_branches(static_cast<int64_t>(count), [&](int64_t branch) {
    const UnwatchedScope scope;
    const auto b = static_cast<std::size_t>(branch);
    End& end = ends[b];
    end.failed = run_stretches(frame, fork.branches[b], fork.branches[b + 1]);
    if (end.failed == nullptr) return;
    try {
      throw_fault();
    } catch (const Error& error) {
      end.error = error;  // the fault is of this thread
    }
  });
  const End* first = nullptr;
  const auto place = [this](const End& end) { return source_nodes_[end.failed->node]; };
  for (const End& end : ends) {
    if (end.failed != nullptr && (first == nullptr || place(end) < place(*first))) first = &end;
  }
  if (first == nullptr) return nullptr;
  report_error(*first->error);
  return first->failed;
}

void Plan::keep_fused_calls(const Graph& source, bool later) const {
  lacks_fused_calls_.store(later, std::memory_order_relaxed);
  if (later) return;
  const RefPtr<const FusedCalls> calls = FusedCalls::of(source);
  auto moved = make_ref<FusedCalls>();
  for (std::size_t i = 0; i < source_nodes_.size() && !calls->by_node.empty(); ++i) {
    const auto parts = calls->by_node.find(source_nodes_[i]);
    if (parts != calls->by_node.end()) moved->by_node.emplace(i, parts->second);
  }
  FusedCalls::keep(*graph_, RefPtr<const FusedCalls>(moved.get()));
}

}  // namespace etude::internal
