// SPDX-License-Identifier: Apache-2.0
// Plan: a graph made ready to run on the host. Its kernels are prepared, its intermediate values
// have places in one block of memory (the arena), and a run is a loop over its steps: no op is
// looked up, no tensor is made but for the results. It computes the same bits as the calls one by
// one.
// Runs of small calls among the steps are regions (region.h), for which machine code stands once it
// is there.
//
// Invariant of the places: two values share bytes only if the later one is written by a step that
// is the last reader of the earlier one and whose kernel may write its result there, or by a later
// step. Builds with assertions check it for each plan (verify_places).
//
// Invariant of donations: an input that is given away, and that nobody else holds when the plan
// runs, is the tensor of a result if the step that writes the result is the last reader of the
// input, its kernel may write there, and from this step on nothing can fail: no kernel reports a
// fault, and nothing is allocated. So a run that throws has written to no input. The places of
// the input and of the result are two; whether they are one tensor is decided by each run. A loop,
// whose carried values are its own, may go over them without that about failures (may_go_over()).
//
// Where it is known which inputs die (`dying`), large ones are room for large intermediate values
// behind their last reader, under the same condition, or the tensor of a large result of their type
// that is written later; and large results are room until they are written: so that what a run
// needs beside its inputs falls as they are used up, and what it needs beside its results grows as
// they are made, as where calls run one by one.
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
#include "etude/plan/plan_layout.h"
#include "etude/plan/region.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

struct LoopShape;

// All steps of a loop as one function, which a kernel may run in the place of a Runner.
class LoopCode {
 public:
  // All steps, at least one, unless code is not there yet: false then, and nothing was done. `in`
  // are the operands of the loop, whole, and `out` its results: carried values, then rows. Result c
  // may lie where operand c does.
  bool run(const void* const* in, void* const* out, std::size_t steps) const;

 private:
  friend class Plan;
  const RegionCode* code_ = nullptr;
  std::size_t inputs_ = 0, outputs_ = 0;
  std::vector<double> params_;
  std::vector<const void*> constants_;
};

// thread-safe: runs on several threads at once have an arena each. Large arenas that no run uses go
// to other plans that need one (plan_frames.cc).
class Plan final : public RefCounted {
 public:
  // The plan of this graph, made at the first question and kept by it. It is good while the graph
  // is. throws: kUnimplemented for an op without a kernel, naming it and its line.
  static RefPtr<const Plan> of(const Graph& graph);
  // `dying`: by input, whether nobody needs it after a run; the same at each question.
  static RefPtr<const Plan> of(const Graph& graph, std::span<const uint8_t> dying);
  // The same for a graph that the passes have made: none runs.
  static RefPtr<const Plan> of_passed(const Graph& graph, std::span<const uint8_t> dying);

  // Runs all steps. `inputs` have the types of the graph's inputs and elements. Those with a true
  // byte in `given` may become results if nobody else holds them; if this throws they are as they
  // were. throws: what a kernel reports, with the name and line of its call; kResourceExhausted.
  Values run(Operands inputs, std::span<const uint8_t> given = {}) const;

  // Runs on memory of the caller, as often as it likes: how a kernel runs the graphs of its call.
  // confined to one thread at a time; the plan outlives it.
  class Runner;

  // Bytes of the arena, and of all values that are alive at once where most are: a lower bound.
  int64_t arena_bytes() const noexcept { return arena_bytes_; }
  int64_t live_bytes() const noexcept { return live_bytes_; }
  std::size_t steps() const noexcept { return steps_.size(); }
  // Results that may take the memory of inputs.
  std::size_t donations() const noexcept { return donations_.size(); }
  // Whether a Runner may be given the memory of this input for this output. The input is lost then,
  // also where the run fails.
  bool may_go_over(std::size_t input, std::size_t output) const noexcept;
  // The plan as the steps of a loop: none where that cannot be, or no code is to be made. It is
  // good while the plan is.
  std::optional<LoopCode> loop_code(const LoopShape& loop) const;
  // Its steps and places. It is good while the plan is.
  PlanLayout layout() const;
  // One step per line: "@64 float32[2,3] = matmul(x, @0 float32[4,3])  # train.cc:41", below it the
  // calls that it took the place of; then the regions.
  std::string to_string() const;
  // What runs: the graph as the passes left it. It is good while the plan is.
  const Graph& graph() const noexcept { return *graph_; }
  // The runs of nodes, [first, end), that code may stand for.
  struct RegionRange {
    std::size_t first, end;
    const RegionCode* code;
  };
  std::vector<RegionRange> regions() const;

