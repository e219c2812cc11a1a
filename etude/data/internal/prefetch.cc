// SPDX-License-Identifier: Apache-2.0
#include "etude/data/internal/prefetch.h"

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <list>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "etude/base/error.h"
#include "etude/base/warning.h"
#include "etude/device/cpu/threads.h"

namespace etude::data::internal {

struct PrefetchQueue::State {
  struct Slot {
    Value value;
    std::exception_ptr error;
  };

  State(std::function<Value()> make_value, std::size_t most)
      : produce(std::move(make_value)), capacity(most) {
    try {
      thread = etude::internal::start_thread("prefetching", [this] { run(); });
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kResourceExhausted) throw;
      etude::internal::warn_once(
          "prefetching", fmt::format("values are made when they are taken: {}", error.what()));
    }
  }

  void run() {
    bool failed = false;
    while (!failed) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return stopping || ready.size() < capacity; });
        if (stopping) return;
      }
      std::list<Slot> made = make();
      failed = made.front().error != nullptr;
      const std::lock_guard lock(mutex);
      ready.splice(ready.end(), made);
      changed.notify_all();
    }
  }

  // One slot. A value that was produced is not lost, and an error is kept, without further memory.
  std::list<Slot> make() noexcept {
    std::list<Slot> made;
    try {
      made.emplace_back();
      made.front().value = produce();
    } catch (...) {
      made.swap(last);
      made.front() = {nullptr, std::current_exception()};
    }
    return made;
  }

  std::function<Value()> produce;
  std::size_t capacity;
  std::mutex mutex;
  std::condition_variable changed;
  std::list<Slot> ready;
  std::list<Slot> last = std::list<Slot>(1);  // for the error, after which no value is produced
  bool stopping = false;
  std::thread thread;  // without one, take() produces
};

PrefetchQueue::PrefetchQueue(std::function<Value()> produce, std::size_t capacity)
    : state_(std::make_unique<State>(std::move(produce), capacity)) {}

PrefetchQueue::~PrefetchQueue() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

PrefetchQueue::Value PrefetchQueue::take() {
  std::unique_lock lock(state_->mutex);
  if (!state_->thread.joinable() && state_->ready.empty()) {
    state_->ready.splice(state_->ready.end(), state_->make());
  }
  state_->changed.wait(lock, [this] { return !state_->ready.empty(); });
  if (state_->ready.front().error != nullptr) {
    std::rethrow_exception(state_->ready.front().error);  // stays: every later call throws it again
  }
  Value value = std::move(state_->ready.front().value);
  state_->ready.pop_front();
  lock.unlock();
  state_->changed.notify_all();
  return value;
}

}  // namespace etude::data::internal
