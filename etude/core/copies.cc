// SPDX-License-Identifier: Apache-2.0
#include "etude/core/copies.h"

#include <mutex>

#include <fmt/format.h>

#include "etude/base/internal/fork_lock.h"
#include "etude/base/thread_object.h"
#include "etude/core/internal/value_observer.h"

namespace etude {
namespace internal {
namespace {

// The latest copy of the thread.
struct CopyNote {
  SharedElements elements;
  std::string by;
  std::string path;
  CallSite where;
};

thread_local constinit ElementHolder* first_of_thread = nullptr;
constinit ElementHolder* first_frozen = nullptr;
ForkSafeMutex& frozen_mutex() {
  static auto* const mutex = new ForkSafeMutex;  // outlives static pullbacks
  return *mutex;
}
std::unique_lock<ForkSafeMutex> lock_if(bool frozen) {
  return frozen ? std::unique_lock(frozen_mutex()) : std::unique_lock<ForkSafeMutex>();
}

uint64_t id_of(Buffer* buffer) noexcept {
  if (buffer == nullptr) return 0;
  uint64_t id = buffer->id.load(std::memory_order_relaxed);
  if (id != 0) return id;
  const uint64_t fresh = new_value_id();
  return buffer->id.compare_exchange_strong(id, fresh, std::memory_order_relaxed) ? fresh : id;
}

}  // namespace

bool SharedElements::are_in(const Tensor& x) const noexcept {
  if (!x.has_value()) return false;
  if (value == TensorAccess::id_or_zero(x)) return true;
  const Buffer* held = TensorAccess::rep(x)->buffer;
  return buffer != 0 && held != nullptr && held->id.load(std::memory_order_relaxed) == buffer;
}

ElementHolder::ElementHolder(bool frozen) noexcept : frozen_(frozen) {
  const auto lock = lock_if(frozen);
  ElementHolder*& first = frozen ? first_frozen : first_of_thread;
  next_ = first;
  first = this;
}

ElementHolder::~ElementHolder() {
  const auto lock = lock_if(frozen_);
  ElementHolder** place = frozen_ ? &first_frozen : &first_of_thread;
  while (*place != this) place = &(*place)->next_;
  *place = next_;
}

std::string ElementHolder::find(const SharedElements& elements) {
  std::string found;
  const auto look = [&](const ElementHolder* holder) {
    for (; holder != nullptr && found.empty(); holder = holder->next_) {
      found = holder->describe(elements);
    }
  };
  look(first_of_thread);
  const auto lock = lock_if(true);
  look(first_frozen);
  return found;
}

void note_copy(const Tensor& x, std::string_view by, CallSite where, std::string_view path) {
  if (TensorAccess::is_abstract(x)) return;
  count_deep_copy();
  CopyNote& latest = ThreadObject<CopyNote>::get();
  latest.elements = {TensorAccess::id(x), id_of(TensorAccess::rep(x)->buffer)};
  latest.by = by;
  latest.path = path;
  latest.where = where;
}

}  // namespace internal

std::string explain_copy() {
  const internal::CopyNote* note = internal::ThreadObject<internal::CopyNote>::find();
  if (note == nullptr) return "";
  std::string out = note->path.empty() ? "a tensor" : fmt::format("parameter '{}'", note->path);
  out += fmt::format(" copied by {}", note->by);
  if (note->where.known()) out += fmt::format(" at {}:{}", note->where.file, note->where.line);
  const std::string holder = internal::ElementHolder::find(note->elements);
  if (!holder.empty()) {
    return out + fmt::format(": shared with {}. Release that object before the write", holder);
  }
  return out +
         ": shared with another tensor: a copy of it, a view, or something that is gone by now. "
         "Move the tensor there instead, or let the copy go before the write";
}

}  // namespace etude
