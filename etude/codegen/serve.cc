// SPDX-License-Identifier: Apache-2.0
// The thread that makes code, and does other work that nothing waits for (plan/background.h).
// Invariant: `mutex` guards all of Server; code is made, and work is done, without it.
#include "etude/codegen/serve.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "etude/base/error.h"
#include "etude/base/internal/fork_lock.h"
#include "etude/codegen/compile.h"
#include "etude/codegen/compiler.h"
#include "etude/codegen/worker.h"
#include "etude/device/cpu/threads.h"

namespace etude::codegen {
namespace {

using internal::Cluster;
using internal::TieredCode;
using Clock = std::chrono::steady_clock;

std::shared_ptr<const Code> make_code(const scalar::Program& program, Tier tier) {
  return compile_cached(program, {.tier = tier}).code();
}
std::shared_ptr<const Code> make_code(const Cluster& cluster, Tier tier) {
  return compile_cluster(cluster, {.tier = tier}).code;
}

// The text of an error, which may need more memory than there is.
std::string text_of(const std::exception& error) noexcept {
  try {
    return error.what();
  } catch (const std::bad_alloc&) {
    return "no memory";
  }
}

class Server {
 public:
  struct Request {
    const TieredCode* code = nullptr;  // null: none
    Tier tier = Tier::kFast;
  };

  // For a child of fork(), which has only the calling thread: a server with the requests that this
  // server has not completed.
  Server* copy_for_child() const {
    auto* const out = new Server;
    out->queue_ = queue_;
    out->work_ = work_;
    if (made_.code != nullptr) out->queue_.push_front(made_);
    out->report_ = report_;
    out->is_over_ = is_over_;
    out->is_work_over_ = is_work_over_;
    return out;
  }

  void ask(const Request& request) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    start();  // first: a request without a thread would never be served
    queue_.push_back(request);
    changed_.notify_all();
  }

  bool ask(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (is_over_ || is_work_over_) return false;
    start();  // first: a caller that is refused does the work itself
    work_.push_back(std::move(work));
    changed_.notify_all();
    return true;
  }

  void make(const Request& request) {
    const auto start = Clock::now();
    std::string failure;
    try {
      auto made = std::visit([&](const auto* source) { return make_code(*source, request.tier); },
                             request.code->source());
      void* const entry = made->entry();
      // fork() waits for this lock, so no fork finds the lock of the code closed.
      const std::lock_guard lock(mutex_);
      request.code->set_code(request.tier, entry, std::move(made));
    } catch (const std::bad_alloc&) {
      failure = "no memory";  // short, so that it takes none
    } catch (const std::exception& error) {
      failure = text_of(error);
    }
    const std::lock_guard lock(mutex_);
    report_.seconds += std::chrono::duration<double>(Clock::now() - start).count();
    if (!failure.empty()) {
      ++report_.failed;
      report_.last_failure = std::move(failure);
    } else if (std::holds_alternative<const Cluster*>(request.code->source())) {
      ++report_.clusters;
    } else {
      ++(request.tier == Tier::kFast ? report_.fast : report_.best);
    }
  }

  void wait() {
    std::unique_lock lock(mutex_);
    if (!is_over_ && has_more()) start();  // in a child of fork()
    changed_.wait(lock, [this] {
      return is_over_ || (!has_more() && made_.code == nullptr && !is_working_);
    });
  }

  CompilerReport report() {
    const std::lock_guard lock(mutex_);
    CompilerReport out = report_;
    out.waiting = queue_.size() + (made_.code == nullptr ? 0 : 1);
    return out;
  }

  // No piece of work is done from here on.
  void stop_work() {
    std::unique_lock lock(mutex_);
    is_work_over_ = true;
    work_.clear();
    changed_.notify_all();
    changed_.wait(lock, [this] { return !is_working_; });
  }

