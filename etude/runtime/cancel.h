// SPDX-License-Identifier: Apache-2.0
// Ending a computation from another thread: a call that would take too long, or that nobody waits
// for any more.
#pragma once

#include <atomic>
#include <memory>

#include "etude/version.h"

namespace ETUDE_API etude {

// Says that somebody wants an end. Copies are the same object. thread-safe.
class Cancellation {
 public:
  Cancellation();
  // For ever: take a new object for the next computation.
  void cancel() const noexcept { is_cancelled_->store(true, std::memory_order_relaxed); }
  bool is_cancelled() const noexcept { return is_cancelled_->load(std::memory_order_relaxed); }

 private:
  std::shared_ptr<std::atomic<bool>> is_cancelled_;
};

// While it lives, calls of ops on this thread, eager ones and those of functions, branches and
// loops, look at the Cancellation before they begin. The first that finds it cancelled throws
// kCancelled, with its op and the user's line. As with any error, a call of a function that ends so
// has assigned no Variable and changed no argument. Scopes nest: each one ends what is inside of
// it.
//
//   Cancellation enough;
//   std::jthread timer([&] { std::this_thread::sleep_for(1s); enough.cancel(); });
//   const CancelScope scope(enough);
//   solve(x);
//
// A kernel that has begun runs to its end. confined to the thread that made it.
class CancelScope {
 public:
  explicit CancelScope(Cancellation cancellation) noexcept;
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;
  ~CancelScope();

 private:
  friend bool is_cancelled() noexcept;
  Cancellation cancellation_;
  const CancelScope* outer_;
};

// Whether a CancelScope around this call was cancelled: for loops of the host.
bool is_cancelled() noexcept;

}  // namespace etude
