// SPDX-License-Identifier: Apache-2.0
// EnclosingTrace: a trace as code that does not trace sees it. A Variable tells the trace that it
// was made; lazy execution records nothing inside a trace. TraceContext (stage/trace.h) implements
// it.
#pragma once

#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Variable;

namespace internal {

// confined to the thread that made it.
class EnclosingTrace {
 public:
  EnclosingTrace(const EnclosingTrace&) = delete;
  EnclosingTrace& operator=(const EnclosingTrace&) = delete;

  // The innermost one of this thread; null: none.
  static EnclosingTrace* innermost() noexcept;
  // Makes another one the innermost, null for none, and gives the one that was.
  static EnclosingTrace* exchange_innermost(EnclosingTrace* trace) noexcept;

  // A Variable was made in it.
  virtual void variable_made(const Variable& variable) = 0;
  // A Variable could not be made, since its initial value hangs on what a trace stands for. Told to
  // the trace of the innermost function of this thread; without one, nothing is done.
  virtual void variable_refused(const Variable& variable) = 0;
  // What x stands for, computed now, if it is a value of this trace or of one around it that hangs
  // on numbers and tensors from outside alone; else absent: it hangs on an argument, a random key,
  // a Variable or an effect.
  virtual Tensor fixed_value(const Tensor& x) const = 0;

 protected:
  EnclosingTrace() = default;
  ~EnclosingTrace() = default;
};

}  // namespace internal
}  // namespace etude
