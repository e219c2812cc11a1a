// SPDX-License-Identifier: Apache-2.0
// The pending trace of a thread: recorded calls that have not run, the references to their results,
// and their execution. Used by the lazy context (context.cc); program.h makes programs of
// segments.
//
// Invariant of liveness: a node is in the trace as long as a tensor (by its mark) or an operand of
// a pending node refers to one of its results. The node is freed with the last reference. The nodes
// that only it needed are freed too, in a loop without recursion.
//
// Invariant of locks: code that holds `mutex_` (owner_lock.h) only moves pointers. It destroys no
// tensor and runs no call, since either may enter another trace, or this trace again. While a
// segment runs, its nodes are `kRunning` and belong to the thread that runs the segment. Meanwhile
// the owner of the trace may record further calls.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
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

// An operand of a recorded call: a result of another node, a value from outside, or none.
struct LazyOperand {
  LazyNode* node = nullptr;
  uint32_t result = 0;
  bool is_number = false;  // a host number: a constant or an input of the program
  Tensor value;
};

struct LazyResult {
  const Type* type = nullptr;  // null: absent
  LazyMark* marks = nullptr;   // marks of the tensors that refer to it
  uint32_t uses = 0;           // the number of operands of pending nodes that refer to it
  Tensor value;                // after the node has run, while `uses` is not 0
};

struct LazyNode : FromFreeList<LazyNode> {
  enum class State : uint8_t { kPending, kRunning, kDone, kFailed };

  const Op* op = nullptr;
  Attrs attrs;
  CallSite where;
  State state = State::kPending;
  uint32_t held = 0;      // the number of marks and uses of all results
  uint32_t position = 0;  // in the running segment
  uint64_t number = 0;    // in the order of recording
  uint64_t hash = 0;      // of op, attributes and types; finds repetitions
  uint64_t stamp = 0;     // number of the latest search that visited it
  int64_t bytes = 0;      // of results and inputs
  LazyNode* previous = nullptr;
  LazyNode* next = nullptr;
  InlineVector<LazyOperand, 3> operands;
  InlineVector<LazyResult, 1> results;
  std::shared_ptr<const Error> error;  // the reason why it has no results
};

// A Variable whose pending value failed. restore() assigns its earlier value again.
struct LazyFailed {
  std::weak_ptr<void> holder;
  void (*restore)(void* holder) = nullptr;
};

// If the pending value of a mark was assigned to a Variable: the earlier value of this Variable.
struct LazyBefore {
  HeldBefore held;
  std::list<LazyFailed> failed;  // one entry, allocated early: a failure may be a lack of memory
  LazyBefore* next = nullptr;    // in DeadNodes
};

// Links a tensor to a result of a node.
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
  TensorRep* rep_;            // the header of the tensor; used until the tensor has elements
  LazyNode* node_ = nullptr;  // null once the value is computed
  uint32_t result_ = 0;
  LazyMark* previous_ = nullptr;
  LazyMark* next_ = nullptr;
  std::unique_ptr<LazyBefore> before_;
};

// The calls that run together: nodes in the order of recording, with their inputs and outputs.
struct LazySegment {
  // Encodes an operand as a number: the two highest bits are its kind, the other bits an index.
  static constexpr uint32_t kResult = 0, kInput = 1u << 30, kNumber = 2u << 30, kAbsent = 3u << 30;
  static constexpr uint32_t kIndex = (1u << 30) - 1;
  struct Output {
    uint32_t node, result;
  };

  std::vector<LazyNode*> nodes;
  // The index of the first operand of each node, and the end.
  std::vector<uint32_t> first_operand;
  // The index of the first result of each node in the list of all results, and the end.
  std::vector<uint32_t> first_value;
  std::vector<uint32_t> operands;
  std::vector<Tensor> inputs;   // each tensor once
  std::vector<uint8_t> given;   // 1: an input without another owner; its memory may be reused
  std::vector<Tensor> numbers;  // host numbers
  std::vector<Output> outputs;
  // Inputs that are earlier values of Variables to which the segment assigns. They are restored if
  // the segment fails. A program may reuse their memory: it writes to inputs only when it can no
  // longer fail.
  struct Before {
    LazyMark* mark;  // of the pending value; may be destroyed
    uint32_t input;
    Tensor value;  // while calls run one by one: a reference, so that no call overwrites the input
  };
  std::vector<Before> before;
  // run_segment() sets one value for each output, and an error for each node that has failed.
  std::vector<Tensor> values;
  std::vector<std::shared_ptr<const Error>> errors;
  std::shared_ptr<const Error> no_memory;  // allocated early, for the case that memory runs out
  CallSite where;                          // the line that caused the cut
};

