// SPDX-License-Identifier: Apache-2.0
#include "etude/device/cpu/parallel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#if !defined(ETUDE_TSAN)
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>
#endif

#include "etude/base/check.h"
#include "etude/base/environment.h"
#include "etude/base/internal/fork_lock.h"
#include "etude/base/warning.h"
#include "etude/device/cpu/branches.h"
#include "etude/device/cpu/float_mode.h"
#include "etude/device/cpu/host.h"
#include "etude/device/cpu/threads.h"

namespace etude {
namespace {

constexpr double kParallelFromUs = 30;
constexpr int kMostThreads = 1024;

std::atomic<int> thread_count{0};  // 0: not determined yet
// In a child of fork() whose parent ran loops on threads, which the child does not have.
std::atomic<bool> is_left_alone{false};
thread_local constinit bool inside_chunk = false;

// Warns about more threads than processors, which then take turns.
void warn_of_count(int count, std::string_view wisher) {
  const int usable = internal::usable_cpus();
  if (count <= usable) return;
  const int quota = internal::cpu_quota();
  const std::string reason =
      quota == usable ? "the quota of its control group"
                      : "its affinity mask, as by taskset, a container or a batch system";
  internal::warn_once(
      fmt::format("threads {} of {}", count, usable),
      fmt::format(
          "{} threads were requested by {}, but this process may use {} processor{}, by {}. "
          "Threads without a processor take turns, and loops wait for the last one. Request "
          "at most {}, or give the process more processors",
          count, wisher, usable, usable == 1 ? "" : "s", reason, usable));
}

int count_from_host() {
  if (const char* text = std::getenv("ETUDE_THREADS"); text != nullptr && *text != '\0') {
    int count = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, problem] = std::from_chars(text, end, count);
    ETUDE_REQUIRE(
        problem == std::errc{} && stop == end && count >= 1 && count <= kMostThreads,
        "the environment variable ETUDE_THREADS is '{}'. Set it to a number from 1 to {}, "
        "or not at all",
        text, kMostThreads);
    warn_of_count(count, "ETUDE_THREADS");
    return count;
  }
  return std::min(internal::usable_cpus(), kMostThreads);
}

// The work of a loop: a chunk, whose loops stay on its thread, or a branch.
enum class Work { kChunk, kBranch };

// Marks this thread as running a chunk.
class ChunkScope {
 public:
  ChunkScope() noexcept { inside_chunk = true; }
  ChunkScope(const ChunkScope&) = delete;
  ChunkScope& operator=(const ChunkScope&) = delete;
  ~ChunkScope() { inside_chunk = false; }
};

#if defined(ETUDE_TSAN)

// The packaged oneTBB is not instrumented, so the thread sanitizer would see races in it.
void run_on_threads(int threads, int64_t chunks, Work kind,
                    internal::FunctionRef<void(int64_t)> body) {
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr first;
  const unsigned mode = _mm_getcsr();
  const auto work = [&] {
    const unsigned before = _mm_getcsr();
    _mm_setcsr(mode);
    std::optional<ChunkScope> scope;
    if (kind == Work::kChunk) scope.emplace();
    try {
      for (int64_t chunk; (chunk = next.fetch_add(1)) < chunks;) body(chunk);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (first == nullptr) first = std::current_exception();
      next.store(chunks);
    }
    _mm_setcsr(before);
  };
  {
    std::vector<std::jthread> workers;
    const auto most = std::min<int64_t>(threads, chunks);
    try {
      for (int64_t i = 1; i < most; ++i) workers.emplace_back(work);
    } catch (const std::system_error&) {
      // The threads that exist, and this one, do the work.
    }
    work();
  }
  if (first != nullptr) std::rethrow_exception(first);
}

#else

constexpr int kCallerSlots = 8;  // taken by application threads only, so a caller always works

thread_local bool is_pinned_worker = false;

// Places each worker while it is in the arena: on its own CPU, since unpinned threads may share a
// CPU for milliseconds while another CPU is idle; or on all CPUs of the process, since a worker
// inherits the CPUs of its parent thread, which a library may have bound to one CPU. The caller's
// thread is the user's and stays where it is: the worker that is pinned to this CPU leaves it.
class PlacingObserver : public tbb::task_scheduler_observer {
 public:
  PlacingObserver(tbb::task_arena& arena, std::vector<int> cpus, int workers, bool pins)
      : tbb::task_scheduler_observer(arena),
        all_(cpus),
        cpus_(std::move(cpus)),
        pinned_(static_cast<std::size_t>(workers)),
        pins_(pins) {
    observe(true);
  }

