// SPDX-License-Identifier: Apache-2.0
// Plan: a graph made ready to run. Its kernels are prepared, its intermediate values have places in
// one block of memory for each device (an arena), and a run is a loop over its steps: it looks up
// no op and makes no tensor except the results. It computes the same bits as the separate calls.
// Runs of small calls among the steps are clusters (cluster.h); machine code replaces them once it
// is compiled. Independent steps that take long run side by side (forks.h).
//
// Invariant of the places: two values share bytes only if the later one is written by a step that
// is the last reader of the earlier one and whose kernel may write its result there, or by a later
// step. Builds with assertions check it for each plan (verify_places).
//
// Invariant of forks: no step of a branch writes bytes that another branch of the fork reads or
// writes. A donated input and its result count as the same bytes. So branches may run in any order,
// interleaved or at once. Builds with assertions check it (verify_forks).
//
// Invariant of donations: a donated input becomes the tensor of a result if it has no other owner
// at the time of the run, if the step that writes the result is the last reader of the input and
// its kernel may write there, and if from this step on nothing can fail (no kernel reports a fault,
// and nothing is allocated). So a run that throws has written to no input. The input and the result
// have two places; each run decides whether they are one tensor. A loop owns its carried values, so
// it may overwrite them even if a later step can fail (may_go_over()).
// A step in the queue of a device fails after later steps were enqueued. Such a run waits before
// the first step that may write over an input, until the values that this and later steps read are
// there (plan_late.cc).
//
// `dying` marks inputs that are not needed after a run. After its last reader and under the same
// condition, a large dying input becomes memory for large intermediate values, or the tensor of a
// large result of its type that is written later. Large results also serve as memory until they are
// written. So a run needs less memory as inputs are used up, and more only as results are made,
// like a run call by call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "etude/core/call/values.h"
#include "etude/core/op/rules.h"
#include "etude/graph/graph.h"
#include "etude/plan/call_time.h"
#include "etude/plan/cluster_code.h"
#include "etude/plan/forks.h"
#include "etude/plan/plan_layout.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

class DeviceMemory;
struct LoopShape;

// All steps of a loop as a single function. A kernel may run it instead of a Runner.
class LoopCode {
 public:
  // Runs all steps; there is at least one. If the code is not compiled yet, does nothing and
  // returns false. `in` are the whole operands of the loop, `out` its results: carried values, then
  // rows. Result c may use the memory of operand c.
  bool run(const void* const* in, void* const* out, std::size_t steps) const;

 private:
  friend class Plan;
  const ClusterCode* code_ = nullptr;
  std::size_t inputs_ = 0, outputs_ = 0;
  std::vector<double> params_;
  std::vector<const void*> constants_;
};

// threads: thread-safe: each of several concurrent runs has its own arena. Other plans may take
// over large idle arenas (plan_frames.cc).
class Plan final : public RefCounted {
 public:
  // Returns the plan of this graph, which is made on first use and cached by the graph. Valid as
  // long as the graph.
  // throws: kUnimplemented, naming op and line, for an op without a kernel.
  static RefPtr<const Plan> of(const Graph& graph);
  // `dying`: by input, whether it is not needed after a run. Must be the same in each call.
  static RefPtr<const Plan> of(const Graph& graph, std::span<const uint8_t> dying);
  // The same for a graph that the passes have already made: no pass runs.
  static RefPtr<const Plan> of_passed(const Graph& graph, std::span<const uint8_t> dying);

  // Runs all steps. `inputs` have elements and the types of the inputs of the graph. An input whose
  // byte in `given` is true may become a result if it has no other owner. If run() throws, inputs
  // are unchanged. throws: the faults that kernels report, with the name and line of the call;
  // kResourceExhausted.
  Values run(Operands inputs, std::span<const uint8_t> given = {}) const;

  // Runs a plan repeatedly on memory of the caller. Kernels use it to run the graphs of their
  // calls.
  // threads: confined to one thread at a time; the plan outlives it.
  class Runner;

