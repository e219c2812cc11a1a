// SPDX-License-Identifier: Apache-2.0
// Which tape each thread records on, and which of all tapes of the process are being recorded. Base
// of the tape (scalar_tape.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "etude/diff/kept_memory.h"
#include "etude/diff/slots.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

template <class T>
class ScalarTape;

// threads: thread-safe; current() and current_key() are those of the calling thread.
template <class T>
class TapeThreads {
 public:
  // The innermost tape that this thread records on; null: none.
  static ScalarTape<T>*& current() {
    thread_local constinit ScalarTape<T>* tape = nullptr;
    return tape;
  }
  // Its key; kNoKey: there is none. Looked at by each call, where the tape itself need not be.
  static std::uint64_t& current_key() {
    thread_local constinit std::uint64_t key = kNoKey;
    return key;
  }

 protected:
  // Of all tapes of the process, in turn; 0 is none.
  static std::uint64_t next_key() {
    static constinit std::atomic<std::uint64_t> last = 0;
    std::uint64_t key = 0;
    while (key == 0 || key == kNoKey || key == kMovedFrom) {
      key = (last.fetch_add(1, std::memory_order_relaxed) + 1) << kSlotBits;
    }
    return key;
  }

  // The key of the innermost tape of a thread, for other threads to see.
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

    std::atomic<std::uint64_t> key = kNoKey;

   private:
    ThreadKey* next_ = nullptr;
  };
  // Not inlined: g++ 12 would inline less of the calling function then, which ran a third slower.
  [[gnu::noinline]] static void tell_current(std::uint64_t key) noexcept {
    current_key() = key;
    if (ThreadKey* mine = kept_by_thread<ThreadKey>()) {
      mine->key.store(key, std::memory_order_relaxed);
    }
  }
  static bool is_recorded_somewhere(std::uint64_t key) {
    const std::lock_guard lock(ThreadKey::mutex());
    for (const ThreadKey* t = ThreadKey::first(); t != nullptr; t = t->next()) {
      if (t->key.load(std::memory_order_relaxed) == key) return true;
    }
    return false;
  }
};

}  // namespace internal
}  // namespace etude