  void on_scheduler_entry(bool is_worker) override {
    if (!is_worker) return;
    const int worker = this_worker();
    if (!pins_ || worker < 0) return internal::run_on(all_);
    const std::lock_guard lock(mutex_);
    pinned_[static_cast<std::size_t>(worker)] = gettid();
    is_pinned_worker = true;
    pin(0, cpus_[static_cast<std::size_t>(worker) + 1]);
  }

  // The same worker may serve other arenas of the process next.
  void on_scheduler_exit(bool is_worker) override {
    if (!is_worker) return;
    const int worker = this_worker();
    if (pins_ && worker >= 0) {
      const std::lock_guard lock(mutex_);
      pinned_[static_cast<std::size_t>(worker)] = 0;
      is_pinned_worker = false;
    }
    internal::run_on(all_);
  }

  // Called before each loop. Unless this thread is a worker: a worker that is pinned to its CPU
  // would only run when this thread has done all the work. Callers on several CPUs would chase
  // workers, so a change waits for a millisecond after the last one.
  void make_way() noexcept {
    if (!pins_ || is_pinned_worker) return;
    const int cpu = sched_getcpu();
    if (cpu == caller_.load(std::memory_order_relaxed)) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    const auto now = std::chrono::steady_clock::now();
    if (!lock || now < next_change_) return;
    next_change_ = now + std::chrono::milliseconds(1);
    caller_.store(cpu, std::memory_order_relaxed);
    const auto found = std::ranges::find(cpus_, cpu);
    const auto at = static_cast<std::size_t>(found - cpus_.begin());
    if (at == 0 || at > pinned_.size()) return;  // no worker's
    std::swap(cpus_[0], cpus_[at]);
    if (pinned_[at - 1] != 0) pin(pinned_[at - 1], cpus_[at]);
  }

 private:
  // The number of this thread among the workers of the arena; negative for callers.
  int this_worker() const {
    const int worker = tbb::this_task_arena::current_thread_index() - kCallerSlots;
    return worker < static_cast<int>(pinned_.size()) ? worker : -1;
  }
  // Thread 0 is this one. A thread without the right to be pinned runs anywhere.
  static void pin(pid_t thread, int cpu) noexcept {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(thread, sizeof(one), &one);
  }

  const std::vector<int> all_;
  std::mutex mutex_;
  std::vector<int> cpus_;        // of the caller, of worker 0, of worker 1, ..., and free ones
  std::vector<pid_t> pinned_;    // by worker; 0: not in the arena
  std::atomic<int> caller_{-1};  // the CPU that the last change made way for
  std::chrono::steady_clock::time_point next_change_;
  const bool pins_;
};

struct Pool {
  Pool(int wanted, int usable) : threads(wanted), most(usable) {
    if (usable < 2) return;  // without memory for threads there may be none for an arena
    arena.emplace(usable - 1 + kCallerSlots, kCallerSlots);
    arena->initialize();
    constexpr std::array<std::string_view, 2> kWishes{"0", "1"};
    const bool may_pin = internal::environment_choice("ETUDE_PIN", kWishes) != 0;
    std::vector<int> cpus = internal::allowed_cpus();
    // A caller that is bound to one CPU keeps it for itself.
    const auto own = std::ranges::find(cpus, sched_getcpu());
    cpu_set_t caller;
    const bool is_bound =
        sched_getaffinity(0, sizeof(caller), &caller) == 0 && CPU_COUNT(&caller) == 1;
    if (is_bound && own != cpus.end()) std::swap(*cpus.begin(), *own);
    const bool each_has_one = cpus.size() >= 2 && cpus.size() >= static_cast<std::size_t>(usable) &&
                              std::ranges::max(cpus) < CPU_SETSIZE;
    observer.emplace(*arena, std::move(cpus), usable - 1, may_pin && each_has_one);
  }

