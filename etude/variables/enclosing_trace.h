// SPDX-License-Identifier: Apache-2.0
// EnclosingTrace: the interface of a trace for code below the folder of traces. A Variable reports
// its creation to the trace, and lazy execution records nothing inside a trace. TraceContext
// (stage/trace.h) implements it.
#pragma once

#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Variable;

namespace internal {

// threads: confined to the thread that made it.
class EnclosingTrace {
 public:
  EnclosingTrace(const EnclosingTrace&) = delete;
  EnclosingTrace& operator=(const EnclosingTrace&) = delete;

  // The innermost trace of this thread; null: none.
  static EnclosingTrace* innermost() noexcept;
  // Makes `trace` the innermost trace, null for none; returns the previous innermost trace.
  static EnclosingTrace* exchange_innermost(EnclosingTrace* trace) noexcept;

  // Called when a Variable was made inside this trace.
  virtual void variable_made(const Variable& variable) = 0;
  // Called when a Variable could not be made, since its initial value depends on a placeholder.
  // Reports to the innermost function trace of this thread; does nothing without such a trace.
  virtual void variable_refused(const Variable& variable) = 0;
  // The present value of the placeholder x, if x belongs to this trace or an enclosing trace and
  // depends only on numbers and tensors from outside. Absent if x depends on an argument, a random
  // key, a Variable or an effect.
  virtual Tensor fixed_value(const Tensor& x) const = 0;

 protected:
  EnclosingTrace() = default;
  ~EnclosingTrace() = default;
};

}  // namespace internal
}  // namespace etude
