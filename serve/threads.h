// SPDX-License-Identifier: Apache-2.0
// The threads of the server. They are started here and in gRPC only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

namespace etude::serve {

// Threads that run one function. threads: confined to its owner.
class Threads {
 public:
  // Starts at least one thread and at most `wanted`, fewer where the system refuses more.
  // throws: kResourceExhausted, naming `purpose`, if it refuses the first.
  Threads(std::string_view purpose, int64_t wanted, const std::function<void()>& run);
  // Waits for the threads.
  ~Threads() { join(); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  std::size_t count() const { return threads_.size(); }
  void join();

 private:
  std::vector<std::thread> threads_;
};

}  // namespace etude::serve
