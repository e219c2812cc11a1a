// SPDX-License-Identifier: Apache-2.0
// Programs of segments: a plan for each structure of a segment, found again by a hash of 128 bits
// and by the structure itself, so that a collision costs time and gives no wrong values. Segments
// that differ in sizes only share a family (lazy_family.h), and have a plan each.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "etude/base/ref_ptr.h"
#include "etude/graph/graph.h"
#include "etude/runtime/lazy_family.h"
#include "etude/runtime/lazy_metrics.h"
#include "etude/runtime/lazy_trace.h"
#include "etude/runtime/plan.h"

namespace etude::internal {

// A host number of a segment: a constant of the program, or one of its inputs.
struct LazyNumber {
  bool is_input = false;
  std::array<uint64_t, 2> bits{};  // of the constant
};

struct LazyProgramPlan final : RefCounted {
  std::vector<uint64_t> words;  // the structure, but for values of numbers
  std::vector<Attrs> attrs;     // by node
  std::vector<LazyNumber> numbers;
  GraphRef graph;    // as recorded
  GraphRef planned;  // what the plan is of: rolled (passes/roll.h) and passed, or of a family
  std::size_t planned_nodes = 0;
  bool has_family = false;
  RefPtr<const Plan> plan;
  uint64_t number = 0;
  std::atomic<int64_t> uses{0};
  double compile_seconds = 0;
  CallSite where;
  std::string reason;
};
using LazyProgramRef = RefPtr<LazyProgramPlan>;

// thread-safe.
class LazyPrograms {
 public:
  static LazyPrograms& instance();

  // The program of a segment, compiled if it is not there; null if the line that cut the segment
  // has compiled too often. throws: what passes and planning throw.
  LazyProgramRef find_or_make(const LazySegment& segment);
  void clear();
  std::vector<LazyProgramRef> all();  // in the order in which they were made

 private:
  using List = std::list<LazyProgramRef>;  // the one that was used last comes first
  struct Key {
    uint64_t low, high;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept { return key.low; }
  };

  static Key hash(const std::vector<uint64_t>& words);
  List::iterator find(const Key& key, const std::vector<uint64_t>& words,
                      const LazySegment& segment);
  LazyProgramRef make(const LazySegment& segment, std::vector<uint64_t> words,
                      std::vector<LazyNumber> numbers, LazyProgramRef like);
  // Gives `made` its plan, by a family if one serves it. Whether passes ran for it; nothing if they
  // would have to and may not.
  std::optional<bool> plan(LazyProgramPlan& made, const LazySegment& segment);
  bool plan_with_input(LazyProgramPlan& made, const LazySegment& segment);
  // Whether this line may compile once more; tells the user once where it may not.
  bool may_compile(CallSite where);
  LazyFamily* find_family(const std::vector<uint64_t>& words);  // null: there is none
  void insert(const Key& key, const LazyProgramRef& program);

  std::mutex mutex_;
  List programs_;
  std::unordered_multimap<Key, List::iterator, KeyHash> by_hash_;
  uint64_t made_ = 0;
  std::map<std::string, std::size_t> compiles_by_line_;
  std::string latest_reason_;

  std::mutex families_mutex_;       // of all that follows; held while passes run for a family
  std::list<LazyFamily> families_;  // the one that was asked last comes first
};

// The first difference between two programs: "node 41 'reshape' has shape=[80,784], was ...".
std::string difference(const Graph& now, const Graph& before);

// All of them: other options may make others.
void forget_programs();

}  // namespace etude::internal
