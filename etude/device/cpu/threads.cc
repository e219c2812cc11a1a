// SPDX-License-Identifier: Apache-2.0
#include "etude/device/cpu/threads.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <sched.h>

#include "etude/base/check.h"
#include "etude/device/cpu/host.h"

namespace etude::internal {
namespace {

constexpr std::size_t kStackBytes = std::size_t{8} << 20;  // at least the stack of a oneTBB worker

// Threads wait here until all of them exist.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_open = false;
};

void* wait_at(void* at) {
  auto& gate = *static_cast<Gate*>(at);
  std::unique_lock lock(gate.mutex);
  gate.changed.wait(lock, [&gate] { return gate.is_open; });
  return nullptr;
}

}  // namespace

void run_on(const std::vector<int>& cpus) noexcept {
  if (cpus.empty()) return;
  const int most = std::ranges::max(cpus) + 1;
  cpu_set_t* const set = CPU_ALLOC(most);
  if (set == nullptr) return;
  const std::size_t bytes = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(bytes, set);
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set);
  static_cast<void>(sched_setaffinity(0, bytes, set));
  CPU_FREE(set);
}

std::thread start_thread(std::string_view purpose, std::function<void()> f) {
  try {
    return std::thread([cpus = allowed_cpus(), run = std::move(f)] {
      run_on(cpus);
      run();
    });
  } catch (const std::system_error& error) {
    ETUDE_THROW(kResourceExhausted,
                "no thread could be started for {}: {}. The process may have reached a limit of "
                "threads (ulimit -u, pids.max of its control group) or of memory",
                purpose, error.code().message());
  }
}

int startable_threads(int wanted) {
  if (wanted <= 0) return 0;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return 0;
  static_cast<void>(pthread_attr_setstacksize(&attributes, kStackBytes));
  Gate gate;
  std::vector<pthread_t> made(static_cast<std::size_t>(wanted));
  int count = 0;
  while (count < wanted &&
         pthread_create(&made[static_cast<std::size_t>(count)], &attributes, wait_at, &gate) == 0) {
    ++count;
  }
  {
    const std::lock_guard lock(gate.mutex);
    gate.is_open = true;
  }
  gate.changed.notify_all();
  for (int i = 0; i < count; ++i) pthread_join(made[static_cast<std::size_t>(i)], nullptr);
  pthread_attr_destroy(&attributes);
  return count;
}

}  // namespace etude::internal
