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
  LoadQueue();
  // Runs the jobs that wait, then ends the thread.
  ~LoadQueue();
  LoadQueue(const LoadQueue&) = delete;
  LoadQueue& operator=(const LoadQueue&) = delete;

  // Runs `job` after the jobs before it. It must not throw.
  // throws: kUnavailable if 64 jobs wait.
  void add(std::function<void()> job);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stop_ = false;
  Threads thread_;  // the last member, since it uses the others
};

}  // namespace etude::serve
