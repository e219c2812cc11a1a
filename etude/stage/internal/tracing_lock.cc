// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/internal/tracing_lock.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "etude/base/check.h"
#include "etude/base/permanent.h"
#include "etude/stage/function_core.h"

namespace etude::internal {

struct TracingEntry {
  const FunctionCore* function;
  TraceKey key;
  std::thread::id thread;
  bool is_first;
};

namespace {

using std::chrono::steady_clock;
using EntryRef = std::shared_ptr<TracingEntry>;

std::atomic<std::chrono::milliseconds> patience{std::chrono::minutes(5)};

struct Table {
  std::mutex mutex;      // never held while a key is compared, which calls == of a user's types
  uint64_t version = 0;  // counts the changes of `entries`
  std::vector<EntryRef> entries;
  std::map<std::thread::id, std::thread::id> waits_for;

  // Whether `thread` waits for `me`, directly or by way of others.
  bool is_waiting_for(std::thread::id thread, std::thread::id me) const {
    for (std::size_t steps = 0; steps <= waits_for.size(); ++steps) {
      const auto at = waits_for.find(thread);
      if (at == waits_for.end()) return false;
      if (at->second == me) return true;
      thread = at->second;
    }
    return false;
  }
};
Table& table() {
  static Permanent<Table> made;
  return *made;
}

enum class Attempt { kTaken, kChanged, kWaits };

// Enters `mine` unless an entry of another thread holds it back.
Attempt try_enter(const EntryRef& mine, const Arguments& call) {
  std::vector<EntryRef> others;
  uint64_t version = 0;
  {
    const std::lock_guard lock(table().mutex);
    version = table().version;
    for (const EntryRef& entry : table().entries) {
      const bool is_other = entry->function == mine->function && entry->thread != mine->thread;
      if (is_other) others.push_back(entry);
    }
  }
  const auto holds_back = [&](const EntryRef& other) {
    return other->is_first || mine->is_first || other->key.fits(call);
  };
  const auto other = std::ranges::find_if(others, holds_back);
  const std::lock_guard lock(table().mutex);
  if (table().version != version) return Attempt::kChanged;
  if (other != others.end() && !table().is_waiting_for((*other)->thread, mine->thread)) {
    table().waits_for[mine->thread] = (*other)->thread;
    return Attempt::kWaits;
  }
  table().waits_for.erase(mine->thread);
  table().entries.push_back(mine);
  ++table().version;
  return Attempt::kTaken;
}

[[noreturn]] void throw_impatient(const FunctionCore& function) {
  {
    const std::lock_guard lock(table().mutex);
    table().waits_for.erase(std::this_thread::get_id());
  }
  ETUDE_THROW(
      kFailedPrecondition,
      "function '{}' cannot be traced: another thread is tracing it, for {} ms now. If that "
      "trace waits for this thread, the function calls itself and never ends, or this is "
      "its first call, which is traced alone: call '{}' once before",
      function.name(), trace_patience().count(), function.name());
}

}  // namespace

std::chrono::milliseconds trace_patience() noexcept { return patience; }
std::chrono::milliseconds set_trace_patience(std::chrono::milliseconds now) noexcept {
  return patience.exchange(now);
}

TracingTicket::~TracingTicket() {
  if (entry_ == nullptr) return;
  const std::lock_guard lock(table().mutex);
  std::erase(table().entries, entry_);  // its key ends after the lock: it holds a user's objects
  ++table().version;
}

TracingTicket take_tracing_ticket(const FunctionCore& function, const Arguments& call,
                                  const std::function<bool()>& is_first) {
  const EntryRef mine = std::make_shared<TracingEntry>(
      TracingEntry{&function, TraceKey(call), std::this_thread::get_id(), false});
  const auto limit = steady_clock::now() + trace_patience();
  // Sleeps, since thread sanitizers do not know the waits of timed mutexes.
  std::chrono::microseconds pause(50);
  for (;;) {
    mine->is_first = is_first();
    const Attempt attempt = try_enter(mine, call);
    if (attempt == Attempt::kTaken) return TracingTicket(mine);
    if (attempt == Attempt::kChanged) continue;
    if (steady_clock::now() >= limit) throw_impatient(function);
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(2000));
  }
}

}  // namespace etude::internal
