// SPDX-License-Identifier: Apache-2.0
// Tensors that represent values of a function during a trace: they have a type and no elements.
// Each knows its trace and the line that made it, so that errors about a read of its elements name
// them, during the trace and after it.
#pragma once

#include <atomic>
#include <string>

#include "etude/base/call_site.h"
#include "etude/base/internal/ref_ptr.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The description of a trace for messages. threads: thread-safe.
struct TraceInfo final : RefCounted {
  TraceInfo(std::string of, CallSite line) : function(std::move(of)), where(line) {}
  const std::string function;
  const CallSite where;  // of the call that caused the trace
  std::atomic<bool> is_over = false;
  std::atomic<bool> is_of_body = false;  // of a branch, or of the condition or body of a loop
};

// An abstract tensor (make_abstract) of `trace`, made at `where` by the op `op`; "" for an input of
// the function.
Tensor make_traced(const Type* type, const RefPtr<const TraceInfo>& trace, std::string_view op,
                   CallSite where);
// The trace of x; null for another tensor.
const TraceInfo* trace_of(const Tensor& x) noexcept;
// The line that made x: of a value of a trace, or of a value on another device than cpu:0. Unknown
// for others.
CallSite made_at(const Tensor& x) noexcept;
// Why an abstract tensor has no elements, and the next step, for messages: "a float32[2] made by
// add at train.cc:12 ...".
std::string explain_abstract(const Tensor& x);

}  // namespace internal
}  // namespace etude
