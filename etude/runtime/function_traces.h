// SPDX-License-Identifier: Apache-2.0
// What a staged function keeps from call to call. Used by function_core.cc and creation.cc.
#pragma once

#include <memory>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "etude/runtime/function_core.h"
#include "etude/runtime/retrace.h"

namespace etude::internal {

struct FunctionCore::Kept {
  explicit Kept(std::shared_ptr<TraceHistory> of) : history(std::move(of)) {}

  std::shared_ptr<TraceHistory> history;
  mutable std::shared_mutex mutex;  // of the lists of traces
  std::vector<TraceRef> traces;     // oldest first
  std::vector<TraceRef> instances;  // of families, at sizes that were not traced; oldest first
  // The functions, this one or others within, that first runs were for. Under the lock for tracing.
  std::vector<std::string> first_runs;
};

}  // namespace etude::internal
