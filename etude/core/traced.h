// SPDX-License-Identifier: Apache-2.0
// Tensors that stand for values of a function that is being traced: they have a type and no
// elements. Each knows its trace and the line that made it, so that a look at its elements is told
// in these terms, during the trace and after it.
#pragma once

#include <atomic>
#include <string>

#include "etude/base/call_site.h"
#include "etude/base/ref_ptr.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// What is told of a trace. thread-safe.
struct TraceInfo final : RefCounted {
  TraceInfo(std::string of, CallSite line) : function(std::move(of)), where(line) {}
  const std::string function;
  const CallSite where;  // of the call that it is made for
  std::atomic<bool> is_over = false;
};

// A ghost (make_ghost) that belongs to `trace` and was made at `where`, by the op `op`; "" for an
// input of the function.
Tensor make_traced(const Type* type, const RefPtr<const TraceInfo>& trace, std::string_view op,
                   CallSite where);
// Its trace; null for any other tensor.
const TraceInfo* trace_of(const Tensor& x) noexcept;
// Why a ghost has no elements, and what to do: for messages. "a float32[2] made by add at
// train.cc:12 ...".
std::string explain_ghost(const Tensor& x);

}  // namespace internal
}  // namespace etude
