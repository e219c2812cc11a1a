// SPDX-License-Identifier: Apache-2.0
#include "serve/shutdown.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

namespace etude::serve {
namespace {

sigset_t block_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return signals;
}

}  // namespace

std::string still_running(const Metrics& metrics) {
  constexpr std::pair<std::string_view, std::string_view> kGauges[] = {
      {"loads of ", "etude_serve_loading"},
      {"calls of ", "etude_serve_running"},
      {"requests that wait for ", "etude_serve_waiting"},
      {"calls of gRPC", "etude_serve_grpc_calls"},
      {"connections of HTTP", "etude_serve_http_connections"},
      {"connections of gRPC", "etude_serve_grpc_connections"}};
  std::vector<std::string> out;
  for (const auto& [what, name] : kGauges) {
    for (const auto& [labels, value] : metrics.values(name)) {
      if (value != 0) out.push_back(fmt::format("{}{}: {}", what, labels, value));
    }
  }
  if (out.empty()) return "no load, call or connection; does a folder of models answer?";
  return fmt::format("{}", fmt::join(out, ", "));
}

Shutdown::Shutdown(std::chrono::milliseconds drain, Log& log, const Metrics& metrics)
    : signals_(block_signals()),
      drain_(drain),
      log_(log),
      metrics_(metrics),
      thread_("the end of the process", 1, [this](const auto&) { run(); }) {}

Shutdown::~Shutdown() {
  {
    const std::lock_guard lock(mutex_);
    state_ = State::kEnded;
  }
  ::kill(::getpid(), SIGTERM);  // no other thread takes it
}

bool Shutdown::wait_for_signal(Clock::time_point until) const {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - Clock::now());
    const int64_t ns = std::max<int64_t>(left.count(), 0);
    const timespec wait = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
    if (::sigtimedwait(&signals_, nullptr, &wait) > 0) return true;
    if (Clock::now() >= until) return false;
  }
}

void Shutdown::run() {
  constexpr std::chrono::seconds kForTheEnd(2);
  // Some programs send a signal to a process and again to its group.
  constexpr std::chrono::milliseconds kSameSignal(500);
  int signal = 0;
  ::sigwait(&signals_, &signal);
  std::unique_lock lock(mutex_);
  if (state_ == State::kEnded) return;
  if (state_ == State::kStarting) end("a signal has ended the server before its start", 0);
  state_ = State::kDraining;
  deadline_ = Clock::now() + drain_;
  const Clock::time_point first = Clock::now(), last = deadline_ + kForTheEnd;
  changed_.notify_all();
  lock.unlock();
  while (wait_for_signal(last)) {
    lock.lock();
    if (state_ == State::kEnded) return;
    lock.unlock();
    if (Clock::now() - first > kSameSignal) end("a second signal has ended the server", 1);
  }
  lock.lock();
  if (state_ == State::kEnded) return;
  lock.unlock();
  cut();
}

void Shutdown::serve() {
  const std::lock_guard lock(mutex_);
  state_ = State::kServing;
}

Clock::time_point Shutdown::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return state_ == State::kDraining; });
  return deadline_;
}

void Shutdown::end(std::string_view reason, int status) noexcept {
  // A full pipe would block the log, and so the end. The first process of a container needs the
  // handler: the system ignores signals without one.
  ::signal(SIGALRM, [](int) { ::_exit(1); });
  ::alarm(1);
  try {
    log_.write(fmt::format("{}. Still running: {}", reason, still_running(metrics_)));
  } catch (const std::exception&) {  // no memory for the line
  }
  std::_Exit(status);
}

void Shutdown::cut() noexcept { end("the time to drain (--drain) is over", 1); }

}  // namespace etude::serve