  // Bytes of all arenas; and of all values alive at the peak, a lower bound.
  int64_t arena_bytes() const noexcept { return arena_bytes_; }
  int64_t live_bytes() const noexcept { return live_bytes_; }
  std::size_t steps() const noexcept { return steps_.size(); }
  // Whether a step can fail, for elements that its kernel refuses.
  bool may_fail() const noexcept { return may_fail_; }
  // The estimated time of all steps.
  const CallTime& time() const noexcept { return time_; }
  // The number of forks: groups of steps that may run in parallel.
  std::size_t forks() const noexcept { return forks_.size(); }
  // The number of results that may take the memory of inputs.
  std::size_t donations() const noexcept { return donations_.size(); }
  // Whether a Runner may use the memory of this input for this output. The input is then lost, even
  // if the run fails.
  bool may_go_over(std::size_t input, std::size_t output) const noexcept;
  // The plan as the steps of a loop; std::nullopt if that is impossible, or if code generation is
  // off. Valid as long as the plan.
  std::optional<LoopCode> loop_code(const LoopShape& loop) const;
  // The steps and places of the plan. Valid as long as the plan.
  PlanLayout layout() const;
  // One step per line: "@64 float32[2,3] = matmul(x, @0 float32[4,3])  # train.cc:41", below it the
  // calls that it replaces; then the clusters.
  std::string to_string() const;
  // The graph that runs, after the passes. Valid as long as the plan.
  const Graph& graph() const noexcept { return *graph_; }
  // The ranges of nodes, [first, end), that compiled code may replace.
  struct ClusterRange {
    std::size_t first, end;
    const ClusterCode* code;
  };
  std::vector<ClusterRange> clusters() const;

 private:
  friend class Planner;
  friend class StretchFinder;
  class Arenas;  // that plans of a device share
  // The location of the bytes of a value.
  enum class Home : uint8_t { kNone, kInput, kConstant, kArena, kOutput };
  struct Place {
    Home home = Home::kNone;
    uint32_t index = 0;  // of the input, the constant, the new tensor, or the arena
    int64_t offset = 0;  // bytes from its start
  };
  // The block of memory for intermediate values on one device.
  struct Arena {
    Device device;
    int64_t bytes = 0;
  };
  struct Step {
    KernelFn run;
    KernelState state;
    uint32_t first_place;  // results, then operands, in places_
    uint32_t results;
    uint32_t operands;
    uint32_t node;
  };
  // Steps [first, end): a cluster, if it has code or will have code.
  struct Stretch {
    std::size_t first = 0, end = 0;
    const ClusterCode* code = nullptr;
    uint32_t first_place = 0;    // its slots are the places from there on
    std::vector<double> params;  // of its calls
  };
  // Runs stretches [first, end) in turn. Branch b of a fork is the stretches [branches[b],
  // branches[b + 1]).
  struct Section {
    std::size_t first = 0, end = 0;
    std::vector<std::size_t> branches;  // empty: no fork
  };
  struct Output {
    const Type* type = nullptr;  // null: absent
    Place place;
    bool is_whole = false;  // the new tensor is the output
  };
  // A pointer that each run sets: places_[at] is in an input or in a new tensor.
  struct Patch {
    uint32_t at;
    uint32_t index;
    int64_t offset;
  };
  // The tensor of this input may become the new tensor `made`: a result, or memory for values.
  struct Donation {
    uint32_t input;
    uint32_t made;
    bool is_room = false;
  };
  // The memory of one run at a time: the arenas, and all pointers of all steps.
  struct Frame {
    Frame() = default;
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;
    ~Frame() {
      for (Buffer* arena : arenas) {
        if (arena != nullptr) free_buffer(arena);
      }
    }

    std::vector<Buffer*> arenas;    // as in the plan
    std::vector<void*> pointers;    // one per place
    std::vector<KernelCall> calls;  // one per step, into `pointers`
  };

  // A value that must be there before a run writes over an input.
  struct LateValue {
    DeviceMemory* memory;
    Place place;
    std::size_t bytes;
  };