  // At the end of the process, which does not wait for running compilations.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      queue_.clear();
      work_.clear();
      changed_.notify_all();
    }
    Worker::of_process().end();
    if (thread_.joinable()) thread_.join();
  }

  // Waits for the running work: it holds locks of all kinds, which no thread would release in the
  // child.
  void lock_for_fork() {
    std::unique_lock lock(mutex_);
    if (std::this_thread::get_id() != thread_.get_id()) {
      changed_.wait(lock, [this] { return !is_working_; });
    }
    lock.release();
  }
  void unlock_after_fork() { mutex_.unlock(); }

 private:
  bool has_more() const { return !queue_.empty() || !work_.empty(); }
  void start() {
    if (thread_.joinable()) return;
    thread_ = internal::start_thread("compilations in the background", [this] { run(); });
  }

  void run() {
    // Lower than the priority of the threads that it works for; for this thread alone, as Linux has
    // it, and of the compiler that it starts.
    static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10));
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_over_ || has_more(); });
      if (is_over_) return;
      if (!work_.empty()) {  // takes less time than a compilation
        work_once(lock);
        continue;
      }
      made_ = queue_.front();
      queue_.pop_front();
      lock.unlock();
      make(made_);
      lock.lock();
      made_ = {};
      changed_.notify_all();
    }
  }

  void work_once(std::unique_lock<std::mutex>& lock) {
    std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    is_working_ = true;
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    is_working_ = false;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> queue_;
  std::thread thread_;
  CompilerReport report_;
  Request made_;  // just now
  std::deque<std::function<void()>> work_;
  bool is_working_ = false;
  bool is_work_over_ = false;
  bool is_over_ = false;
};

// A child of fork() gets another server: the thread of the old server and the threads that wait for
// it do not exist there.
std::atomic<Server*> the_server{nullptr};

void renew_in_child() {
  Server* const old = the_server.load();
  the_server = old->copy_for_child();
  old->unlock_after_fork();
}

Server& server() {
  static const bool is_made = [] {
    internal::prepare_fork_locks();
    the_server = new Server;  // lives on: programs may run while statics are destroyed
    Worker::of_process();     // the end of the process ends it
    return pthread_atfork([] { the_server.load()->lock_for_fork(); },
                          [] { the_server.load()->unlock_after_fork(); }, renew_in_child) == 0 &&
           std::atexit([] { the_server.load()->stop(); }) == 0;
  }();
  static_cast<void>(is_made);
  return *the_server.load();
}

// At the end of the main thread, before static objects are destroyed. Work may use static objects
// that were made after the server, here or in a library. These are destroyed before the server is
// stopped.
struct EndOfMain {
  bool is_armed = false;
  ~EndOfMain() {
    if (gettid() == getpid()) server().stop_work();
  }
};
thread_local EndOfMain end_of_main;

}  // namespace

void make_in_background(const TieredCode& code, Tier tier) noexcept {
  try {
    server().ask({&code, tier});
  } catch (const std::exception&) {
    // No memory or no thread for it: it runs on precompiled kernels, as before.
  }
}

void make_now(const TieredCode& code, Tier tier) noexcept {
  try {
    server().make({&code, tier});
  } catch (const std::exception&) {
    // The same.
  }
}

void prepare_for_forks() {
  prepare_cache_for_forks();
  static_cast<void>(server());
}

bool work_in_background(std::function<void()> work) noexcept {
  try {
    end_of_main.is_armed = true;  // the first use makes the object, and so registers its destructor
    return server().ask(std::move(work));
  } catch (const std::exception&) {
    return false;  // no memory or no thread for it
  }
}

}  // namespace etude::codegen

namespace etude {

void wait_for_compile() { codegen::server().wait(); }
CompilerReport compiler_report() { return codegen::server().report(); }

std::string to_string(const CompilerReport& report) {
  std::string out =
      fmt::format("{} programs at Tier 1, {} at Tier 2, made in {:.1f} ms; {} waiting\n",
                  report.fast, report.best, 1e3 * report.seconds, report.waiting);
  if (report.clusters > 0) {
    out += fmt::format("{} clusters: runs of small calls, and loops of them\n", report.clusters);
  }
  if (report.failed > 0) {
    out += fmt::format("{} run on precompiled kernels; the latest since {}\n", report.failed,
                       report.last_failure);
  }
  return out;
}

}  // namespace etude
