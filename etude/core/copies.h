// SPDX-License-Identifier: Apache-2.0
// Explains why a write copied. Writes are in place unless the elements are shared; explain_copy()
// names the holder. MemoryStats::deep_copies counts such writes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "etude/base/call_site.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Describes this thread's latest write to a shared tensor, and the holder that still shares it:
//
//   parameter 'conv1/filter' copied by SGD::update at train.cc:30: shared with a pullback, which
//   keeps it for the derivative of conv2d at model.h:12. Release that object before the write
//
// Empty if no write of this thread has copied. The search covers the live tapes of this thread and
// the frozen tapes that pullbacks of any thread hold.
//
// cost: a traversal of the calls on live tapes. A write only records its function, line and
// elements.
std::string explain_copy();

namespace internal {

// Elements that were shared at the time of a write.
struct SharedElements {
  uint64_t value = 0;   // id of the value
  uint64_t buffer = 0;  // id of its buffer; 0: the elements are in the block of the value itself
  bool are_in(const Tensor& x) const noexcept;
};

// An object that may share elements. Registered while alive, in a list of its thread or of all
// threads.
class ElementHolder {
 public:
  // With `frozen`, all threads may query it.
  explicit ElementHolder(bool frozen) noexcept;
  ElementHolder(const ElementHolder&) = delete;
  ElementHolder& operator=(const ElementHolder&) = delete;

  // "a pullback, which keeps it for the derivative of conv2d at model.h:12"; empty if it does not
  // hold the elements.
  virtual std::string describe(const SharedElements& elements) const = 0;
  // Returns the description of the first holder of the elements; empty if there is none.
  static std::string find(const SharedElements& elements);

 protected:
  ~ElementHolder();

 private:
  ElementHolder* next_;
  const bool frozen_;
};

// Counts a write to `x` that copies it to new memory, and records the data for explain_copy().
void note_copy(const Tensor& x, std::string_view by, CallSite where, std::string_view path = {});
// The same, but only if x is shared.
inline void note_if_copied(const Tensor& x, std::string_view by, CallSite where) {
  if (x.has_value() && !TensorAccess::is_unique(x)) [[unlikely]]
    note_copy(x, by, where);
}

}  // namespace internal
}  // namespace etude
