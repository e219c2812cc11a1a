// SPDX-License-Identifier: Apache-2.0
// The end of the process. SIGTERM and SIGINT begin a drain, which has a deadline. Loads and calls
// of models cannot be cut, and the destructors of the server wait for them. So a thread watches the
// deadline, and ends the process if the server has not ended by then, or at a second signal.
#pragma once

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "serve/log.h"
#include "serve/metrics.h"
#include "serve/threads.h"
#include "serve/ticket.h"

namespace etude::serve {

// threads: thread-safe.
class Shutdown {
 public:
  // Blocks the signals in this thread, and so in all threads that it starts later. Until serve(),
  // a signal ends the process at once, with status 0: there are no requests yet.
  // throws: kResourceExhausted if it gets no thread.
  Shutdown(std::chrono::milliseconds drain, Log& log, const Metrics& metrics);
  // The server has ended. The deadline holds until here, so the parts of the server must be
  // destroyed before.
  ~Shutdown();
  Shutdown(const Shutdown&) = delete;
  Shutdown& operator=(const Shutdown&) = delete;

  // From now on there may be requests, so that a signal begins a drain.
  void serve();
  // After serve(): waits for a signal. Returns the deadline for requests. The process has two
  // seconds more, in which clients get errors and threads end.
  Clock::time_point wait();
  // Ends the process with status 1. The log names the loads and calls that run.
  [[noreturn]] void cut() noexcept;

 private:
  enum class State : uint8_t { kStarting, kServing, kDraining, kEnded };
  void run();
  // Returns false if no signal has come by then.
  bool wait_for_signal(Clock::time_point until) const;
  [[noreturn]] void end(std::string_view reason, int status) noexcept;

  sigset_t signals_ = {};
  std::chrono::milliseconds drain_;
  Log& log_;
  const Metrics& metrics_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kStarting;
  Clock::time_point deadline_;
  Threads thread_;  // the last member, since it uses the others
};

// The loads, calls, requests and connections of a server, by its gauges, such as:
// loads of model="lenet",version="3": 1
std::string still_running(const Metrics& metrics);

}  // namespace etude::serve
