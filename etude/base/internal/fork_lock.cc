// SPDX-License-Identifier: Apache-2.0
#include "etude/base/internal/fork_lock.h"

#include <chrono>
#include <mutex>
#include <new>
#include <thread>

#include <pthread.h>

namespace etude::internal {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kForkPatience(2);

// The locks of the process. Never destroyed.
struct ForkLocks {
  std::mutex mutex;  // of the list; held from before fork() to after it
  ForkLock* first = nullptr;
  bool is_held = false;

  static ForkLocks& instance() {
    static ForkLocks& made = *new ForkLocks;
    return made;
  }

  void unlock_before(const ForkLock* end) {
    for (ForkLock* l = first; l != end; l = l->after_) l->functions_.unlock(l->object_);
  }
  // None of the locks is held where it returns false.
  bool try_lock_all() {
    for (ForkLock* l = first; l != nullptr; l = l->after_) {
      if (l->functions_.try_lock(l->object_)) continue;
      unlock_before(l);
      return false;
    }
    return true;
  }
  void before_fork() {
    mutex.lock();
    const auto limit = steady_clock::now() + kForkPatience;
    while (!(is_held = try_lock_all()) && steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  void after_fork() {
    if (is_held) unlock_before(nullptr);
    mutex.unlock();
  }
  void after_fork_in_child() {
    for (ForkLock* l = first; is_held && l != nullptr; l = l->after_) {
      l->functions_.renew(l->object_);
    }
    mutex.unlock();
  }
};

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
  ForkLocks& locks = ForkLocks::instance();
  const std::lock_guard lock(locks.mutex);
  after_ = locks.first;
  if (after_ != nullptr) after_->before_ = this;
  locks.first = this;
}

ForkLock::~ForkLock() {
  ForkLocks& locks = ForkLocks::instance();
  const std::lock_guard lock(locks.mutex);
  if (after_ != nullptr) after_->before_ = before_;
  (before_ != nullptr ? before_->after_ : locks.first) = after_;
}

void renew(std::shared_mutex& mutex) noexcept { ::new (&mutex) std::shared_mutex; }

}  // namespace etude::internal
