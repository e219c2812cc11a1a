// SPDX-License-Identifier: Apache-2.0
// Cancels a computation from another thread, for example if a call takes too long or its result is
// no longer needed.
#pragma once

#include <atomic>
#include <memory>

#include "etude/version.h"

namespace ETUDE_API etude {

// A request to stop. All copies share one state. threads: thread-safe.
class Cancellation {
 public:
  Cancellation();
  // A cancellation is permanent: use a new object for the next computation.
  void cancel() const noexcept { is_cancelled_->store(true, std::memory_order_relaxed); }
  bool is_cancelled() const noexcept { return is_cancelled_->load(std::memory_order_relaxed); }

 private:
  std::shared_ptr<std::atomic<bool>> is_cancelled_;
};

// While a scope is alive, each call of an op on this thread first checks the Cancellation. This
// includes eager calls, and calls inside functions, branches and loops. The first call after
// cancel() throws kCancelled. The error names the op and the user's line. As after any error, a
// cancelled call of a function has assigned no Variable and changed no argument. Scopes nest. A
// call checks all scopes around it.
//
//   Cancellation enough;
//   std::jthread timer([&] { std::this_thread::sleep_for(1s); enough.cancel(); });
//   const CancelScope scope(enough);
//   solve(x);
//
// A kernel that has begun runs to its end.
// threads: confined to the thread that made it.
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

// Whether the Cancellation of any CancelScope around this call is cancelled. For host loops.
bool is_cancelled() noexcept;

}  // namespace etude
