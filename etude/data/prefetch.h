// SPDX-License-Identifier: Apache-2.0
// Makes values ahead of time in one background thread, a bounded number of them. Used by Epochs.
// The order of the values is the order of the calls, so nothing depends on timing.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace data::internal {

// confined to the thread that made it; `produce` runs in another one, which it must be fit for.
template <class T>
class Prefetcher {
 public:
  // Starts at once and calls `produce` until `capacity` values wait.
  Prefetcher(std::function<T()> produce, std::size_t capacity)
      : produce_(std::move(produce)), capacity_(capacity), thread_([this] { run(); }) {}
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  // Waits for a call of `produce` that is under way; what was made and not taken is dropped.
  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // The next value. throws: what `produce` threw for it; after that nothing more is produced.
  T take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty(); });
    if (auto* error = std::get_if<std::exception_ptr>(&ready_.front())) {
      std::rethrow_exception(*error);  // stays in front: every later call throws it again
    }
    T value = std::move(std::get<T>(ready_.front()));
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return value;
  }

 private:
  using Slot = std::variant<T, std::exception_ptr>;

  void run() {
    bool failed = false;
    while (!failed) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stopping_ || ready_.size() < capacity_; });
        if (stopping_) return;
      }
      Slot slot = make(failed);
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(slot));
      changed_.notify_all();
    }
  }

  Slot make(bool& failed) {
    try {
      return Slot(std::in_place_index<0>, produce_());
    } catch (...) {
      failed = true;
      return Slot(std::in_place_index<1>, std::current_exception());
    }
  }

  std::function<T()> produce_;
  std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Slot> ready_;
  bool stopping_ = false;
  std::thread thread_;  // last: it starts when everything else is there
};

}  // namespace data::internal
}  // namespace etude
