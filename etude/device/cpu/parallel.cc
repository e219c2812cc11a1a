// SPDX-License-Identifier: Apache-2.0
#include "etude/device/cpu/parallel.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>

#include "etude/device/cpu/float_mode.h"
#if !defined(ETUDE_TSAN)
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#endif

namespace etude {
namespace {

constexpr double kParallelFromUs = 30;
thread_local bool inside_chunk = false;

// The quota of cgroup v2, rounded up; 0 if there is none.
int cgroup_limit() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return static_cast<int>(std::ceil(std::strtod(quota.c_str(), nullptr) / period));
}

int default_count() {
  if (const char* text = std::getenv("ETUDE_THREADS")) {
    const int n = std::atoi(text);
    if (n > 0) return n;
  }
  cpu_set_t set;
  int count = sched_getaffinity(0, sizeof(set), &set) == 0
                  ? CPU_COUNT(&set)
                  : static_cast<int>(std::thread::hardware_concurrency());
  const int limit = cgroup_limit();
  if (limit > 0 && limit < count) count = limit;
  return count > 0 ? count : 1;
}

std::atomic<int>& count() {
  static std::atomic<int> value{default_count()};
  return value;
}

// While alive, calls of parallel_for on this thread run inline.
class ChunkScope {
 public:
  ChunkScope() : saved_(inside_chunk) { inside_chunk = true; }
  ~ChunkScope() { inside_chunk = saved_; }
  ChunkScope(const ChunkScope&) = delete;
  ChunkScope& operator=(const ChunkScope&) = delete;

 private:
  bool saved_;
};

#if defined(ETUDE_TSAN)

// The packaged oneTBB is not instrumented, so the thread sanitizer sees plain threads instead.
void run_parallel(int64_t chunks, internal::FunctionRef<void(int64_t)> body) {
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
  std::mutex mutex;
  const auto work = [&] {
    const ChunkScope chunk_scope;
    const internal::FloatModeScope float_mode;
    try {
      for (int64_t chunk = next++; chunk < chunks; chunk = next++) body(chunk);
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < worker_count(); ++i) threads.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
}

#else

constexpr int kCallerSlots = 8;  // taken by application threads only, so a caller always works

struct Arena {
  explicit Arena(int n)
      : threads(n),
        control(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(n)),
        arena(n - 1 + kCallerSlots, kCallerSlots) {}
  int threads;
  tbb::global_control control;
  tbb::task_arena arena;
};

// Rebuilt when the thread count changes; never destroyed at exit, when workers may still be
// leaving.
std::shared_ptr<Arena> arena() {
  static std::mutex* mutex = new std::mutex;
  static auto* current = new std::shared_ptr<Arena>;
  const std::lock_guard lock(*mutex);
  if (!*current || (*current)->threads != worker_count()) {
    current->reset();
    *current = std::make_shared<Arena>(worker_count());
  }
  return *current;
}

void run_parallel(int64_t chunks, internal::FunctionRef<void(int64_t)> body) {
  using Range = tbb::blocked_range<int64_t>;
  using Group = tbb::task_group_context;
  const internal::FloatModeScope float_mode;  // captured by the group, so that workers have it too
  Group group(Group::isolated, Group::fp_settings | Group::concurrent_wait);
  const auto run = [&](const Range& part) {
    const ChunkScope chunk_scope;
    for (int64_t chunk = part.begin(); chunk != part.end(); ++chunk) body(chunk);
  };
  const std::shared_ptr<Arena> held = arena();
  held->arena.execute(
      [&] { tbb::parallel_for(Range(0, chunks, 1), run, tbb::simple_partitioner(), group); });
}

#endif

}  // namespace

int worker_count() { return count().load(std::memory_order_relaxed); }
void set_thread_count(int n) { count() = n > 0 ? n : default_count(); }

void parallel_for(int64_t chunks, double estimated_us, internal::FunctionRef<void(int64_t)> body) {
  const bool alone =
      chunks < 2 || estimated_us < kParallelFromUs || inside_chunk || worker_count() == 1;
  if (!alone) return run_parallel(chunks, body);
  const internal::FloatModeScope float_mode;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) body(chunk);
}

}  // namespace etude