  int threads;  // as requested
  int most;     // that the process can have
  std::optional<tbb::task_arena> arena;
  std::optional<PlacingObserver> observer;
};

// The number of threads, at most `wanted` with the caller, that a loop can have. oneTBB ends the
// process if a worker cannot start another worker, so they are counted first.
int available_threads(int wanted) {
  static int started = 0;  // workers that were counted before; guarded by the mutex of pool()
  const int further = internal::startable_threads(wanted - 1 - started);
  const int all = std::max(1 + std::min(started, wanted - 1), 1 + started + further);
  const int usable = std::min(all, wanted);
  started = std::max(started, usable - 1);
  if (usable < wanted) {
    internal::warn(fmt::format(
        "loops run on {} of {} threads: the process gets no further thread. It may have reached a "
        "limit of threads (ulimit -u, pids.max of its control group) or of memory",
        usable, wanted));
  }
  return usable;
}

// oneTBB limits its workers to the number of CPUs of the machine by default. Of several controls
// the smallest counts, so the library has one, and a control of the user's program may lower it.
void allow_threads(int count) {
  using Control = tbb::global_control;
  static Control* ours = nullptr;  // guarded by the mutex of pool()
  const auto wanted = static_cast<std::size_t>(count);
  if (Control::active_value(Control::max_allowed_parallelism) >= wanted) return;
  delete ours;
  ours = new Control(Control::max_allowed_parallelism, wanted);
}

internal::ForkSafeMutex& pool_mutex() {
  static auto& mutex = *new internal::ForkSafeMutex;
  return mutex;
}
// A fork() while another thread makes a static object leaves it half made in the child.
[[maybe_unused]] const auto& made_in_time = pool_mutex();

// oneTBB makes no arena once its static objects are destroyed, while threads of the program may
// still run loops. They are destroyed after this call: oneTBB, a dependency, is loaded first.
void stop_new_pools() {
  const std::lock_guard lock(pool_mutex());
  is_left_alone.store(true);
}
[[maybe_unused]] const int registered = std::atexit(stop_new_pools);

// One pool for each thread count ever used. Never destroyed: a loop may still run in a pool, and
// threads of the process may outlive static objects.
Pool& pool(int threads) {
  static std::atomic<Pool*> latest{nullptr};
  Pool* known = latest.load(std::memory_order_acquire);
  if (known != nullptr && known->threads == threads) return *known;
  const std::lock_guard lock(pool_mutex());
  static auto& pools = *new std::map<int, Pool*>;
  Pool*& made = pools[threads];
  if (made == nullptr) {
    static const bool is_ready =
        pthread_atfork(nullptr, nullptr, [] { is_left_alone.store(true); }) == 0;
    static_cast<void>(is_ready);
    const int usable = is_left_alone.load() ? 1 : available_threads(threads);
    if (usable > 1) allow_threads(usable);
    made = new Pool(threads, usable);
  }
  latest.store(made, std::memory_order_release);
  return *made;
}

void run_in_pool(Pool& pool, int64_t chunks, Work kind, internal::FunctionRef<void(int64_t)> body) {
  using Range = tbb::blocked_range<int64_t>;
  const auto run_chunks = [body](const Range& part) {
    const ChunkScope scope;
    for (int64_t chunk = part.begin(); chunk != part.end(); ++chunk) body(chunk);
  };
  const auto run_branch = [body](const Range& part) {
    for (int64_t branch = part.begin(); branch != part.end(); ++branch) body(branch);
  };
  using Group = tbb::task_group_context;
  Group group(Group::isolated, Group::fp_settings | Group::concurrent_wait);
  pool.observer->make_way();
  pool.arena->execute([&] {
    const Range range(0, chunks, 1);
    if (kind == Work::kBranch) {
      return tbb::parallel_for(range, run_branch, tbb::simple_partitioner(), group);
    }
    // The caller is a kernel that may hold scratch memory of its thread. While it waits for its
    // last chunks it must not begin a branch, which runs other kernels.
    tbb::this_task_arena::isolate(
        [&] { tbb::parallel_for(range, run_chunks, tbb::simple_partitioner(), group); });
  });
}

// The chunks of a loop that have run.
class Progress {
 public:
  explicit Progress(int64_t chunks) {
    if (chunks <= static_cast<int64_t>(own_.size())) return;
    more_.reset(new (std::nothrow) std::atomic<bool>[static_cast<std::size_t>(chunks)]());
    all_ = more_.get();
  }
  // False without memory: nothing can be noted.
  bool is_ready() const noexcept { return all_ != nullptr; }
  void note(int64_t chunk) noexcept { all_[chunk].store(true, std::memory_order_relaxed); }
  bool has_run(int64_t chunk) const noexcept { return all_[chunk].load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<bool>, 256> own_ = {};
  std::unique_ptr<std::atomic<bool>[]> more_;
  std::atomic<bool>* all_ = own_.data();
};

// The only calls of oneTBB that run work, and the only check of its failures. Without memory or
// threads for oneTBB, which may show in the middle of a loop, the calling thread runs the rest: a
// kernel that writes in place must not stop half-way.
// throws: the first exception of a body.
void run_on_threads(int threads, int64_t chunks, Work kind,
                    internal::FunctionRef<void(int64_t)> body) {
  Progress progress(chunks);
  std::atomic<bool> is_of_body{false};
  const auto watched = [&](int64_t i) {
    try {
      body(i);
    } catch (...) {
      is_of_body.store(true, std::memory_order_relaxed);
      throw;
    }
    progress.note(i);
  };
  try {
    Pool* const p = progress.is_ready() ? &pool(threads) : nullptr;
    if (p != nullptr && p->most > 1) return run_in_pool(*p, chunks, kind, watched);
  } catch (const Error&) {
    throw;  // of a body, or of a setting of the environment
  } catch (const std::exception&) {
    if (is_of_body.load(std::memory_order_relaxed)) throw;
  }
  for (int64_t i = 0; i < chunks; ++i) {
    if (!progress.is_ready() || !progress.has_run(i)) body(i);
  }
}

#endif

}  // namespace

int worker_count() {
  int count = thread_count.load(std::memory_order_relaxed);
  if (count != 0) return count;
  count = count_from_host();
  int none = 0;
  return thread_count.compare_exchange_strong(none, count) ? count : none;
}

void set_thread_count(int count) {
  ETUDE_REQUIRE(
      count >= 0 && count <= kMostThreads,
      "a thread count of {} was requested. Pass 1 to {}, or 0 for the number that the host allows",
      count, kMostThreads);
  warn_of_count(count, "set_thread_count()");
  thread_count.store(count, std::memory_order_relaxed);
}

void parallel_for(int64_t chunks, double estimated_us, internal::FunctionRef<void(int64_t)> body) {
  const bool is_alone = chunks < 2 || estimated_us < kParallelFromUs || inside_chunk ||
                        is_left_alone.load(std::memory_order_relaxed);
  const int threads = is_alone ? 1 : worker_count();
  if (threads > 1) return run_on_threads(threads, chunks, Work::kChunk, body);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) body(chunk);
}

void internal::run_branches(int64_t count, FunctionRef<void(int64_t)> body) {
  const bool is_alone = count < 2 || inside_chunk || is_left_alone.load(std::memory_order_relaxed);
  const int threads = is_alone ? 1 : worker_count();
  if (threads > 1) return run_on_threads(threads, count, Work::kBranch, body);
  for (int64_t branch = 0; branch < count; ++branch) body(branch);
}

}  // namespace etude
