// SPDX-License-Identifier: Apache-2.0
#include "etude/variables/init_scope.h"

#include "etude/variables/enclosing_trace.h"

namespace etude::internal {

OutsideScope::OutsideScope()
    : trace_(EnclosingTrace::exchange_innermost(nullptr)),
      keys_(nullptr),
      eager_(eager_context()) {}

OutsideScope::~OutsideScope() { EnclosingTrace::exchange_innermost(trace_); }

}  // namespace etude::internal
