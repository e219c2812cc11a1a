// SPDX-License-Identifier: Apache-2.0
// Pending values: tensors of calls that have been recorded and not been run. Such a tensor has a
// type and no elements yet; who meets it where elements are needed asks observe() for them. What
// makes the elements (runtime/lazy_trace.h) stands behind PendingMark: nothing here knows traces.
#pragma once

#include <memory>

#include "etude/base/call_site.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// What a holder of a pending tensor, such as a Variable, held before.
struct HeldBefore {
  Tensor value;
  std::weak_ptr<void> holder;
  // Lets the holder have its value again if what it holds now has failed. Runs under no lock.
  void (*restore)(void* holder);
};

// Hangs on a pending tensor where others have the owner of their elements, and stays there when the
// elements have come: it owns them then. So threads that share the header see one pointer for its
// life, and the elements are published once (ElementsPointer). Its count starts at two, as that of
// foreign memory, so that no tensor takes it for its own.
class PendingMark : public Buffer {
 public:
  // Gives the tensor its elements. throws: what the calls that it waits for throw.
  virtual void compute(CallSite where) = 0;
  // Another tensor for the same result, with an identity of its own. It has no elements yet.
  virtual Tensor again() = 0;
  // The tensor that owns the elements, once they are there; a writer that holds the only handle may
  // take it. thread-safe.
  virtual Tensor take_value() = 0;
  // How many recorded calls the elements wait for. thread-safe.
  virtual int64_t waits_for() = 0;
  // Keeps what the only holder of the tensor held before, until there are elements. Where the calls
  // fail, it is restored when the failure is thrown.
  virtual void keep_before(HeldBefore before) = 0;
  // What was kept, for another pending tensor in this one's place; absent: nothing.
  virtual Tensor take_before() = 0;
  // Whether the calls that it waits for have failed.
  virtual bool has_failed() = 0;

  const Tensor& value() const noexcept { return value_; }

 protected:
  PendingMark() noexcept;
  virtual ~PendingMark() = default;
  // The last tensor that it hangs on is gone.
  virtual void drop() noexcept = 0;

  Tensor value_;  // set before the elements are published

 private:
  friend void drop_mark(Buffer* mark) noexcept;
};

// What hangs on x; null if it is another tensor. It may have elements by now.
PendingMark* pending_mark(const Tensor& x) noexcept;
// Whether x waits for recorded calls.
bool is_unrun(const Tensor& x) noexcept;
// Gives x its elements if it is pending. Whether it has elements now.
// throws: what the calls that it waits for throw, with their op and line.
bool observe(const Tensor& x, CallSite where = {});
// x, or the tensor that owns the elements of x if they came later than x itself.
const Tensor& owner_of_elements(const Tensor& x) noexcept;
// Makes x that owner where x is the only handle, so that TensorAccess::is_unique tells the truth.
void settle(Tensor& x) noexcept;

}  // namespace internal
}  // namespace etude
