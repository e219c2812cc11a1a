// SPDX-License-Identifier: Apache-2.0
// The pending trace of a thread: recorded calls that have not run, who needs their results, and how
// they run. Used by the lazy context (context.cc); program.h makes programs of segments.
//
// Invariant of liveness: a node is in the trace as long as a tensor (by its mark) or an operand of
// a pending node refers to one of its results. It goes at once when the last of them does, and so
// do, one after the other and not by recursion, the nodes that only it needed.
//
// Invariant of locks: `mutex_` (eager/owner_lock.h) is held for moves of pointers only. No tensor
// is destroyed and no call runs under it, since both may lead to other traces, or back to this one.
// While a segment runs its nodes are `kRunning` and belong to the thread that runs it; the owner of
// the trace may go on recording meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "etude/base/error.h"
#include "etude/core/call/values.h"
#include "etude/core/context/pending.h"
#include "etude/core/op/attrs.h"
#include "etude/core/op/op.h"
#include "etude/eager/free_list.h"
#include "etude/eager/owner_lock.h"
#include "etude/lazy/follow.h"
#include "etude/lazy/lazy.h"
#include "etude/lazy/log.h"
#include "etude/version.h"

namespace etude::internal {

class LazyTrace;
struct LazyNode;
class LazyMark;
class SegmentInputs;  // cut.cc

// What a recorded call reads: a result of another node, or a value from outside, or nothing.
struct LazyOperand {
  LazyNode* node = nullptr;
  uint32_t result = 0;
  bool is_number = false;  // a host number, which may be a part of the structure
  Tensor value;
};

struct LazyResult {
  const Type* type = nullptr;  // null: absent
  LazyMark* marks = nullptr;   // of the tensors that stand for it
  uint32_t uses = 0;           // by operands of nodes that have not run
  Tensor value;                // once it has run, while `uses` is not 0
};

struct LazyNode : FromFreeList<LazyNode> {
  enum class State : uint8_t { kPending, kRunning, kDone, kFailed };

  const Op* op = nullptr;
  Attrs attrs;
  CallSite where;
  State state = State::kPending;
  uint32_t held = 0;      // marks and uses of all results
  uint32_t position = 0;  // in the segment that runs
  uint64_t number = 0;    // in the order of recording
  uint64_t hash = 0;      // of op, attributes and types: what repeats in a loop
  uint64_t stamp = 0;     // of the search that met it last
  int64_t bytes = 0;      // of results and inputs
  LazyNode* previous = nullptr;
  LazyNode* next = nullptr;
  InlineVector<LazyOperand, 3> operands;
  InlineVector<LazyResult, 1> results;
  std::shared_ptr<const Error> error;  // why it has no results
};

// What a Variable held before it got the pending value of a mark. `next`: of those that are done.
struct LazyBefore {
  HeldBefore held;
  LazyBefore* next = nullptr;
};

// Stands between a tensor and a result of a node.
class LazyMark final : public PendingMark, public FromFreeList<LazyMark> {
 public:
  LazyMark(LazyTrace& trace, TensorRep* rep) noexcept : trace_(trace), rep_(rep) {}
  void compute(CallSite where) override;
  Tensor again() override;
  Tensor take_value() override;
  int64_t waits_for() override;
  void keep_before(HeldBefore before) override;
  Tensor take_before() override;
  bool has_failed() override;

 protected:
  void drop() noexcept override;

 private:
  friend class LazyTrace;
  LazyTrace& trace_;
  TensorRep* rep_;            // the header of the tensor; used until it has elements
  LazyNode* node_ = nullptr;  // null once the value is there
  uint32_t result_ = 0;
  LazyMark* previous_ = nullptr;
  LazyMark* next_ = nullptr;
  std::unique_ptr<LazyBefore> before_;
};

// What runs together: nodes in the order of recording, and what flows in and out of them.
struct LazySegment {
  // An operand as a number: a kind in the two highest bits, an index in the others.
  static constexpr uint32_t kResult = 0, kInput = 1u << 30, kNumber = 2u << 30, kAbsent = 3u << 30;
  static constexpr uint32_t kIndex = (1u << 30) - 1;
  struct Output {
    uint32_t node, result;
  };

  std::vector<LazyNode*> nodes;
  std::vector<uint32_t> first_operand;  // of each node, and the end
  std::vector<uint32_t> first_value;    // of each node: results are numbered through; and the end
  std::vector<uint32_t> operands;
  std::vector<Tensor> inputs;   // each tensor once
  std::vector<uint8_t> given;   // inputs that nobody else holds
  std::vector<Tensor> numbers;  // host numbers
  std::vector<Output> outputs;
  // Inputs that Variables held before what the segment gives them: theirs again where that fails.
  // A program may take them, since it takes nothing before it can no longer fail.
  struct Before {
    LazyMark* mark;  // of what is pending; it may be gone
    uint32_t input;
    Tensor value;  // where the calls run one by one: it keeps them from writing there
  };
  std::vector<Before> before;
  // Results of the outputs, or why a node has none, by node; set by run_segment().
  std::vector<Tensor> values;
  std::vector<std::shared_ptr<const Error>> errors;
  CallSite where;  // what cut it
};

// Gives `values` to the segment, or errors. Runs no other code than kernels. Throws nothing but
// what is a bug. The inputs are gone afterwards.
void run_segment(LazySegment& segment);

// What makes a segment of a trace.
enum class LazyCut { kObservation, kBarrier, kAutomatic, kScope };

// Nodes that nobody refers to any more, and values that nobody will have again: destroyed where no
// lock is held, since what they hold may lead anywhere.
struct DeadNodes {
  DeadNodes() = default;
  DeadNodes(const DeadNodes&) = delete;
  DeadNodes& operator=(const DeadNodes&) = delete;
  ~DeadNodes() {
    while (first != nullptr) delete std::exchange(first, first->next);
    while (first_before != nullptr) delete std::exchange(first_before, first_before->next);
  }
  void add(LazyNode& node) noexcept { node.next = std::exchange(first, &node); }
  void add(std::unique_ptr<LazyBefore> before) noexcept {
    if (before == nullptr) return;
    before->next = std::exchange(first_before, before.get());
    static_cast<void>(before.release());
  }

