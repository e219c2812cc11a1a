// SPDX-License-Identifier: Apache-2.0
#include "etude/variables/init_scope.h"

#include "etude/core/context/ambient.h"
#include "etude/variables/enclosing_trace.h"

namespace etude::internal {

namespace {

// Makes the state of a new thread before the scopes, whose constructors must not fail.
EnclosingTrace* leave_trace() {
  static_cast<void>(ambient());
  return EnclosingTrace::exchange_innermost(nullptr);
}

}  // namespace

OutsideScope::OutsideScope() : trace_(leave_trace()), keys_(nullptr), eager_(eager_context()) {}

OutsideScope::~OutsideScope() { EnclosingTrace::exchange_innermost(trace_); }

}  // namespace etude::internal
