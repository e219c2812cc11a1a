// SPDX-License-Identifier: Apache-2.0
// What every way into an op does with an error that comes out of it.
#pragma once

#include <new>

#include "etude/base/error.h"
#include "etude/core/mode.h"
#include "etude/core/op.h"

namespace etude::internal {

// Runs `f`. Its errors get the op's name and the user's line, unless a rule runs: then the op that
// the rule belongs to is named. Inlined, since it stands on the path of every call.
template <class F>
[[gnu::always_inline]] inline auto located(const Op& op, CallSite where, F&& f) {
  try {
    return f();
  } catch (Error& error) {
    if (!is_inside_rule()) {
      error.name_op(op.name());
      error.locate(where);
    }
    throw;
  } catch (const std::bad_alloc&) {
    Error error(ErrorCode::kResourceExhausted, "the host has no memory left for this call");
    error.name_op(op.name());
    error.locate(where);
    throw error;
  }
}

}  // namespace etude::internal