  LazyNode* first = nullptr;
  LazyBefore* first_before = nullptr;
};

// One per thread. thread-safe but for record(), run_all() and cut_if_long(), which its thread
// calls.
class LazyTrace {
 public:
  LazyTrace() = default;
  LazyTrace(const LazyTrace&) = delete;
  LazyTrace& operator=(const LazyTrace&) = delete;

  // Appends a call whose operands have elements or are pending here. `hash`: of op, attributes and
  // types of operands.
  Values record(const Op& op, Operands in, const Attrs& attrs, uint64_t hash,
                std::span<const Type* const> results, CallSite where);
  // What is expected to be recorded next. Confined to its thread.
  LazyFollow& follow() noexcept { return follow_; }
  // Whether x waits for calls of this trace.
  bool is_of(const PendingMark& mark) const noexcept;
  // Runs what is pending. Gives the first failure; null: none.
  std::shared_ptr<const Error> run_all(LazyCut cut, CallSite where);
  // Variables whose values have failed hold again what they held before. For whoever throws a
  // failure.
  void restore_failed();
  // Runs a part of the trace where it has grown too long or holds too much.
  void cut_if_long(const LazyOptions& options, CallSite where);
  int64_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  // Tells the log what was counted here since the last time.
  void flush_counts() noexcept;
  // The thread is over: the trace goes with its last tensor.
  void abandon() noexcept;
  // The pending calls as a graph (text.cc).
  std::string to_text();

 private:
  friend class LazyMark;
  using Lock = std::unique_lock<OwnerLock>;

  ~LazyTrace() = default;
  Tensor make_handle(const Type* type);
  void refer(LazyOperand& operand, const LazyMark& mark) noexcept;
  void observe(LazyMark& mark, CallSite where);
  Tensor alias(LazyMark& mark);
  // Takes a mark out of its node, and frees what only it needed.
  void forget(LazyMark& mark, DeadNodes& dead) noexcept;
  static void link(LazyMark& mark, LazyNode& node, uint32_t result) noexcept;
  static void unlink(LazyMark& mark) noexcept;
  void append(LazyNode& node) noexcept;
  void remove(LazyNode& node) noexcept;
  void flush() noexcept;  // under the lock
  // Frees a node that nothing refers to, and what only it needed.
  void free_node(LazyNode& node, DeadNodes& dead) noexcept;
  // What `operand` refers to loses a use. True if nothing refers to its node any more.
  static bool release(LazyOperand& operand) noexcept;
  // The pending nodes that `last` needs, in order.
  std::vector<LazyNode*> needed_by(LazyNode& last);
  std::vector<LazyNode*> oldest(std::size_t count) const;
  // Runs them, with the lock open.
  std::shared_ptr<const Error> run(Lock& lock, std::vector<LazyNode*> nodes, LazyCut cut,
                                   CallSite where);
  LazySegment make_segment(std::vector<LazyNode*> nodes, DeadNodes& dead);
  void publish(LazySegment& segment, DeadNodes& dead) noexcept;
  // Moves what Variables held before among the inputs, unless it is none of them.
  static void find_before(LazySegment& segment, const SegmentInputs& inputs, const LazyNode& node);
  // After publish(): notes the Variables that hold a failure.
  void note_failed(LazySegment& segment);
  void wait_for_run(Lock& lock);
  std::size_t find_cut() const;

  OwnerLock mutex_;
  std::condition_variable_any idle_;
  LazyFollow follow_;
  bool is_running_ = false;
  bool is_abandoned_ = false;
  std::thread::id runner_;
  const std::thread::id owner_ = std::this_thread::get_id();
  LazyNode* first_ = nullptr;
  LazyNode* last_ = nullptr;
  std::atomic<int64_t> size_{0};  // nodes that are pending
  int64_t alive_ = 0;             // nodes and marks
  uint64_t next_number_ = 0;
  int64_t recorded_ = 0;  // calls that the log has not heard of
  int64_t dropped_ = 0;
  uint64_t stamp_ = 0;                  // of the latest needed_by()
  std::atomic<int64_t> held_bytes_{0};  // at most: of results and inputs of pending nodes
  struct Failed {
    std::weak_ptr<void> holder;
    void (*restore)(void* holder);
  };
  std::vector<Failed> failed_;
};

}  // namespace etude::internal
