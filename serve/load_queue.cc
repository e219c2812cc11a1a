// SPDX-License-Identifier: Apache-2.0
#include "serve/load_queue.h"

#include <cstddef>
#include <utility>

#include "serve/refuse.h"

namespace etude::serve {

void LoadQueue::add(std::function<void()> job) {
  constexpr std::size_t kMost = 64;
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() >= kMost) {
      refuse(ErrorCode::kUnavailable,
             "{} requests to load or unload models are waiting. Ask again later", jobs_.size());
    }
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void LoadQueue::run(const Threads::Stop& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !jobs_.empty(); })) {
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // it may own a connection
    lock.lock();
  }
}

}  // namespace etude::serve
