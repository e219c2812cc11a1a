// SPDX-License-Identifier: Apache-2.0
// A thread for requests that load or unload models. A load can take minutes, in which the threads
// of HTTP and gRPC answer other requests.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "serve/threads.h"

namespace etude::serve {

// threads: thread-safe.
class LoadQueue {
 public:
  LoadQueue() : thread_("loads of models", 1, [this](const auto& stop) { run(stop); }) {}
  // The destructor runs the jobs that wait, then ends the thread.

  // Runs `job` after the jobs before it. It must not throw.
  // throws: kUnavailable if 64 jobs wait.
  void add(std::function<void()> job);

 private:
  void run(const Threads::Stop& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> jobs_;
  Threads thread_;
};

}  // namespace etude::serve
