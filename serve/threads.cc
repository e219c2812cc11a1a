// SPDX-License-Identifier: Apache-2.0
#include "serve/threads.h"

#include <exception>

#include "etude/device/cpu/threads.h"

namespace etude::serve {

Threads::Threads(std::string_view purpose, int64_t wanted,
                 const std::function<void(const Stop&)>& run) {
  const auto start = [&] {
    return etude::internal::start_thread(purpose, [run, stop = stop_.get_token()] { run(stop); });
  };
  threads_.reserve(static_cast<std::size_t>(wanted));
  threads_.push_back(start());
  try {
    while (static_cast<int64_t>(threads_.size()) < wanted) {
      threads_.push_back(start());
    }
  } catch (const std::exception&) {
    // The threads that exist do the work.
  }
}

void Threads::join() {
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace etude::serve