  Plan() = default;
  ~Plan() override;
  // Returns an existing frame, possibly of another plan, or a new frame.
  std::unique_ptr<Frame> take_frame() const;
  std::unique_ptr<Frame> take_spare() const;  // an existing one; null: none
  void give_frame(std::unique_ptr<Frame> frame) const noexcept;
  std::unique_ptr<Frame> make_frame(Buffer* arena) const;  // null: new arenas
  bool shares_arena() const noexcept;
  void share_arena() const;  // called when the plan is made
  // Null, or the step whose kernel reported a fault.
  const Step* run_steps(const Frame& frame) const;
  const Step* run_range(const Frame& frame, std::size_t first, std::size_t end) const;
  const Step* walk(const Frame& frame, const Stretch* first, const Stretch* end) const;
  const Step* run_stretches(const Frame& frame, std::size_t first, std::size_t end) const;
  const Step* run_sections(const Frame& frame) const;
  const Step* run_fork(const Frame& frame, const Section& fork) const;
  const Step* run_watched_steps(const Frame& frame) const;
  // `safe`: neither this node nor a later one can fail.
  void find_late_values(std::size_t safe);
  // Waits for the late values between two parts of the steps. throws: their late errors.
  const Step* run_in_two(const Frame& frame, Operands inputs, const Values& made) const;
  void take_given(Operands inputs, std::span<const uint8_t> given, Values& made) const;
  void add_results(Operands inputs, Values& made, Values& out, bool from_made) const;
  std::string place_text(const Place& place) const;
  // In builds with assertions, simulates the steps and checks that each read sees the intended
  // value (plan_check.cc). It shares no code with the planner.
  void verify_places() const;
  void verify_devices() const;  // that results are in the memory of their devices
  void verify_donation(const Donation& donation, bool may_fail) const;
  // Checks that branches use separate memory (plan_check_forks.cc). It looks only at places.
  void verify_forks() const;
  class ForkCheck;
  // Copies the names of fused calls from `source`, the graph before its nodes were put in order.
  // `later`: defers the copy, since a lock of that graph is held.
  void keep_fused_calls(const Graph& source, bool later) const;

  const Graph* graph_ = nullptr;  // after the passes
  GraphRef owned_;                // that graph, unless that graph caches the plan
  std::vector<Step> steps_;
  std::vector<Stretch> stretches_;  // all steps, in order; empty without clusters and forks
  std::vector<Section> sections_;   // all stretches, in order; empty without forks
  std::vector<Fork> forks_;         // of nodes
  // For a plan with forks: the number of each node before branches were made contiguous (the order
  // of the program), and all steps in that order.
  std::vector<uint32_t> source_nodes_, program_order_;
  std::vector<Place> places_;
  std::vector<RefPtr<const RefCounted>> held_;  // targets of pointers in `state.params`
  std::vector<Patch> input_patches_, output_patches_;
  std::vector<const Type*> made_;  // types of the new tensors
  std::vector<Output> outputs_;
  std::vector<Donation> donations_;  // in the order of inputs
  std::vector<Donation> overs_;      // all that may_go_over() allows
  std::vector<Arena> arenas_;
  int64_t arena_bytes_ = 0;  // of all arenas
  int64_t live_bytes_ = 0;
  std::vector<LateValue> late_values_;
  std::size_t first_safe_ = 0;  // the step before which a run waits for them
  bool may_fail_ = false;
  CallTime time_;

  mutable std::atomic<bool> lacks_fused_calls_{false};
  mutable std::atomic<Frame*> spare_{nullptr};
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Frame>> spares_;  // beyond the first
};

// Copies the elements of a value on its device, unless they are in place.
// throws: a late error of the device.
void copy_elements(const Type* type, void* to, const void* from);

class Plan::Runner {
 public:
  // throws: kResourceExhausted.
  explicit Runner(const Plan& plan);
  Runner(Runner&&) = default;
  ~Runner();

  // Runs once. `in` are the elements of the inputs. `out` is memory for the elements of the
  // outputs, which overlaps no input unless may_go_over() allows it; null for absent outputs.
  // Returns false after report_fault(), which names the failed op and its line.
  bool run(const void* const* in, void* const* out);

 private:
  const Plan* plan_;
  std::unique_ptr<Frame> frame_;
  std::vector<int32_t> whole_;   // by new tensor: its output; -1: none
  std::vector<void*> made_;      // the new tensors of this run
  std::vector<Tensor> scratch_;  // for new tensors that are not outputs
};

}  // namespace internal
}  // namespace etude
