// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/effects.h"

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/variables/variable.h"

namespace etude {
namespace {

// Lines of all threads, in the order of their prints. One thread at a time passes them to the sink,
// without the lock: a sink is host code, and may wait for threads that print.
struct Lines {
  std::mutex mutex;
  std::condition_variable written;
  std::deque<std::string> waiting;
  bool is_busy = false;  // a thread is writing
  std::thread::id in_sink;
  std::shared_ptr<const PrintSink> sink;
};

// Never destroyed: objects that end with the program may print.
Lines& lines() {
  static Lines* const made = new Lines;
  return *made;
}

// Called with the lock.
void require_outside_of_sink() {
  ETUDE_REQUIRE_CODE(kFailedPrecondition, lines().in_sink != std::this_thread::get_id(),
                     "a print sink neither prints nor sets another sink. Keep the line, and "
                     "print after the call");
}

// Passes lines to the sink until none waits. An exception of the sink ends it; the lines that wait
// then are written with the next print.
class Writing {
 public:
  explicit Writing(std::unique_lock<std::mutex>& lock) : lock_(lock) { lines().is_busy = true; }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  ~Writing() {
    if (!lock_.owns_lock()) lock_.lock();
    lines().in_sink = {};
    lines().is_busy = false;
    lines().written.notify_all();
  }
  void write_all() {
    while (!lines().waiting.empty()) {
      const std::string line = std::move(lines().waiting.front());
      lines().waiting.pop_front();
      const std::shared_ptr<const PrintSink> sink = lines().sink;
      lines().in_sink = std::this_thread::get_id();
      lock_.unlock();
      write(sink.get(), line);
      lock_.lock();
      lines().in_sink = {};
    }
  }

 private:
  static void write(const PrintSink* sink, const std::string& line) {
    if (sink != nullptr && *sink) {
      const internal::HostCodeScope no_locks;
      (*sink)(line);
    } else {
      const std::string text = line + '\n';
      std::fwrite(text.data(), 1, text.size(), stdout);
    }
  }

  std::unique_lock<std::mutex>& lock_;
};

// `text` as a part of the attribute of the op, where "{}" marks an operand.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == '{' || c == '}') out += c;
  }
  return out;
}

}  // namespace

std::string Printed::real_text(float number) { return fmt::format("{}", number); }
std::string Printed::real_text(double number) { return fmt::format("{}", number); }

PrintSink set_print_sink(PrintSink next) {
  auto made = std::make_shared<const PrintSink>(std::move(next));
  std::unique_lock lock(lines().mutex);
  require_outside_of_sink();
  lines().written.wait(lock, [] { return !lines().is_busy; });
  lines().sink.swap(made);
  return made != nullptr ? *made : PrintSink();
}

void assert_true(const Tensor& condition, std::string_view message, CallSite where) {
  internal::located("assert_true", where,
                    [&] { internal::require_true(condition, message, where); });
}

namespace internal {

void print_all(const std::vector<Printed>& values) {
  std::string text;
  std::vector<Tensor> operands;
  for (const Printed& value : values) {
    if (&value != values.data()) text += ' ';
    if (!value.is_tensor()) {
      text += escaped(value.text());
    } else if (!value.tensor().has_value()) {
      text += "<absent>";
    } else {
      text += "{}";
      operands.push_back(value.tensor());
    }
  }
  const CallSite where = values.front().where();
  located("print", where, [&] { print_operands(text, operands, where); });
}

void print_line(std::string_view line) {
  std::unique_lock lock(lines().mutex);
  require_outside_of_sink();
  lines().waiting.emplace_back(line);
  if (lines().is_busy) return;  // the thread that writes takes it
  Writing(lock).write_all();
}

}  // namespace internal
}  // namespace etude
