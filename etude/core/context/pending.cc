// SPDX-License-Identifier: Apache-2.0
#include "etude/core/context/pending.h"

namespace etude::internal {

void drop_mark(Buffer* mark) noexcept { static_cast<PendingMark*>(mark)->drop(); }

PendingMark::PendingMark() noexcept {
  count = 2;
  give_back = drop_mark;
}

PendingMark* pending_mark(const Tensor& x) noexcept {
  Buffer* buffer = x.has_value() ? TensorAccess::rep(x)->buffer : nullptr;
  const bool is_mark = buffer != nullptr && buffer->give_back == drop_mark;
  return is_mark ? static_cast<PendingMark*>(buffer) : nullptr;
}

bool is_unrun(const Tensor& x) noexcept {
  return x.has_value() && TensorAccess::is_abstract(x) && pending_mark(x) != nullptr;
}

bool observe(const Tensor& x, CallSite where) {
  if (TensorAccess::has_elements(x)) return true;
  PendingMark* mark = pending_mark(x);
  if (mark == nullptr) return false;
  mark->compute(where);
  return true;
}

const Tensor& owner_of_elements(const Tensor& x) noexcept {
  if (!TensorAccess::has_elements(x)) return x;
  const PendingMark* mark = pending_mark(x);
  return mark != nullptr ? mark->value() : x;
}

void settle(Tensor& x) noexcept {
  const TensorRep* rep = TensorAccess::rep(x);
  if (rep->data == nullptr || rep->count.load(std::memory_order_acquire) != 1) return;
  PendingMark* mark = pending_mark(x);
  // Another tensor over the same elements also holds the mark.
  if (mark == nullptr || mark->count.load(std::memory_order_acquire) != 2) return;
  Tensor owner = mark->take_value();
  TensorAccess::forget_id(x);
  x = std::move(owner);
}

}  // namespace etude::internal
