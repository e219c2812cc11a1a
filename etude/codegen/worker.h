// SPDX-License-Identifier: Apache-2.0
// The compiler: a process of its own, so that LLVM's memory, locks and faults are not those of the
// program. It is started when something is first asked of it, ends when nothing was asked for a
// while or when this process has ended, and is started again when it is needed again.
//
// It is no child of this process (it leaves its parent as it starts), so wait() of the program does
// not see it, and it leaves no zombie. It has no descriptor of the program but its socket, is in a
// session of its own, and hears no signal of the terminal.
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
  std::string program;                       // its file; "": there is none
  std::string why_absent;                    // then
  std::chrono::milliseconds idle{10'000};    // it ends after that
  std::chrono::milliseconds start{30'000};   // until it answers at all
  std::chrono::milliseconds answer{60'000};  // until it has made one thing
};

// threads: thread-safe; one thread is answered at a time, others wait.
class Worker {
 public:
  explicit Worker(WorkerSettings settings) : settings_(std::move(settings)) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // That of this process, which lives on. A child of fork() has one of its own.
  static Worker& of_process();

  // What was asked for.
  //
  // throws: what the compiler throws; kUnavailable where it ended or gave no answer in time, or
  //         this process is about to end; kUnimplemented, saying why, where there is none.
  std::string make(const Request& request);

  // Why nothing is made from now on; "": it may be. After three failures in a row of the compiler
  // itself it is not started again.
  std::string why_absent() const;

  // This process ends: who waits for an answer gets kUnavailable at once, and nothing more is made.
  void end();

  // 0: none runs.
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
  std::mutex asking_;         // who is answered
  mutable std::mutex state_;  // guards what follows; held for moments, also over fork()
  Channel channel_;           // changed under both
  Channel other_end_;         // open while it is given to the compiler
  pid_t pid_ = 0;
  pid_t spawned_ = 0;  // the process that the compiler leaves
  int failures_ = 0;   // in a row
  std::string why_;
  std::atomic<bool> is_over_{false};
};

}  // namespace etude::codegen
