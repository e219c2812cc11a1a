// SPDX-License-Identifier: Apache-2.0
// Cuts of a pending trace: the nodes that run together, their inputs and outputs, and the readers
// of the results.
#include <algorithm>
#include <bit>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include <unistd.h>

#include "etude/base/check.h"
#include "etude/base/internal/hash.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/ambient.h"
#include "etude/lazy/log.h"
#include "etude/lazy/trace.h"

namespace etude::internal {
namespace {

LazyCount count_of(LazyCut cut) {
  switch (cut) {
    case LazyCut::kObservation:
      return LazyCount::kObservationCuts;
    case LazyCut::kBarrier:
      return LazyCount::kBarrierCuts;
    case LazyCut::kAutomatic:
      return LazyCount::kAutomaticCuts;
    case LazyCut::kScope:
      break;
  }
  return LazyCount::kScopeCuts;
}

int64_t quarter_of_memory() {
  static const int64_t bytes =
      static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  return bytes / 4;
}

}  // namespace

// Numbers the inputs of a segment, each tensor once. Allocates when it is made only.
class SegmentInputs {
 public:
  // `most`: of the inputs, for which the segment has reserved memory.
  SegmentInputs(LazySegment& segment, std::size_t most)
      : segment_(segment), known_(std::bit_ceil(2 * most + 1)) {}

  uint32_t number(Tensor x) noexcept {
    Known& known = known_[place_of(TensorAccess::rep(x))];
    if (known.rep == nullptr) {
      known = {TensorAccess::rep(x), static_cast<uint32_t>(segment_.inputs.size())};
      segment_.inputs.push_back(std::move(x));
    }
    return LazySegment::kInput | known.index;  // drops a second handle, never the last
  }
  // The index of an input; none: it is no input.
  std::optional<uint32_t> find(const Tensor& x) const noexcept {
    const Known& known = known_[place_of(TensorAccess::rep(x))];
    return known.rep != nullptr ? std::optional(known.index) : std::nullopt;
  }

 private:
  struct Known {
    const TensorRep* rep = nullptr;
    uint32_t index = 0;
  };
  // The place of an input, or the empty place where it would be.
  std::size_t place_of(const TensorRep* rep) const noexcept {
    const std::size_t mask = known_.size() - 1;
    std::size_t at = mix(reinterpret_cast<uintptr_t>(rep)) & mask;
    while (known_[at].rep != nullptr && known_[at].rep != rep) at = (at + 1) & mask;
    return at;
  }

  LazySegment& segment_;
  std::vector<Known> known_;  // open addressing, at most half full
};

std::vector<LazyNode*> LazyTrace::needed_by(LazyNode& last) {
  const uint64_t stamp = ++stamp_;
  std::vector<LazyNode*> nodes = {&last};
  last.stamp = stamp;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const LazyOperand& operand : nodes[i]->operands) {
      LazyNode* node = operand.node;
      if (node == nullptr || node->state != LazyNode::State::kPending || node->stamp == stamp) {
        continue;
      }
      node->stamp = stamp;
      nodes.push_back(node);
    }
  }
  std::ranges::sort(nodes, {}, &LazyNode::number);
  return nodes;
}

std::vector<LazyNode*> LazyTrace::oldest(std::size_t count) const {
  std::vector<LazyNode*> nodes;
  for (LazyNode* n = first_; n != nullptr && nodes.size() < count; n = n->next) nodes.push_back(n);
  return nodes;
}

namespace {

// Reserves the memory of the lists of a segment of these nodes. Returns the number of operands.
std::size_t reserve_all(LazySegment& s) {
  static_cast<void>(LazyLog::instance());  // these allocate at their first use
  static_cast<void>(ambient());
  std::size_t operands = 0, results = 0;
  for (const LazyNode* node : s.nodes) {
    operands += node->operands.size();
    results += node->results.size();
  }
  s.errors.resize(s.nodes.size());
  s.first_value.reserve(s.nodes.size() + 1);
  s.first_operand.reserve(s.nodes.size() + 1);
  s.operands.reserve(operands);
  s.numbers.reserve(operands);
  s.inputs.reserve(operands);
  s.given.reserve(operands);
  s.outputs.reserve(results);
  s.values.reserve(results);
  s.no_memory = std::make_shared<const Error>(ErrorCode::kResourceExhausted,
                                              "the host has no memory left to run lazy calls");
  return operands;
}

}  // namespace

std::size_t LazyTrace::count_marks(const LazySegment& s) noexcept {
  std::size_t count = 0;
  for (const LazyNode* node : s.nodes) {
    for (const LazyResult& result : node->results) {
      for (LazyMark* mark = result.marks; mark != nullptr; mark = mark->next_) ++count;
    }
  }
  return count;
}

