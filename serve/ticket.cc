// SPDX-License-Identifier: Apache-2.0
#include "serve/ticket.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace etude::serve {

Deadlines::Deadlines() : thread_([this] { run(); }) {}

Deadlines::~Deadlines() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Deadlines::add(const std::shared_ptr<Ticket>& ticket) {
  const std::lock_guard lock(mutex_);
  const auto at = waiting_.emplace(ticket->deadline(), ticket);
  if (at == waiting_.begin()) changed_.notify_one();
}

void Deadlines::run() {
  // Requests that have their answer leave the list from time to time, so that it stays small.
  constexpr auto kSweep = std::chrono::seconds(1);
  Clock::time_point next_sweep = Clock::now() + kSweep;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Clock::time_point first =
        waiting_.empty() ? Clock::time_point::max() : waiting_.begin()->first;
    changed_.wait_until(lock, std::min(first, std::max(next_sweep, Clock::now())));
    const Clock::time_point now = Clock::now();
    std::vector<std::shared_ptr<Ticket>> late;
    while (!waiting_.empty() && waiting_.begin()->first <= now) {
      if (auto ticket = waiting_.begin()->second.lock()) late.push_back(std::move(ticket));
      waiting_.erase(waiting_.begin());
    }
    if (now >= next_sweep) {
      next_sweep = now + kSweep;
      std::erase_if(waiting_, [](const auto& entry) { return entry.second.expired(); });
    }
    lock.unlock();
    for (const std::shared_ptr<Ticket>& ticket : late) {
      ticket->answer(Error(
          ErrorCode::kCancelled,
          fmt::format("the deadline of the request has passed, after {:.3f} s. Is the server busy? "
                      "A request may state a longer \"timeout\", up to the server's --timeout",
                      std::chrono::duration<double>(now - ticket->queued_at()).count())));
    }
    late.clear();
    lock.lock();
  }
}

}  // namespace etude::serve
