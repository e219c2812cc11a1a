// SPDX-License-Identifier: Apache-2.0
// Programs of segments: a plan for each structure of a segment. A program is found by a hash of 128
// bits and by the structure itself, so a collision costs time but cannot cause a wrong result.
// Segments that differ only in sizes share a symbolic graph (symbolic_graphs.h), but each has its
// own plan.
//
// No thread waits for a program. A missing program is made in the background (plan/background.h)
// from a copy of the structure, while the calls of the segment run one by one. Both compute the
// same values.
//
// Invariant of readiness: the members of a program are written under `mutex_` before its state
// becomes ready, and never after.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "etude/base/internal/function_ref.h"
#include "etude/base/internal/ref_ptr.h"
#include "etude/graph/graph.h"
#include "etude/lazy/lazy.h"
#include "etude/lazy/metrics.h"
#include "etude/lazy/structure.h"
#include "etude/lazy/symbolic_graphs.h"
#include "etude/lazy/trace.h"
#include "etude/plan/plan.h"

namespace etude::internal {

struct LazyProgramPlan final : RefCounted {
  enum class State : uint8_t { kBeingMade, kReady, kFailed };

  std::vector<uint64_t> words;  // the structure, without the values of numbers
  std::vector<Attrs> attrs;     // by node
  CallSite where;
  std::atomic<State> state{State::kBeingMade};
  std::atomic<int64_t> uses{0};
  // The numbers of the segment for which the program was made. A symbolic graph may have turned
  // more of them into inputs.
  std::vector<LazyNumber> numbers;
  // Once ready:
  GraphRef graph;    // as recorded
  GraphRef planned;  // the planned graph: after roll() and the passes, or of a symbolic graph
  std::size_t planned_nodes = 0;
  RefPtr<const Plan> plan;
  uint64_t number = 0;
  double compile_seconds = 0;
  std::string reason;

  bool is_ready() const noexcept { return state.load(std::memory_order_acquire) == State::kReady; }
};
using LazyProgramRef = RefPtr<LazyProgramPlan>;

// threads: thread-safe.
class LazyPrograms {
 public:
  static LazyPrograms& instance();

  // Returns the program of a segment, which may be unfinished or have failed; null if the line that
  // cut the segment has compiled too often. throws: the errors of passes and planning, if they run
  // on this thread.
  LazyProgramRef find_or_make(const LazySegment& segment);
  // Drops all programs, and calls `change` while no program is being made.
  void clear(FunctionRef<void()> change);
  std::vector<LazyProgramRef> all();  // the ready programs, in the order of making

 private:
  using List = std::list<LazyProgramRef>;  // most recently used first
  struct Key {
    uint64_t low, high;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept { return key.low; }
  };
  // A request for a program.
  struct Order {
    LazyStructure structure;
    LazyProgramRef program;
    LazyProgramRef like;  // the program to compare it with; null: none
    uint64_t generation;
  };
  // The result of a request.
  struct Made {
    std::vector<LazyNumber> numbers;
    GraphRef graph, planned;
    RefPtr<const Plan> plan;
    bool is_compiled = true;  // false: passes ran for another segment of its symbolic graph
    bool has_symbolic = false;
    std::string warning = {};  // see make()
  };

  static Key hash(const std::vector<uint64_t>& words);
  List::iterator find(const Key& key, const std::vector<uint64_t>& words,
                      const LazySegment& segment);
  // Returns false if the line has compiled too often. Sets `warning` to a text for warn(), or to
  // "". The caller warns without holding locks, since warn() runs host code.
  bool make(const Order& order, std::string& warning);
  void make_in_background(const Order& order) noexcept;
  void make_alone(const Order& order, std::string& warning, std::optional<Error>& failure);
  void note_made(const Order& order, const Made& made, double seconds);
  // Makes a plan, from a symbolic graph if possible. Returns false if passes are necessary and not
  // allowed.
  bool plan(Made& made, const LazyStructure& structure);
  bool plan_with_input(Made& made, const LazyStructure& structure);
  // Whether this line may compile one more program. The first refusal sets `warning`.
  bool may_compile(CallSite where, std::string& warning);
  LazySymbolicGraph* find_symbolic(const std::vector<uint64_t>& words);  // null: none
  // Both functions are called with `mutex_` held. Removing a program that was already dropped has
  // no effect.
  void insert(const Key& key, const LazyProgramRef& program);
  void remove(const LazyProgramPlan& program);

  std::mutex mutex_;
  List programs_;
  // All programs, by the hash of their words, which never change.
  std::unordered_multimap<Key, List::iterator, KeyHash> by_hash_;
  uint64_t made_ = 0;
  uint64_t generation_ = 0;  // the number of clear() calls
  std::map<std::string, std::size_t> compiles_by_line_;
  std::string latest_reason_;

  std::atomic<int> waiting_{0};  // requested programs that have not begun
  std::mutex background_mutex_;  // held while a program is made in the background
  std::mutex symbolic_mutex_;    // of the following; held while passes run for a symbolic graph
  std::list<LazySymbolicGraph> symbolic_graphs_;  // most recently used first
};

// Reports, once, that a program failed because of a bug and not because of its inputs.
void warn_failed_program(const Error& error);

// The first difference between two programs: "node 41 'reshape' has shape=[80,784], was ...".
std::string difference(const Graph& now, const Graph& before);

}  // namespace etude::internal
