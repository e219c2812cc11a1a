// SPDX-License-Identifier: Apache-2.0
// A request that waits for its answer. The answer is given once: by the worker that ran the model,
// by a deadline, or because the client has gone.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>

#include "etude/base/error.h"
#include "etude/eager/cancel.h"
#include "etude/io/safetensors.h"
#include "serve/threads.h"

namespace etude::serve {

using Clock = std::chrono::steady_clock;

// The requests that one call of a model answers. When the last of them is abandoned, the call is
// cancelled. threads: thread-safe.
struct JointRun {
  Cancellation cancellation;
  std::atomic<int64_t> waiting{0};
  void leave() noexcept {
    if (waiting.fetch_sub(1) == 1) cancellation.cancel();
  }
};

using Outcome = std::variant<io::NamedTensors, Error>;

// threads: thread-safe.
class Ticket {
 public:
  // `answer` runs on any thread, once. It must not throw.
  Ticket(io::NamedTensors inputs, Clock::time_point deadline, std::function<void(Outcome)> answer)
      : inputs_(std::move(inputs)), deadline_(deadline), answer_(std::move(answer)) {}

  const io::NamedTensors& inputs() const { return inputs_; }
  Clock::time_point deadline() const { return deadline_; }
  Clock::time_point queued_at() const { return queued_at_; }
  bool is_answered() const { return answered_.load(); }

  // Answers, unless the request has its answer already. Returns whether it did.
  bool answer(Outcome outcome) noexcept {
    if (answered_.exchange(true)) return false;
    std::shared_ptr<JointRun> run;
    {
      const std::lock_guard lock(mutex_);
      run = std::exchange(run_, nullptr);
    }
    if (run) run->leave();
    const std::function<void(Outcome)> answer = std::move(answer_);
    answer(std::move(outcome));
    return true;
  }
  // The request could not be queued: it gets no answer from here. False if it has its answer
  // already.
  bool withdraw() noexcept {
    if (answered_.exchange(true)) return false;
    answer_ = nullptr;
    return true;
  }
  // The client has closed its connection.
  void abandon() noexcept;
  // The call that works for this request from now on. False if the request has its answer already.
  bool join(const std::shared_ptr<JointRun>& run) {
    const std::lock_guard lock(mutex_);
    if (answered_.load()) return false;
    run->waiting.fetch_add(1);
    run_ = run;
    return true;
  }

 private:
  io::NamedTensors inputs_;
  Clock::time_point deadline_, queued_at_ = Clock::now();
  std::function<void(Outcome)> answer_;
  std::atomic<bool> answered_{false};
  std::mutex mutex_;
  std::shared_ptr<JointRun> run_;
};

// A thread that answers requests whose deadline has passed. threads: thread-safe.
class Deadlines {
 public:
  Deadlines() : thread_("deadlines of requests", 1, [this](const auto& stop) { run(stop); }) {}
  void add(const std::shared_ptr<Ticket>& ticket);

 private:
  void run(const Threads::Stop& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::multimap<Clock::time_point, std::weak_ptr<Ticket>> waiting_;
  Threads thread_;
};

}  // namespace etude::serve
