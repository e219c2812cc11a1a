// SPDX-License-Identifier: Apache-2.0
// The compiler is a separate process, so that LLVM's memory, locks and faults do not affect the
// program. It starts at the first request and ends after an idle time, or when this process has
// ended. Later requests start it again.
//
// It detaches from this process when it starts, so wait() does not report it and it leaves no
// zombie. It inherits no descriptor but its socket. It runs in a session of its own, so it receives
// no signals from the terminal.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include <sys/types.h>

#include "etude/codegen/channel.h"
#include "etude/codegen/request.h"

namespace etude::codegen {

struct WorkerSettings {
  std::string program;                       // its file; "": none
  std::string why_absent;                    // the reason, without a program
  std::chrono::milliseconds idle{10'000};    // idle time after which it ends
  std::chrono::milliseconds start{30'000};   // limit of the time to its first answer
  std::chrono::milliseconds answer{60'000};  // limit of the time for one product
};

// threads: thread-safe; one thread is served at a time, others wait.
class Worker {
 public:
  explicit Worker(WorkerSettings settings) : settings_(std::move(settings)) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // The worker of this process, which is never destroyed. A child of fork() has a worker of its
  // own.
  static Worker& of_process();

  // Returns the requested product.
  //
  // throws: the errors of the compiler; kUnavailable if it ended or did not answer in time, or if
  //         this process is about to end; kUnimplemented, with the reason, if there is no compiler.
  std::string make(const Request& request);

  // The reason why no more code will be made; "": none. After three consecutive failures of the
  // compiler process it is not started again.
  std::string why_absent() const;

  // Call this when the process ends. Waiting threads throw kUnavailable at once, and no more code
  // is made.
  void end();

  // 0: not running.
  pid_t pid() const;

 private:
  void connect();
  void start();
  int spawn();
  std::string check_hello(const Received& hello, pid_t& pid) const;
  std::string ask(const std::string& request);
  std::string take(Received answer);
  void hang_up();
  [[noreturn]] void fail(const std::string& why);
  static void after_fork();

  const WorkerSettings settings_;
  std::mutex asking_;         // held while a thread is served
  mutable std::mutex state_;  // guards the following members; held briefly, also over fork()
  Channel channel_;           // changed under both
  Channel other_end_;         // open while it is passed to the compiler
  pid_t pid_ = 0;
  pid_t spawned_ = 0;  // the intermediate process that starts the compiler
  int failures_ = 0;   // in a row
  std::string why_;
  std::atomic<bool> is_over_{false};
};

// Finds the file of the compiler: next to the library or program that contains this function, or in
// the folder lib/ next to the folder bin/ of the program. "": none; `why` then lists the searched
// places.
std::string find_compiler(std::string& why);
// Returns the versions that object files depend on besides their requests: the builds, LLVM, the
// processor. Starts no process.
//
// throws: kUnimplemented, with the reason, without a compiler.
std::string maker();

}  // namespace etude::codegen
