// SPDX-License-Identifier: Apache-2.0
#include "etude/runtime/init_scope.h"

#include "etude/runtime/enclosing_trace.h"

namespace etude::internal {

OutsideScope::OutsideScope()
    : trace_(EnclosingTrace::exchange_innermost(nullptr)),
      keys_(nullptr),
      eager_(eager_context()) {}

OutsideScope::~OutsideScope() { EnclosingTrace::exchange_innermost(trace_); }

}  // namespace etude::internal
