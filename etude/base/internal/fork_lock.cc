// SPDX-License-Identifier: Apache-2.0
#include "etude/base/internal/fork_lock.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <thread>

#include <pthread.h>

namespace etude::internal {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kForkPatience(2);

// The locks of the process, a list. Never destroyed.
struct ForkLocks {
  std::mutex mutex;  // of removals; held from before fork() to after it
  // Newest first. Additions take no lock: a thread that makes a static object must not wait for
  // fork(). Otherwise the child would wait for the end of this initialisation.
  std::atomic<ForkLock*> first{nullptr};
  ForkLock* held = nullptr;  // the first lock that fork() holds; it holds all after it

  static ForkLocks& instance() {
    static ForkLocks& made = *new ForkLocks;
    return made;
  }

  void add(ForkLock& lock) {
    lock.after_ = first.load(std::memory_order_relaxed);
    while (!first.compare_exchange_weak(lock.after_, &lock, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
  }
  void remove(ForkLock& lock) {
    const std::lock_guard guard(mutex);
    ForkLock* head = &lock;
    if (first.compare_exchange_strong(head, lock.after_)) return;
    while (head->after_ != &lock) head = head->after_;
    head->after_ = lock.after_;
  }

  static void unlock_range(ForkLock* begin, const ForkLock* end) {
    for (ForkLock* l = begin; l != end; l = l->after_) l->functions_.unlock(l->object_);
  }
  // None of the locks is held where it returns false.
  static bool try_lock_from(ForkLock* begin) {
    for (ForkLock* l = begin; l != nullptr; l = l->after_) {
      if (l->functions_.try_lock(l->object_)) continue;
      unlock_range(begin, l);
      return false;
    }
    return true;
  }
  void before_fork() {
    mutex.lock();
    const auto limit = steady_clock::now() + kForkPatience;
    for (held = first.load(std::memory_order_acquire); !try_lock_from(held);) {
      if (steady_clock::now() > limit) {
        held = nullptr;
        return;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      held = first.load(std::memory_order_acquire);
    }
  }
  void after_fork() {
    unlock_range(held, nullptr);
    mutex.unlock();
  }
  void after_fork_in_child() {
    for (ForkLock* l = held; l != nullptr; l = l->after_) l->functions_.renew(l->object_);
    mutex.unlock();
  }
};

[[maybe_unused]] static const ForkLocks& made_in_time = ForkLocks::instance();

void prepare_fork_locks() noexcept {
  static const bool is_ready = [] {
    ForkLocks::instance();
    return pthread_atfork([] { ForkLocks::instance().before_fork(); },
                          [] { ForkLocks::instance().after_fork(); },
                          [] { ForkLocks::instance().after_fork_in_child(); }) == 0;
  }();
  static_cast<void>(is_ready);
}

ForkLock::ForkLock(void* object, const Functions& functions) noexcept
    : object_(object), functions_(functions) {
  prepare_fork_locks();
  ForkLocks::instance().add(*this);
}

ForkLock::~ForkLock() { ForkLocks::instance().remove(*this); }

void renew(std::shared_mutex& mutex) noexcept { ::new (&mutex) std::shared_mutex; }

}  // namespace etude::internal
