// SPDX-License-Identifier: Apache-2.0
#include "etude/variables/variable_cell.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>
#include <vector>

#include "etude/core/context/context.h"
#include "etude/variables/variable.h"

namespace etude::internal {
namespace {

// The threads that run initialisers, and the threads that wait for these. For all Variables of the
// process: both are rare.
struct RunningInitialisers {
  struct Run {
    const VariableCell* of;
    std::thread::id thread;
  };
  struct Wait {
    std::thread::id thread;
    const VariableCell* for_value_of;
  };
  std::mutex mutex;
  std::condition_variable ended;
  std::vector<Run> runs;
  std::vector<Wait> waits;

  // Never destroyed: threads may outlive the end of main.
  static RunningInitialisers& all() {
    static auto& made = *new RunningInitialisers;
    return made;
  }
  const Run* find(const VariableCell* cell) const {
    const auto found = std::ranges::find(runs, cell, &Run::of);
    return found != runs.end() ? &*found : nullptr;
  }
  // Whether the value of `cell` waits for `thread`: `thread` runs its initialiser, or an
  // initialiser that this run waits for.
  bool waits_for(const VariableCell* cell, std::thread::id thread) const {
    for (const Run* run = find(cell); run != nullptr; run = find(cell)) {
      if (run->thread == thread) return true;
      const auto wait = std::ranges::find(waits, run->thread, &Wait::thread);
      if (wait == waits.end()) return false;
      cell = wait->for_value_of;
    }
    return false;
  }
};

// While alive, this thread runs the initialiser of a cell.
class InitialiserRun {
 public:
  // Waits while another thread runs it. If that run made the value, nothing is left to run.
  InitialiserRun(const VariableCell& cell, const std::string& title) : cell_(cell) {
    RunningInitialisers& all = RunningInitialisers::all();
    const std::thread::id own = std::this_thread::get_id();
    std::unique_lock lock(all.mutex);
    if (all.find(&cell) == nullptr) {
      all.runs.push_back({&cell, own});
      is_first_ = true;
      return;
    }
    ETUDE_REQUIRE_CODE(kFailedPrecondition, all.find(&cell)->thread != own,
                       "the initialiser of {} reads the Variable itself. Compute the initial value "
                       "from other values",
                       title);
    ETUDE_REQUIRE_CODE(kFailedPrecondition, !all.waits_for(&cell, own),
                       "the initialiser of {}, on another thread, waits for an initialiser of this "
                       "thread. Read one of the Variables before",
                       title);
    all.waits.push_back({own, &cell});
    const bool has_ended =
        all.ended.wait_for(lock, kLongestWait, [&] { return all.find(&cell) == nullptr; });
    std::erase_if(all.waits, [&](const auto& wait) { return wait.thread == own; });
    ETUDE_REQUIRE_CODE(kFailedPrecondition, has_ended,
                       "the initialiser of {} has been running on another thread for {} minutes. "
                       "It must not wait for a thread that reads the Variable",
                       title, kLongestWait.count());
  }
  InitialiserRun(const InitialiserRun&) = delete;
  InitialiserRun& operator=(const InitialiserRun&) = delete;
  ~InitialiserRun() {
    if (!is_first_) return;
    RunningInitialisers& all = RunningInitialisers::all();
    {
      const std::lock_guard lock(all.mutex);
      std::erase_if(all.runs, [&](const auto& run) { return run.of == &cell_; });
    }
    all.ended.notify_all();
  }
  bool is_first() const noexcept { return is_first_; }

 private:
  static constexpr std::chrono::minutes kLongestWait{5};
  const VariableCell& cell_;
  bool is_first_ = false;
};

}  // namespace

// Host code runs here, which may wait for threads that use this Variable or others: no lock of a
// Variable is held, neither of this cell nor of the staged call that reads it.
void VariableCell::initialise() {
  const HostCodeScope open;
  const ContextScope scope(eager_context(), where);
  for (;;) {
    const InitialiserRun run(*this, title());
    if (run.is_first()) {
      std::function<Tensor()> make;
      {
        const std::lock_guard lock(mutex);
        if (value.has_value()) return;
        ETUDE_REQUIRE_CODE(
            kFailedPrecondition, initialiser != nullptr,
            "{} has no value yet. Assign one, or restore a checkpoint, before it is read", made());
        make = initialiser;
      }
      Tensor initial = make();
      ETUDE_REQUIRE_CODE(kFailedPrecondition, !is_standing(initial), "the initialiser of {}: {}",
                         title(), explain_abstract(initial));
      initial = as_initial(initial);
      const std::lock_guard lock(mutex);
      if (!value.has_value()) set_initial(std::move(initial));  // else an assignment was faster
      return;
    }
    const std::lock_guard lock(mutex);
    if (value.has_value()) return;  // else the other run has failed
  }
}

}  // namespace etude::internal
