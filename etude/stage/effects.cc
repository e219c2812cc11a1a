// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/effects.h"

#include <cstdio>
#include <mutex>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"

namespace etude {
namespace {

struct Sink {
  std::mutex mutex;
  PrintSink sink;
};

// Never destroyed: objects that end with the program may print.
Sink& sink() {
  static Sink* const sink = new Sink;
  return *sink;
}

thread_local constinit bool is_writing = false;  // this thread is inside of a sink

// The sink, for this thread alone.
class Writing {
 public:
  Writing() {
    ETUDE_REQUIRE_CODE(kFailedPrecondition, !is_writing,
                       "a print sink neither prints nor sets another sink. Keep the line, and "
                       "print after the call");
    lock_ = std::unique_lock(sink().mutex);
    is_writing = true;
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  ~Writing() { is_writing = false; }

 private:
  std::unique_lock<std::mutex> lock_;
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
  const Writing writing;
  std::swap(sink().sink, next);
  return next;
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
    if (!text.empty() || &value != values.data()) text += ' ';
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
  const Writing writing;
  if (sink().sink) return sink().sink(line);
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
}

}  // namespace internal
}  // namespace etude
