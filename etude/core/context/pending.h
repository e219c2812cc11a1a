// SPDX-License-Identifier: Apache-2.0
// Pending values: tensors of calls that are recorded but not yet run. Such a tensor has a type and
// no elements yet. Code that needs the elements calls observe(). PendingMark is the interface to
// the code that computes them (lazy/trace.h); this file knows no traces.
#pragma once

#include <memory>

#include "etude/base/call_site.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The previous value of a holder of a pending tensor, such as a Variable.
struct HeldBefore {
  Tensor value;
  std::weak_ptr<void> holder;
  // Restores the previous value of the holder if its current value has failed. Runs under no lock.
  void (*restore)(void* holder);
};

// Attached to a pending tensor in its buffer pointer. It stays there after the elements have been
// computed, and then owns them. So all threads that share the header see one pointer for its whole
// life, and the elements are published once (ElementsPointer). The count starts at 2, as for
// foreign memory, so that no tensor considers the mark its own buffer.
class PendingMark : public Buffer {
 public:
  // Computes the elements of the tensor. throws: the errors of the calls it waits for.
  virtual void compute(CallSite where) = 0;
  // Returns another tensor for the same result, with an identity of its own and without elements.
  virtual Tensor again() = 0;
  // Returns the tensor that owns the elements, once they exist. A writer that holds the only handle
  // may take it.
  // threads: thread-safe.
  virtual Tensor take_value() = 0;
  // The number of recorded calls that the elements wait for. threads: thread-safe.
  virtual int64_t waits_for() = 0;
  // Keeps the previous value of the tensor's only holder until the elements exist. If the calls
  // fail, the value is restored when the error is thrown.
  virtual void keep_before(HeldBefore before) = 0;
  // Returns the value that keep_before() stored, for another pending tensor that replaces this
  // tensor; absent if there is none.
  virtual Tensor take_before() = 0;
  // Whether the calls that it waits for have failed.
  virtual bool has_failed() = 0;

  const Tensor& value() const noexcept { return value_; }

 protected:
  PendingMark() noexcept;
  virtual ~PendingMark() = default;
  // Called after the last tensor with this mark is gone.
  virtual void drop() noexcept = 0;

  Tensor value_;  // set before the elements are published

 private:
  friend void drop_mark(Buffer* mark) noexcept;
};

// The mark of x; null for another tensor. x may have elements already.
PendingMark* pending_mark(const Tensor& x) noexcept;
// Whether x waits for recorded calls to run.
bool is_unrun(const Tensor& x) noexcept;
// Computes the elements of x if it is pending. Returns whether x has elements now.
// throws: the errors of the calls it waits for, with their op and line.
bool observe(const Tensor& x, CallSite where = {});
// Returns the tensor that owns the elements of x: x itself, or another tensor if the elements were
// computed after x was made.
const Tensor& owner_of_elements(const Tensor& x) noexcept;
// Replaces x by the owner of its elements if x is the only handle, so that TensorAccess::is_unique
// is correct.
void settle(Tensor& x) noexcept;

}  // namespace internal
}  // namespace etude