 private:
  friend class Planner;
  class Arenas;
  // Where the bytes of a value lie.
  enum class Home : uint8_t { kNone, kInput, kConstant, kArena, kOutput };
  struct Place {
    Home home = Home::kNone;
    uint32_t index = 0;  // of the input, the constant, or the new tensor
    int64_t offset = 0;  // bytes from there; from the beginning of the arena
  };
  struct Step {
    KernelFn run;
    KernelState state;
    uint32_t first_place;  // results, then operands, in places_
    uint32_t results;
    uint32_t operands;
    uint32_t node;
  };
  // Steps [first, end): a region, if there is code for it or will be.
  struct Stretch {
    std::size_t first = 0, end = 0;
    const RegionCode* code = nullptr;
    uint32_t first_place = 0;    // its slots are the places from there on
    std::vector<double> params;  // of its calls
  };
  struct Output {
    const Type* type = nullptr;  // null: absent
    Place place;
    bool is_whole = false;  // the new tensor itself
  };
  // A pointer that each run sets: places_[at] lies in an input or in a new tensor.
  struct Patch {
    uint32_t at;
    uint32_t index;
    int64_t offset;
  };
  // The tensor of this input may become the new tensor `made`: a result, or room for values.
  struct Donation {
    uint32_t input;
    uint32_t made;
    bool is_room = false;
  };
  // What one run at a time needs: the arena, and all pointers of all steps.
  struct Frame {
    Frame() = default;
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;
    ~Frame() {
      if (arena != nullptr) free_buffer(arena);
    }

    Buffer* arena = nullptr;
    std::vector<void*> pointers;    // one per place
    std::vector<KernelCall> calls;  // one per step, into `pointers`
  };

  Plan() = default;
  ~Plan() override;
  // A frame that is there already, be it of another plan, or a new one.
  std::unique_ptr<Frame> take_frame() const;
  std::unique_ptr<Frame> take_spare() const;  // one that is there; null: none
  void give_frame(std::unique_ptr<Frame> frame) const noexcept;
  std::unique_ptr<Frame> make_frame(Buffer* arena) const;  // null: a new arena
  void share_arena() const;                                // once the plan is made
  // Null, or the step that failed after its kernel reported a fault.
  const Step* run_steps(const Frame& frame) const;
  const Step* run_range(const Frame& frame, std::size_t first, std::size_t end) const;
  const Step* run_watched_steps(const Frame& frame) const;
  void take_given(Operands inputs, std::span<const uint8_t> given, Values& made) const;
  void add_results(Operands inputs, Values& made, Values& out, bool from_made) const;
  std::string place_text(const Place& place) const;
  // Builds with assertions run the steps in thought, and look at each read whether what is there is
  // what was meant (plan_check.cc). It shares nothing with the planner.
  void verify_places() const;
  void verify_donation(const Donation& donation, bool may_fail) const;

  const Graph* graph_ = nullptr;  // as the passes left it
  GraphRef owned_;                // that graph, unless it is the one which keeps the plan
  std::vector<Step> steps_;
  std::vector<Stretch> stretches_;  // all steps, in their order; none if none is of a region
  std::vector<Place> places_;
  std::vector<RefPtr<const RefCounted>> held_;  // what `state.params` point into
  std::vector<Patch> input_patches_, output_patches_;
  std::vector<const Type*> made_;  // types of the new tensors
  std::vector<Output> outputs_;
  std::vector<Donation> donations_;  // in the order of inputs
  std::vector<Donation> overs_;      // all that may_go_over() knows
  int64_t arena_bytes_ = 0;
  int64_t live_bytes_ = 0;

  mutable std::atomic<Frame*> spare_{nullptr};
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Frame>> spares_;  // beyond the first
};

class Plan::Runner {
 public:
  // throws: kResourceExhausted.
  explicit Runner(const Plan& plan);
  Runner(Runner&&) = default;
  ~Runner();

  // One run. `in` are the elements of the inputs; `out` has room for those of the outputs, which
  // overlaps with no input unless it may go over that, null for absent ones. False after
  // report_fault(), which names the op that failed and its line.
  bool run(const void* const* in, void* const* out);

 private:
  const Plan* plan_;
  std::unique_ptr<Frame> frame_;
  std::vector<int32_t> whole_;   // by new tensor: the output that it is; -1: none
  std::vector<void*> made_;      // where the new tensors of this run lie
  std::vector<Tensor> scratch_;  // for those that are no output
};

}  // namespace internal
}  // namespace etude
