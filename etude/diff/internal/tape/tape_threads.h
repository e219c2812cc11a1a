// SPDX-License-Identifier: Apache-2.0
// The current tape of each thread, and the set of all tapes that are being recorded. Base of the
// tape (scalar_tape.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "etude/diff/internal/tape/kept_memory.h"
#include "etude/diff/internal/tape/slots.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

template <class T>
class ScalarTape;

// threads: thread-safe; current() and current_key() belong to the calling thread.
template <class T>
class TapeThreads {
 public:
  // The innermost tape that this thread records on; null if none.
  static ScalarTape<T>*& current() {
    thread_local constinit ScalarTape<T>* tape = nullptr;
    return tape;
  }
  // The key of that tape; kNoKey if none. Read by each call, which often does not need the tape
  // itself.
  static uint64_t& current_key() {
    thread_local constinit uint64_t key = kNoKey;
    return key;
  }

 protected:
  // Process-wide, increasing; 0 is no key.
  static uint64_t next_key() {
    static constinit std::atomic<uint64_t> last = 0;
    uint64_t key = 0;
    while (key == 0 || key == kNoKey || key == kMovedFrom) {
      key = (last.fetch_add(1, std::memory_order_relaxed) + 1) << kSlotBits;
    }
    return key;
  }

  // The key of a thread's innermost tape, visible to other threads.
  class ThreadKey {
   public:
    ThreadKey() {
      const std::lock_guard lock(mutex());
      next_ = std::exchange(first(), this);
    }
    ThreadKey(const ThreadKey&) = delete;
    ThreadKey& operator=(const ThreadKey&) = delete;
    ~ThreadKey() {
      const std::lock_guard lock(mutex());
      ThreadKey** place = &first();
      while (*place != this) place = &(*place)->next_;
      *place = next_;
    }
    static std::mutex& mutex() {
      static std::mutex* made = new std::mutex;  // threads may end after static objects
      return *made;
    }
    static ThreadKey*& first() {
      static constinit ThreadKey* head = nullptr;
      return head;
    }
    const ThreadKey* next() const { return next_; }

    std::atomic<uint64_t> key = kNoKey;

   private:
    ThreadKey* next_ = nullptr;
  };
  // Not inlined: g++ 12 would inline less of the calling function, which ran a third slower.
  [[gnu::noinline]] static void warn_current(uint64_t key) noexcept {
    current_key() = key;
    if (ThreadKey* mine = kept_by_thread<ThreadKey>()) {
      mine->key.store(key, std::memory_order_relaxed);
    }
  }
  static bool is_recorded_somewhere(uint64_t key) {
    const std::lock_guard lock(ThreadKey::mutex());
    for (const ThreadKey* t = ThreadKey::first(); t != nullptr; t = t->next()) {
      if (t->key.load(std::memory_order_relaxed) == key) return true;
    }
    return false;
  }
};

}  // namespace internal
}  // namespace etude
