// SPDX-License-Identifier: Apache-2.0
#include "serve/ticket.h"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "serve/refuse.h"

namespace etude::serve {
namespace {

const Error kClientGone(ErrorCode::kCancelled, "the client has closed the connection");

Error too_late(Clock::duration waited) noexcept {
  try {
    return {ErrorCode::kCancelled,
            fmt::format("the deadline of the request has passed, after {:.3f} s. Is the server "
                        "busy? A request may state a longer \"timeout\", up to the server's "
                        "--timeout",
                        std::chrono::duration<double>(waited).count())};
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  }
}

}  // namespace

void Ticket::abandon() noexcept { answer(kClientGone); }

void Deadlines::add(const std::shared_ptr<Ticket>& ticket) {
  const std::lock_guard lock(mutex_);
  const auto at = waiting_.emplace(ticket->deadline(), ticket);
  if (at == waiting_.begin()) changed_.notify_one();
}

void Deadlines::run(const Threads::Stop& stop) {
  // Requests that have their answer leave the list from time to time, so that it stays small.
  constexpr auto kSweep = std::chrono::seconds(1);
  Clock::time_point next_sweep = Clock::now() + kSweep;
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto first = [this] {
      return waiting_.empty() ? Clock::time_point::max() : waiting_.begin()->first;
    };
    const Clock::time_point until = std::min(first(), std::max(next_sweep, Clock::now()));
    changed_.wait_until(lock, stop, until, [&] { return first() < until; });
    const Clock::time_point now = Clock::now();
    while (!waiting_.empty() && waiting_.begin()->first <= now) {
      const std::shared_ptr<Ticket> late = waiting_.begin()->second.lock();
      waiting_.erase(waiting_.begin());
      if (late == nullptr) continue;
      lock.unlock();  // an answer may add a request
      late->answer(too_late(now - late->queued_at()));
      lock.lock();
    }
    if (now >= next_sweep) {
      next_sweep = now + kSweep;
      std::erase_if(waiting_, [](const auto& entry) { return entry.second.expired(); });
    }
  }
}

}  // namespace etude::serve
