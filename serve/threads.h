// SPDX-License-Identifier: Apache-2.0
// The threads of the server. They are started here and in gRPC only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string_view>
#include <thread>
#include <vector>

namespace etude::serve {

// Threads that run one function. Declare them after the members that `run` uses.
// threads: confined to its owner.
class Threads {
 public:
  // Asks the threads to end. Waits by std::condition_variable_any see it at once.
  using Stop = std::stop_token;
  // Starts at least one thread and at most `wanted`, fewer where the system refuses more.
  // throws: kResourceExhausted, naming `purpose`, if it refuses the first.
  Threads(std::string_view purpose, int64_t wanted, const std::function<void(const Stop&)>& run);
  // Stops the threads, and waits for them.
  ~Threads() {
    stop_.request_stop();
    join();
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  std::size_t count() const { return threads_.size(); }
  void join();

 private:
  std::stop_source stop_;
  std::vector<std::thread> threads_;
};

}  // namespace etude::serve
