// SPDX-License-Identifier: Apache-2.0
// The thread that makes code. Invariant: `mutex` guards all of Server; code is made without it.
#include "etude/codegen/serve.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "etude/base/error.h"
#include "etude/codegen/compile.h"
#include "etude/codegen/compiler.h"
#include "etude/kernels/cpu/fused_program.h"

namespace etude::codegen {
namespace {

using kernels::cpu::FusedProgram;
using Clock = std::chrono::steady_clock;

class Server {
 public:
  void ask(const FusedProgram& program, kernels::cpu::Tier tier) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    if (!thread_.joinable()) start();
    queue_.push_back({&program, tier});
    changed_.notify_all();
  }

  void make(const FusedProgram& program, kernels::cpu::Tier tier) {
    const auto start = Clock::now();
    std::string failure;
    try {
      const CompiledProgram made =
          compile_cached(program.program(), {.tier = static_cast<Tier>(tier)});
      program.set_code(tier, made.dense(), std::make_shared<CompiledProgram>(made));
    } catch (const std::exception& error) {
      failure = error.what();
    }
    const std::lock_guard lock(mutex_);
    report_.seconds += std::chrono::duration<double>(Clock::now() - start).count();
    if (!failure.empty()) {
      ++report_.failed;
      report_.last_failure = std::move(failure);
    } else {
      ++(tier == kernels::cpu::Tier::kFast ? report_.fast : report_.best);
    }
  }

  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_over_ || (queue_.empty() && !is_making_); });
  }

  CompilerReport report() {
    const std::lock_guard lock(mutex_);
    CompilerReport out = report_;
    out.waiting = queue_.size() + (is_making_ ? 1 : 0);
    return out;
  }

  // At the end of the process, which waits for what is being compiled. Statics of LLVM are not
  // destroyed before (load_backend.cc).
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      queue_.clear();
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  void lock_for_fork() { mutex_.lock(); }
  void unlock_in_parent() { mutex_.unlock(); }
  // The thread is not here, and locks of LLVM may be held for ever: nothing more is made.
  void unlock_in_child() {
    is_over_ = true;
    queue_.clear();
    is_making_ = false;
    if (thread_.joinable()) thread_.detach();
    mutex_.unlock();
  }

 private:
  struct Request {
    const FusedProgram* program;
    kernels::cpu::Tier tier;
  };

  void start();

  void run() {
    // Lower than that of the threads that it works for; of this thread alone, as Linux has it.
    static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10));
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_over_ || !queue_.empty(); });
      if (is_over_) return;
      const Request request = queue_.front();
      queue_.pop_front();
      is_making_ = true;
      lock.unlock();
      make(*request.program, request.tier);
      lock.lock();
      is_making_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> queue_;
  std::thread thread_;
  CompilerReport report_;
  bool is_making_ = false;
  bool is_over_ = false;
};

Server& server() {
  static auto* const server = new Server;  // programs may run while statics are destroyed
  return *server;
}

void Server::start() {
  static const bool is_known = [] {
    pthread_atfork([] { server().lock_for_fork(); }, [] { server().unlock_in_parent(); },
                   [] { server().unlock_in_child(); });
    return std::atexit([] { server().stop(); }) == 0;
  }();
  static_cast<void>(is_known);
  thread_ = std::thread([this] { run(); });
}

void ask_soon(const FusedProgram& program, kernels::cpu::Tier tier) noexcept {
  try {
    server().ask(program, tier);
  } catch (const std::exception&) {
    // No memory or no thread for it: the program runs on precompiled kernels, as before.
  }
}

void make_now(const FusedProgram& program, kernels::cpu::Tier tier) noexcept {
  try {
    server().make(program, tier);
  } catch (const std::exception&) {
    // The same.
  }
}

constexpr kernels::cpu::FusedCompiler kCompiler = {ask_soon, make_now};

}  // namespace

void serve_kernels() noexcept { kernels::cpu::set_fused_compiler(kCompiler); }

}  // namespace etude::codegen

namespace etude {

void wait_for_compile() { codegen::server().wait(); }
CompilerReport compiler_report() { return codegen::server().report(); }

std::string to_string(const CompilerReport& report) {
  std::string out =
      fmt::format("{} programs at Tier 1, {} at Tier 2, made in {:.1f} ms; {} waiting\n",
                  report.fast, report.best, 1e3 * report.seconds, report.waiting);
  if (report.failed > 0) {
    out += fmt::format("{} run on precompiled kernels; the latest since {}\n", report.failed,
                       report.last_failure);
  }
  return out;
}

}  // namespace etude