LazySegment LazyTrace::make_segment(std::vector<LazyNode*> nodes, DeadNodes& dead) {
  LazySegment s;
  s.nodes = std::move(nodes);
  const std::size_t operands = reserve_all(s);
  s.before.reserve(count_marks(s));
  SegmentInputs inputs(s, operands);
  // Nothing is allocated from here on. Without memory the trace is unchanged.
  uint32_t values = 0;
  for (uint32_t i = 0; i < s.nodes.size(); ++i) {
    LazyNode& node = *s.nodes[i];
    node.position = i;
    s.first_value.push_back(values);
    values += static_cast<uint32_t>(node.results.size());
    remove(node);
    node.state = LazyNode::State::kRunning;
  }
  s.first_value.push_back(values);
  for (uint32_t i = 0; i < s.nodes.size(); ++i) {
    s.first_operand.push_back(static_cast<uint32_t>(s.operands.size()));
    for (LazyOperand& operand : s.nodes[i]->operands) {
      LazyNode* const of = operand.node;
      uint32_t code = LazySegment::kAbsent;
      if (of == nullptr && operand.is_number) {
        code = LazySegment::kNumber | static_cast<uint32_t>(s.numbers.size());
        s.numbers.push_back(std::move(operand.value));
      } else if (of == nullptr) {
        if (operand.value.has_value()) code = inputs.number(std::move(operand.value));
      } else if (of->state == LazyNode::State::kRunning) {
        code = LazySegment::kResult | (s.first_value[of->position] + operand.result);
        release(operand);
      } else {
        if (of->state == LazyNode::State::kFailed) {
          if (s.errors[i] == nullptr) s.errors[i] = of->error;
        } else {
          code = inputs.number(of->results[operand.result].value);
        }
        if (release(operand)) free_node(*of, dead);
        operand.value.reset();  // `inputs` has it
      }
      s.operands.push_back(code);
    }
  }
  s.first_operand.push_back(static_cast<uint32_t>(s.operands.size()));
  for (const LazyNode* node : s.nodes) find_before(s, inputs, *node);
  const bool donates = lazy_options().donate;
  for (const Tensor& x : s.inputs) {
    const auto held = TensorAccess::rep(x)->count.load(std::memory_order_acquire);
    s.given.push_back(donates && held == 1);
  }
  for (uint32_t i = 0; i < s.nodes.size(); ++i) {
    for (uint32_t r = 0; r < s.nodes[i]->results.size(); ++r) {
      const LazyResult& result = s.nodes[i]->results[r];
      if (result.marks != nullptr || result.uses > 0) s.outputs.push_back({i, r});
    }
  }
  return s;
}

void LazyTrace::find_before(LazySegment& s, const SegmentInputs& inputs, const LazyNode& node) {
  for (const LazyResult& result : node.results) {
    for (LazyMark* mark = result.marks; mark != nullptr; mark = mark->next_) {
      if (mark->before_ == nullptr || !mark->before_->held.value.has_value()) continue;
      const std::optional<uint32_t> input = inputs.find(mark->before_->held.value);
      if (!input) continue;
      s.before.push_back({mark, *input, {}});
      mark->before_->held.value.reset();  // `inputs` has it
    }
  }
}

void LazyTrace::note_failed(LazySegment& s) noexcept {
  for (std::size_t i = 0; i < s.nodes.size(); ++i) {
    if (s.errors[i] == nullptr || s.nodes[i]->held == 0) continue;
    for (const LazyResult& result : s.nodes[i]->results) {
      for (LazyMark* mark = result.marks; mark != nullptr; mark = mark->next_) {
        if (mark->before_ == nullptr) continue;
        HeldBefore& held = mark->before_->held;
        const auto moved = std::ranges::find(s.before, mark, &LazySegment::Before::mark);
        if (moved != s.before.end()) held.value = std::move(moved->value);
        failed_.splice(failed_.end(), mark->before_->failed);
      }
    }
  }
}

void LazyTrace::publish(LazySegment& s, DeadNodes& dead) noexcept {
  for (std::size_t k = 0; k < s.outputs.size(); ++k) {
    LazyNode& node = *s.nodes[s.outputs[k].node];
    LazyResult& result = node.results[s.outputs[k].result];
    if (s.errors[s.outputs[k].node] != nullptr) continue;
    while (result.marks != nullptr) {
      LazyMark& mark = *result.marks;
      mark.value_ = s.values[k];
      dead.add(std::move(mark.before_));
      unlink(mark);
      mark.rep_->data.publish(TensorAccess::rep(mark.value_)->data);
    }
    if (result.uses > 0) result.value = s.values[k];
  }
  for (std::size_t i = 0; i < s.nodes.size(); ++i) {
    LazyNode& node = *s.nodes[i];
    node.error = s.errors[i];
    node.state = node.error != nullptr ? LazyNode::State::kFailed : LazyNode::State::kDone;
    node.operands.clear();
    if (node.held == 0) free_node(node, dead);
  }
}

