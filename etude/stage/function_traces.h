// SPDX-License-Identifier: Apache-2.0
// The data that a staged function keeps from call to call. Used by function_core.cc and
// creation.cc.
#pragma once

#include <memory>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "etude/stage/function_core.h"
#include "etude/stage/retrace.h"

namespace etude::internal {

// Whether this thread is inside the vmaps whose examples the trace captures.
bool is_in_its_vmaps(const Trace& trace);

struct FunctionCore::Kept {
  explicit Kept(std::shared_ptr<RetraceMonitor> of) : history(std::move(of)) {}
  // Drops traces that can serve no further call, since their enclosing trace or vmap has ended, or
  // since an object in their key has been destroyed.
  void drop_useless() const;

  std::shared_ptr<RetraceMonitor> history;
  // Guards all members below. No host code runs while it is held: no comparison, copy or destructor
  // of a host value, and no initialiser of a Variable.
  mutable std::shared_mutex mutex;
  // Oldest first. Useless traces may be dropped at any time, even by readers.
  mutable std::vector<TraceRef> traces;
  mutable std::vector<TraceRef> instances;  // of symbolic graphs, at sizes that were not traced
  bool was_traced = false;
  // The functions (this function or nested functions) that caused first runs.
  std::vector<std::string> first_runs;
};

}  // namespace etude::internal
