// SPDX-License-Identifier: Apache-2.0
// The compiler is a separate process, so that LLVM's memory, locks and faults do not affect the
// program. It starts at the first request. It ends when it has been idle for some time, or when
// this process has ended. A later request starts it again.
//
// It detaches from this process when it starts. So wait() does not report it, and it leaves no
// zombie. It keeps no descriptor of this process except its socket. It runs in a session of its
// own, so it receives no signals from the terminal.
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
  std::string program;                       // the file of the compiler; "": none
  std::string why_absent;                    // the reason, if there is no program
  std::chrono::milliseconds idle{10'000};    // idle time after which the compiler ends
  std::chrono::milliseconds start{30'000};   // time limit for its first message
  std::chrono::milliseconds answer{60'000};  // time limit for one request
};

// threads: thread-safe. One thread is served at a time; the others wait.
class Worker {
 public:
  explicit Worker(WorkerSettings settings) : settings_(std::move(settings)) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // The worker of this process, which is never destroyed. A child of fork() has a worker of its
  // own.
  static Worker& of_process();

  // Returns the bytes of the requested product (request.h), such as an object file.
  //
  // throws: the errors of the compiler; kUnavailable if the compiler ended or did not answer in
  //         time, or if this process is about to end; kUnimplemented, with the reason, if there is
  //         no compiler.
  std::string make(const Request& request);

  // The reason why no more code will be made; "" if code can be made. After three consecutive
  // failures of the compiler process, it is not started again.
  std::string why_absent() const;

  // Call this when the process ends. Waiting threads throw kUnavailable at once, and no more code
  // is made.
  void end();

  // The id of the compiler process; 0 if it is not running.
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
  mutable std::mutex state_;  // guards the following members; held briefly, and during fork()
  Channel channel_;           // changed only while both are held
  Channel other_end_;         // open while it is passed to the compiler
  pid_t pid_ = 0;
  pid_t spawned_ = 0;  // the intermediate process that starts the compiler
  int failures_ = 0;   // consecutive
  std::string why_;
  std::atomic<bool> is_over_{false};
};

// Returns the file of the compiler. Searches the folder of the library or program that contains
// this function, then the folder of the program, each with its sibling folder lib/. Returns "" if
// there is no compiler that may run; `why` is then the reason.
std::string find_compiler(std::string& why);
// Returns, as text, the dependencies of an object file other than the request: the build of the
// library, the version of LLVM, the file of the compiler, the processor. Starts no process.
//
// throws: kUnimplemented, with the reason, if there is no compiler.
std::string maker();

}  // namespace etude::codegen
