// SPDX-License-Identifier: Apache-2.0
// OwnerLock: a lock that one thread takes all the time and others hardly ever. Its owner pays two
// plain stores and a load, where a mutex takes two locked instructions.
//
// Invariant: the owner is inside if `inside_` is true or it holds `mutex_`; another thread if it
// holds `mutex_` and has seen `inside_` false since it announced itself in `guests_`. The owner
// writes `inside_` and then reads `guests_`, a guest does the reverse; so one of them sees the
// other, if neither processor lets the read go before the write. A guest makes sure of that for
// both, by a system call that has every running thread of the process pass a full barrier
// (membarrier). Where there is no such call, the owner uses locked instructions.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace etude::internal {

// A mutex (Lockable but for try_lock) that belongs to the thread which makes it. Not recursive.
// thread-safe.
class OwnerLock {
 public:
  OwnerLock() noexcept : owner_(&token_) {}
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

  void lock() {
    if (!is_owner()) return lock_as_guest();
    if (has_barrier_) [[likely]] {
      inside_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler keeps the order
    } else {
      inside_.exchange(true, std::memory_order_seq_cst);
    }
    if (guests_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      lock_as_host();
  }
  void unlock() noexcept {
    if (!is_owner()) return unlock_as_guest();
    if (!has_mutex_) [[likely]]
      return inside_.store(false, std::memory_order_release);
    has_mutex_ = false;
    mutex_.unlock();
  }
  bool is_owner() const noexcept { return owner_ == &token_; }

 private:
  void lock_as_host();
  void lock_as_guest();
  void unlock_as_guest() noexcept;

  // Its address is the thread. Once the owner is gone another thread may have it, which then is the
  // only one, as the owner was.
  [[gnu::tls_model("initial-exec")]] static thread_local constinit char token_;
  static const bool has_barrier_;

  const char* const owner_;
  std::atomic<bool> inside_{false};
  bool has_mutex_ = false;  // of the owner
  std::atomic<uint32_t> guests_{0};
  std::mutex mutex_;
};

}  // namespace etude::internal
