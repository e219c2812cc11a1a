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

#include <pthread.h>

#include "etude/base/check.h"
#include "etude/base/internal/fork_lock.h"
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
  std::mutex mutex;  // never held while a key is compared, which calls == of a user's types
  bool is_forking = false;
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
  bool has_entry(std::thread::id thread) const {
    return std::ranges::any_of(entries, [&](const EntryRef& e) { return e->thread == thread; });
  }
};

void before_fork();
void after_fork();
void after_fork_in_child();

Table& table() {
  static Permanent<Table> made;
  static const bool is_ready = [] {
    prepare_fork_locks();
    prepare_background_for_forks();
    return pthread_atfork(before_fork, after_fork, after_fork_in_child) == 0;
  }();
  static_cast<void>(is_ready);
  return *made;
}

constexpr std::chrono::seconds kForkPatience(2);

// Waits for the traces of other threads, and holds the lock of the table until after the fork.
void before_fork() {
  const std::thread::id me = std::this_thread::get_id();
  const auto limit = steady_clock::now() + kForkPatience;
  const auto is_alone = [&] {
    return std::ranges::all_of(table().entries,
                               [&](const EntryRef& entry) { return entry->thread == me; });
  };
  table().mutex.lock();
  table().is_forking = true;
  while (!is_alone() && steady_clock::now() < limit) {
    table().mutex.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    table().mutex.lock();
  }
}

void after_fork() {
  table().is_forking = false;
  table().mutex.unlock();
}

void after_fork_in_child() {
  const std::thread::id me = std::this_thread::get_id();
  // The keys live on in the tickets of threads that the child does not have: nothing is destroyed.
  std::erase_if(table().entries, [&](const EntryRef& entry) { return entry->thread != me; });
  table().waits_for.clear();
  ++table().version;
  after_fork();
}

enum class Attempt { kTaken, kChanged, kWaits, kForks };

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
  // A thread that traces already goes on: the fork waits for it.
  if (table().is_forking && !table().has_entry(mine->thread)) return Attempt::kForks;
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
