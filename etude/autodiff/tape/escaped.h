// SPDX-License-Identifier: Apache-2.0
// Tracks tensors that outlive the derivative in which they were made, for
// Diagnostics::escaped_value. Used by tape.cc, only while that option is set.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "etude/base/call_site.h"
#include "etude/core/call/values.h"

namespace etude::internal {

// Records a result of a finished derivative, by value id: made by the op `op` at `made`. The latest
// 65,536 are stored. threads: thread-safe.
void note_escaped(uint64_t id, std::string_view op, CallSite made);

// Reports an operand of a call at `where` if note_escaped() recorded it. threads: thread-safe.
// throws: kInvalidArgument for Severity::kError.
void warn_escaped(Operands in, CallSite where);

}  // namespace etude::internal
