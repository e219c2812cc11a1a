// SPDX-License-Identifier: Apache-2.0
// Intrusive shared ownership: one atomic reference count inside the object. Used for buffers,
// tensors, attribute sets and prepared kernels. Not for cycles: they leak.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Base of reference-counted objects made with `new`. threads: thread-safe counts.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void retain() const noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  bool unique() const noexcept { return count_.load(std::memory_order_acquire) == 1; }

 protected:
  virtual ~RefCounted() = default;

 private:
  mutable std::atomic<uint32_t> count_{0};
};

// A handle to a reference-counted object. threads: thread-compatible, like std::shared_ptr.
template <class T>
class RefPtr {
 public:
  RefPtr() noexcept = default;
  explicit RefPtr(T* object) noexcept : object_(object) {
    if (object_ != nullptr) object_->retain();
  }
  RefPtr(const RefPtr& other) noexcept : RefPtr(other.object_) {}
  RefPtr(RefPtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> RefPtr(const RefPtr<U>& other)
  noexcept : RefPtr(other.get()) {}
  RefPtr& operator=(RefPtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~RefPtr() {
    if (object_ != nullptr) object_->release();
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

template <class T, class... A>
RefPtr<T> make_ref(A&&... args) {
  return RefPtr<T>(new T(std::forward<A>(args)...));
}

}  // namespace internal
}  // namespace etude
