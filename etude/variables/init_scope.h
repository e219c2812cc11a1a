// SPDX-License-Identifier: Apache-2.0
// init_scope(f): runs code of a staged function at once, outside of its graph.
#pragma once

#include <type_traits>
#include <utility>

#include "etude/core/context/ambient.h"
#include "etude/core/context/context.h"
#include "etude/core/context/device_scope.h"
#include "etude/core/internal/owned_result.h"
#include "etude/core/internal/size_reads.h"
#include "etude/variables/variable.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

class EnclosingTrace;

// While alive, this thread is outside of all traces, tapes and other contexts. Scopes of the
// ambient state remain.
// threads: confined to the thread that made it.
class OutsideScope {
 public:
  OutsideScope();
  OutsideScope(const OutsideScope&) = delete;
  OutsideScope& operator=(const OutsideScope&) = delete;
  ~OutsideScope();

 private:
  EnclosingTrace* trace_;
  KeyScope keys_;
  SizeReadsPause size_reads_;
  ReadersPause readers_;
  BottomScope eager_;
};

// The scope of init_scope(): an OutsideScope in which the DeviceScope around the staged call
// selects the device, unless a DeviceScope inside of the function does.
class InitScope {
  const OutsideScope outside_;
  const InCallerPlace place_;
};

}  // namespace internal

// Returns f(), run outside of all traces and tapes. The calls of f run at once and are in no graph.
// They run on the device of the innermost DeviceScope. This scope may be inside of the function or
// around the staged call.
//
//   Variable steps = init_scope([] { return Variable(0); });
//
// throws: the errors of f; kFailedPrecondition if f uses a value of a trace.
template <class F>
decltype(auto) init_scope(F&& f) {
  const internal::InitScope outside;
  return internal::call_owned(std::forward<F>(f));
}

}  // namespace etude