// Computes `values` or `errors` of the segment. Runs only kernels. If memory runs out, each call
// without a result gets the error `no_memory`. Releases the inputs.
void run_segment(LazySegment& segment) noexcept;

// The reason why a segment is cut from the trace and run.
enum class LazyCut { kObservation, kBarrier, kAutomatic, kScope };

// Unreferenced nodes and values. They are destroyed after the lock is released, since their
// destructors may enter other traces.
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

// The pending trace of a thread. threads: thread-safe, except that only the thread itself calls
// record(), run_all() and cut_if_long().
class LazyTrace {
 public:
  LazyTrace() = default;
  LazyTrace(const LazyTrace&) = delete;
  LazyTrace& operator=(const LazyTrace&) = delete;

  // Appends a call. Each operand has elements or is pending in this trace. `hash` is the hash of
  // op, attributes and operand types.
  Values record(const Op& op, Operands in, const Attrs& attrs, uint64_t hash,
                std::span<const Type* const> results, CallSite where);
  // Predicts the next calls. Confined to the thread of the trace.
  LazyFollow& follow() noexcept { return follow_; }
  // Whether the mark belongs to this trace.
  bool is_of(const PendingMark& mark) const noexcept;
  // Runs all pending calls. Returns the first failure, or null.
  std::shared_ptr<const Error> run_all(LazyCut cut, CallSite where);
  // Restores the earlier values of Variables whose new values have failed. A function that throws
  // a failure calls this first.
  void restore_failed();
  // Runs a part of the trace if the trace is too long or holds too many bytes.
  void cut_if_long(const LazyOptions& options, CallSite where);
  int64_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  // Adds the counts since the last call to the log.
  void flush_counts() noexcept;
  // Call this when the thread ends. The trace is destroyed after its last tensor.
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
  // Removes a mark from its node, and frees nodes that only it needed.
  void forget(LazyMark& mark, DeadNodes& dead) noexcept;
  static void link(LazyMark& mark, LazyNode& node, uint32_t result) noexcept;
  static void unlink(LazyMark& mark) noexcept;
  void append(LazyNode& node) noexcept;
  void remove(LazyNode& node) noexcept;
  void flush() noexcept;  // under the lock
  // Frees an unreferenced node, and nodes that only it needed.
  void free_node(LazyNode& node, DeadNodes& dead) noexcept;
  // Removes a use of the node of `operand`. Returns true if that node is now unreferenced.
  static bool release(LazyOperand& operand) noexcept;
  // The pending nodes that `last` needs, in order.
  std::vector<LazyNode*> needed_by(LazyNode& last);
  std::vector<LazyNode*> oldest(std::size_t count) const;
  // Runs the nodes without holding the lock.
  std::shared_ptr<const Error> run(Lock& lock, std::vector<LazyNode*> nodes, LazyCut cut,
                                   CallSite where);
  static std::size_t count_marks(const LazySegment& segment) noexcept;
  LazySegment make_segment(std::vector<LazyNode*> nodes, DeadNodes& dead);
  void publish(LazySegment& segment, DeadNodes& dead) noexcept;
  // Notes in `segment.before` which inputs are earlier values of Variables. The marks give up their
  // references to these inputs, so the segment may reuse the memory.
  static void find_before(LazySegment& segment, const SegmentInputs& inputs, const LazyNode& node);
  // After publish(): records the Variables whose value failed.
  void note_failed(LazySegment& segment) noexcept;
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
  std::atomic<int64_t> size_{0};  // pending nodes
  int64_t alive_ = 0;             // nodes and marks
  uint64_t next_number_ = 0;
  int64_t recorded_ = 0;  // calls not yet added to the log
  int64_t dropped_ = 0;
  uint64_t stamp_ = 0;                  // of the latest needed_by()
  std::atomic<int64_t> held_bytes_{0};  // upper bound for results and inputs of pending nodes
  std::list<LazyFailed> failed_;        // a list, since splice() allocates no memory
};

// If the whole program is lazy (ETUDE_MODE), records the calls of this thread from now on.
void lazy_this_thread();

}  // namespace etude::internal
