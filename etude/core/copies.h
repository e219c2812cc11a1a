// SPDX-License-Identifier: Apache-2.0
// Explains why a write copied a tensor. A write is in place unless the elements are shared.
// explain_copy() names the object that shares the elements. MemoryStats::deep_copies counts the
// writes that copied.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "etude/base/call_site.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Describes the latest write of this thread that copied a shared tensor, and the object that still
// shares the elements:
//
//   parameter 'conv1/filter' copied by SGD::update at train.cc:30: shared with a pullback, which
//   keeps it for the derivative of conv2d at model.h:12. Release that object before the write
//
// Returns "" if no write of this thread has copied a tensor. The search for the object covers the
// live tapes of this thread and the frozen tapes that pullbacks of any thread hold.
//
// cost: a traversal of the calls on live tapes. The write itself records only its function, its
// line and the ids of the elements.
std::string explain_copy();

namespace internal {

// Elements that were shared at the time of a write.
struct SharedElements {
  uint64_t value = 0;   // id of the value
  uint64_t buffer = 0;  // id of its buffer; 0: the elements are in the block of the value itself
  bool are_in(const Tensor& x) const noexcept;
};

// An object that may share elements. While alive, it is in the list of its thread or in the list of
// all threads.
class ElementHolder {
 public:
  // A frozen holder is in the list of all threads.
  explicit ElementHolder(bool frozen) noexcept;
  ElementHolder(const ElementHolder&) = delete;
  ElementHolder& operator=(const ElementHolder&) = delete;

  // "a pullback, which keeps it for the derivative of conv2d at model.h:12"; empty if this object
  // does not hold the elements.
  virtual std::string describe(const SharedElements& elements) const = 0;
  // Returns the description of the first holder of the elements; empty if there is none.
  static std::string find(const SharedElements& elements);

 protected:
  ~ElementHolder();

 private:
  ElementHolder* next_;
  const bool frozen_;
};

// Counts a write that copies `x` to new memory, and records the write for explain_copy(). Ignores
// an abstract `x`.
void note_copy(const Tensor& x, std::string_view by, CallSite where, std::string_view path = {});
// Calls note_copy() if x is shared.
inline void note_if_copied(const Tensor& x, std::string_view by, CallSite where) {
  if (x.has_value() && !TensorAccess::is_unique(x)) [[unlikely]]
    note_copy(x, by, where);
}

}  // namespace internal
}  // namespace etude
