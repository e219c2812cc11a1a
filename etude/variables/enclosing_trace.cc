// SPDX-License-Identifier: Apache-2.0
#include "etude/variables/enclosing_trace.h"

#include <utility>

namespace etude::internal {
namespace {

thread_local constinit EnclosingTrace* innermost_trace = nullptr;

}  // namespace

EnclosingTrace* EnclosingTrace::innermost() noexcept { return innermost_trace; }

EnclosingTrace* EnclosingTrace::exchange_innermost(EnclosingTrace* trace) noexcept {
  return std::exchange(innermost_trace, trace);
}

}  // namespace etude::internal
