// SPDX-License-Identifier: Apache-2.0
// Who made a write copy: writes are in place unless others share the elements, and explain_copy()
// names the one that does. MemoryStats::deep_copies counts such writes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "etude/base/call_site.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// This thread's latest write of a tensor that others shared, and who shares it still:
//
//   parameter 'conv1/filter' copied by SGD::update at train.cc:30: shared with a pullback, which
//   keeps it for the derivative of conv2d at model.h:12. Let that go before the write
//
// Empty if no write of this thread has copied. Tapes of other threads are not looked at; frozen
// ones, those of pullbacks, are.
//
// cost: a walk over the calls on live tapes; the writes themselves only note who they were.
std::string explain_copy();

namespace internal {

// Elements that were shared when somebody wrote to them.
struct SharedElements {
  uint64_t value = 0;   // id of the value
  uint64_t buffer = 0;  // id of its buffer; 0: the elements are in the block of the value itself
  bool are_in(const Tensor& x) const noexcept;
};

// Who may share elements: kept in a list, of its thread or of all threads, while it lives.
class ElementHolder {
 public:
  // With `frozen`, any thread may ask it.
  explicit ElementHolder(bool frozen) noexcept;
  ElementHolder(const ElementHolder&) = delete;
  ElementHolder& operator=(const ElementHolder&) = delete;

  // "a pullback, which keeps it for the derivative of conv2d at model.h:12"; empty if it does not
  // hold the elements.
  virtual std::string describe(const SharedElements& elements) const = 0;
  // What the first of them says that holds the elements; empty if there is none.
  static std::string find(const SharedElements& elements);

 protected:
  ~ElementHolder();

 private:
  ElementHolder* next_;
  const bool frozen_;
};

// Counts a write of `x` that is about to go to new memory, and notes what explain_copy() says.
void note_copy(const Tensor& x, std::string_view by, CallSite where, std::string_view path = {});
// The same if others share x.
inline void note_if_copied(const Tensor& x, std::string_view by, CallSite where) {
  if (x.has_value() && !TensorAccess::is_unique(x)) [[unlikely]]
    note_copy(x, by, where);
}

}  // namespace internal
}  // namespace etude
