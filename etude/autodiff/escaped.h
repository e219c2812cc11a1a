// SPDX-License-Identifier: Apache-2.0
// Tensors that outlive the derivative that made them, for Diagnostics::escaped_value. Used by
// tape.cc, and only while that asks for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "etude/base/call_site.h"
#include "etude/core/call/values.h"

namespace etude::internal {

// Notes a result of a derivative that has ended, by value id: made by the op `op` at `made`. The
// latest 65,536 are known. thread-safe.
void note_escaped(uint64_t id, std::string_view op, CallSite made);

// Tells of an operand of a call at `where` that was noted. thread-safe.
// throws: kInvalidArgument for Severity::kError.
void tell_escaped(Operands in, CallSite where);

}  // namespace etude::internal
