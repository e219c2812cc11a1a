// SPDX-License-Identifier: Apache-2.0
// The data that a staged function keeps from call to call. Used by function_core.cc and
// creation.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "etude/base/internal/fork_lock.h"
#include "etude/stage/function_core.h"
#include "etude/stage/retrace.h"

namespace etude::internal {

// Whether this thread is inside the vmaps whose examples the trace captures.
bool is_in_its_vmaps(const Trace& trace);

// For max_traces: the order of uses.
void note_use(const Trace& trace) noexcept;

// The hash of the part of a key that sizes do not change: dtypes, ranks, host numbers, phase.
uint64_t form_hash(const TraceKey& key);
uint64_t form_hash(const Arguments& call);

// Traces by the hash of their keys, for a function with many.
class TraceIndex {
 public:
  // If it throws, nothing has changed.
  void add(const TraceRef& trace, bool is_instance);
  void remove(const Trace& trace) noexcept;
  // The latest trace of this hash that serves, and else the latest instance. Null: none.
  template <class Serves>
  TraceRef find(uint64_t hash, const Serves& serves) const {
    const Entry* best = nullptr;
    const auto [begin, end] = entries_.equal_range(hash);
    for (auto at = begin; at != end; ++at) {
      const Entry& entry = at->second;
      if ((best == nullptr || entry.order > best->order) && serves(*entry.trace)) best = &entry;
    }
    return best == nullptr ? TraceRef() : best->trace;
  }
  // The latest kMostOfForm traces of this form_hash(), oldest first.
  std::vector<TraceRef> latest_of_form(uint64_t form) const;
  // The traces of this form_hash() that have a symbolic graph, oldest first.
  std::vector<TraceRef> symbolic_of_form(uint64_t form) const;

  static constexpr std::size_t kMostOfForm = 64;

 private:
  struct Entry {
    TraceRef trace;
    uint64_t order;  // larger for later ones, and for traces than for instances
  };
  struct Form {
    std::vector<TraceRef> traces;    // oldest first
    std::vector<TraceRef> symbolic;  // of them
  };
  std::unordered_multimap<uint64_t, Entry> entries_;
  std::unordered_map<uint64_t, Form> forms_;  // without instances
  uint64_t next_ = 0;
};

struct FunctionCore::Kept {
  explicit Kept(std::shared_ptr<RetraceMonitor> of) : history(std::move(of)) {}
  // Drops traces that can serve no further call, since their enclosing trace or vmap has ended, or
  // since an object in their key has been destroyed.
  void drop_useless() const;
  // Adds to the list, one of the two. The lock is held. If it throws, nothing has changed.
  void add(std::vector<TraceRef>& list, const TraceRef& trace);
  // Forgets all about a trace that the caller takes out of its list. The lock is held.
  void forget(const Trace& trace) const noexcept;
  // Traces that may differ from a call in sizes alone, oldest first: the latest of them, or those
  // with a symbolic graph. Their cost does not grow with the number of other traces.
  std::vector<TraceRef> latest_of_form(const Arguments& call) const;
  std::vector<TraceRef> symbolic_of_form(const Arguments& call) const;

  std::shared_ptr<RetraceMonitor> history;
  // Guards all members below. No host code runs while it is held: no comparison, copy or destructor
  // of a host value, and no initialiser of a Variable.
  mutable ForkSafeSharedMutex mutex;
  // Oldest first. Useless traces may be dropped at any time, even by readers.
  mutable std::vector<TraceRef> traces;
  mutable std::vector<TraceRef> instances;  // of symbolic graphs, at sizes that were not traced
  // Of both lists, if they are long; else null. Refers to the same traces at any time.
  mutable std::unique_ptr<TraceIndex> index;
  mutable uint32_t ending = 0;  // traces that may become useless
  bool was_traced = false;
  bool has_warned = false;  // of the limit
  // The functions (this function or nested functions) that caused first runs.
  std::vector<std::string> first_runs;
};

}  // namespace etude::internal