void LazyTrace::wait_for_run(Lock& lock) {
  while (is_running_) {
    ETUDE_CHECK(runner_ != std::this_thread::get_id(), "a running trace asks for its own values");
    idle_.wait(lock);
  }
}

std::shared_ptr<const Error> LazyTrace::run(Lock& lock, std::vector<LazyNode*> nodes, LazyCut cut,
                                            CallSite where) {
  DeadNodes dead;
  LazySegment segment = [&] {
    try {
      return make_segment(std::move(nodes), dead);
    } catch (const std::bad_alloc&) {
      throw_no_memory("", where);  // the trace is as before
    }
  }();
  segment.where = where;
  flush();
  if (cut != LazyCut::kAutomatic && mutex_.is_owner()) follow_.restart();
  is_running_ = true;
  runner_ = std::this_thread::get_id();
  lock.unlock();
  LazyLog::instance().count(count_of(cut));
  run_segment(segment);
  segment.inputs.clear();
  segment.numbers.clear();
  lock.lock();
  publish(segment, dead);
  note_failed(segment);
  is_running_ = false;
  const auto failed =
      std::ranges::find_if(segment.errors, [](const auto& e) { return e != nullptr; });
  const std::shared_ptr<const Error> error = failed != segment.errors.end() ? *failed : nullptr;
  lock.unlock();
  idle_.notify_all();
  segment.values.clear();
  segment.before.clear();
  {
    DeadNodes gone;
    gone.first = std::exchange(dead.first, nullptr);
    gone.first_before = std::exchange(dead.first_before, nullptr);
  }
  lock.lock();
  return error;
}

void LazyTrace::observe(LazyMark& mark, CallSite where) {
  LazyLog& log = LazyLog::instance();
  log.count(LazyCount::kObservations);
  if (std::this_thread::get_id() != owner_) log.count(LazyCount::kObservedElsewhere);
  where = user_line(where);
  log.note_observation(where);
  Lock lock(mutex_);
  for (;;) {
    wait_for_run(lock);
    LazyNode* const node = mark.node_;
    if (node == nullptr) return;
    if (node->state == LazyNode::State::kFailed) {
      const std::shared_ptr<const Error> error = node->error;
      lock.unlock();
      restore_failed();
      throw Error(*error);  // NOLINT(cert-err60-cpp): a copy, to which callers add their lines
    }
    run(lock, needed_by(*node), LazyCut::kObservation, where);
  }
}

std::shared_ptr<const Error> LazyTrace::run_all(LazyCut cut, CallSite where) {
  Lock lock(mutex_);
  wait_for_run(lock);
  if (first_ == nullptr) return nullptr;
  return run(lock, oldest(static_cast<std::size_t>(size())), cut, where);
}

// Where a trace repeats itself, its pieces are cut at the same place of the repetition, so that
// they are the same program. The repetition is searched around the middle: the end of a trace has
// calls that will be dropped before their step is over.
std::size_t LazyTrace::find_cut() const {
  std::vector<uint64_t> h;
  for (const LazyNode* n = first_; n != nullptr; n = n->next) h.push_back(n->hash);
  const std::size_t n = h.size(), middle = n / 2;
  for (std::size_t period = 1; middle + period < n; ++period) {
    std::size_t after = 0, before = 0;  // calls around the middle that are the same a period later
    while (middle + after + period < n && h[middle + after] == h[middle + after + period]) ++after;
    if (after == 0) continue;
    while (before < middle && h[middle - before - 1] == h[middle - before - 1 + period]) ++before;
    if (after + before < std::max(period, n / 4)) continue;
    const std::size_t begin = middle - before, end = middle + after + period;
    return begin + (end - begin) / period * period;
  }
  return n;
}

void LazyTrace::cut_if_long(const LazyOptions& options, CallSite where) {
  const auto most = static_cast<int64_t>(
      options.cut_every > 0 ? std::min(options.cut_every, options.max_nodes) : options.max_nodes);
  const int64_t bytes = options.live_bytes > 0 ? options.live_bytes : quarter_of_memory();
  if (size() < most && held_bytes_ <= bytes) [[likely]]
    return;
  Lock lock(mutex_);
  wait_for_run(lock);
  if (first_ == nullptr) return;
  const auto all = static_cast<std::size_t>(size());
  run(lock, oldest(options.cut_every > 0 ? all : find_cut()), LazyCut::kAutomatic, where);
}

}  // namespace etude::internal
