// SPDX-License-Identifier: Apache-2.0
// Locks that fork() takes, so that a child finds them open whatever other threads of its parent
// did: of the allocator, of tables of the process, and of staged functions.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// While alive, fork() takes a lock, or several, and releases it in the parent. fork() waits at most
// two seconds, without a lock in its hand, so that no deadlock is possible. threads: thread-safe.
// cost: the destructor visits all locks that were made later.
class ForkLock {
 public:
  struct Functions {
    bool (*try_lock)(void* object);
    void (*unlock)(void* object);
    void (*renew)(void* object);  // in the child: makes a new lock, or releases this one
  };
  // `object` is passed to the functions, which do not allocate.
  ForkLock(void* object, const Functions& functions) noexcept;
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;
  ~ForkLock();

 private:
  friend struct ForkLocks;
  void* object_;
  const Functions functions_;
  ForkLock* after_ = nullptr;  // in the list of all
};

// Registers the handlers of fork(), if they are not yet. The system calls the handlers that were
// registered later first. A handler may wait for threads that need these locks: call this function
// before such a handler is registered.
void prepare_fork_locks() noexcept;

// A std::shared_mutex after fork(): the child's thread has another id, which the lock compares.
void renew(std::shared_mutex& mutex) noexcept;

// A mutex that fork() holds.
class ForkSafeMutex {
 public:
  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static void open(void* mutex) { static_cast<std::mutex*>(mutex)->unlock(); }
  std::mutex mutex_;
  ForkLock fork_lock_{
      &mutex_, {[](void* m) { return static_cast<std::mutex*>(m)->try_lock(); }, open, open}};
};

// A shared mutex that fork() holds. Its memory is its own, so that its owner stays small.
class ForkSafeSharedMutex {
 public:
  void lock() { own_->mutex.lock(); }
  bool try_lock() { return own_->mutex.try_lock(); }
  void unlock() { own_->mutex.unlock(); }
  void lock_shared() { own_->mutex.lock_shared(); }
  bool try_lock_shared() { return own_->mutex.try_lock_shared(); }
  void unlock_shared() { own_->mutex.unlock_shared(); }

 private:
  struct Own {
    std::shared_mutex mutex;
    ForkLock fork_lock{&mutex,
                       {[](void* m) { return static_cast<std::shared_mutex*>(m)->try_lock(); },
                        [](void* m) { static_cast<std::shared_mutex*>(m)->unlock(); },
                        [](void* m) { renew(*static_cast<std::shared_mutex*>(m)); }}};
  };
  const std::unique_ptr<Own> own_ = std::make_unique<Own>();
};

}  // namespace internal
}  // namespace etude
