// SPDX-License-Identifier: Apache-2.0
// OwnerLock: a lock that one thread takes very often and others rarely. It costs its owner two
// plain stores and a load, where a mutex needs two locked instructions.
//
// Invariant: the owner is inside if `inside_` is true or it holds `mutex_`. Another thread is
// inside if it holds `mutex_` and has seen `inside_` false since it announced itself in `guests_`.
// The owner writes `inside_` and then reads `guests_`; a guest does the reverse. So one of them
// sees the other, provided that neither processor reorders its read before its write. A guest
// ensures that for both, by a system call that makes every running thread of the process pass a
// full barrier (membarrier). Without that call, the owner uses locked instructions.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace etude::internal {

// A mutex (Lockable except try_lock) owned by the thread that makes it. Not recursive.
// threads: thread-safe.
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

  // The address of this variable identifies the thread. After the owner has ended, another thread
  // may have the same address. No other thread then has it, so that thread is the new owner.
  [[gnu::tls_model("initial-exec")]] static thread_local constinit char token_;
  static const bool has_barrier_;

  const char* const owner_;
  std::atomic<bool> inside_{false};
  bool has_mutex_ = false;  // of the owner
  std::atomic<uint32_t> guests_{0};
  std::mutex mutex_;
};

}  // namespace etude::internal
