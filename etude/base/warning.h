// SPDX-License-Identifier: Apache-2.0
// Warnings about programs that run but probably contain a mistake. Warnings go to the standard
// error stream unless a handler is set. Errors are thrown instead (error.h). Header-only, since
// some headers work without the library.
#pragma once

#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "etude/base/error.h"
#include "etude/version.h"

namespace ETUDE_API etude {

using WarningHandler = std::function<void(std::string_view)>;

// The effect of a finding: nothing, one warning per place, or an error. The place is a call site
// or, for functions of numbers, the function.
enum class Severity { kIgnore, kWarn, kError };

// The severity of the findings of differential operators.
struct Diagnostics {
  // A result does not depend on an argument, so its gradient is zero.
  Severity independent_result = Severity::kWarn;
  // A number or tensor of a derivative is used after the derivative has ended. It is then a
  // constant.
  Severity escaped_value = Severity::kIgnore;
};

namespace internal {

struct WarningState {
  std::mutex mutex;
  WarningHandler handler;
  // The keys seen so far, each between two '\0'. A std::set of strings would increase the compile
  // time of etude/diff.h by a tenth in every source file.
  std::string seen;
  Diagnostics diagnostics;
};
inline WarningState& warning_state() {
  static WarningState* made = new WarningState;  // never freed: static destructors may warn
  return *made;
}

// Prints the warning or passes it to the handler. threads: thread-safe.
[[gnu::cold]] inline void warn(std::string_view message) {
  WarningHandler handler;
  {
    const std::lock_guard lock(warning_state().mutex);
    handler = warning_state().handler;
  }
  if (handler) return handler(message);
  std::fprintf(stderr, "etude: warning: %.*s\n", static_cast<int>(message.size()), message.data());
}

// Returns true the first time that the process passes this key. threads: thread-safe.
[[gnu::cold]] inline bool see_first(std::string_view key) {
  std::string entry(1, '\0');
  entry.append(key).push_back('\0');
  const std::lock_guard lock(warning_state().mutex);
  std::string& seen = warning_state().seen;
  if (seen.find(entry) != std::string::npos) return false;
  seen += entry;
  return true;
}
// Warns the first time that the process passes this key. threads: thread-safe.
inline void warn_once(std::string_view key, std::string_view message) {
  if (see_first(key)) warn(message);
}

// Forgets all keys. For tests.
inline void forget_warnings() {
  const std::lock_guard lock(warning_state().mutex);
  warning_state().seen.clear();
}

// Reports a finding at `severity`. A warning is printed once per key; an error is thrown each time.
// make_message() is called only for a report.
// throws: kInvalidArgument if `severity` is kError.
template <class Make>
[[gnu::cold, gnu::noinline]] void diagnose(Severity severity, std::string_view key,
                                           const Make& make_message) {
  if (severity == Severity::kError) throw Error(ErrorCode::kInvalidArgument, make_message());
  if (severity == Severity::kWarn && see_first(key)) warn(make_message());
}

}  // namespace internal

// Sends warnings to `handler` and returns the previous handler. An empty handler means the standard
// error stream. threads: thread-safe.
inline WarningHandler set_warning_handler(WarningHandler handler) {
  const std::lock_guard lock(internal::warning_state().mutex);
  return std::exchange(internal::warning_state().handler, std::move(handler));
}

// Sets the severities of findings and returns the previous severities:
//
//   set_diagnostics({.independent_result = Severity::kError});  // in tests
//
// threads: thread-safe.
inline Diagnostics set_diagnostics(Diagnostics wanted) {
  const std::lock_guard lock(internal::warning_state().mutex);
  return std::exchange(internal::warning_state().diagnostics, wanted);
}
inline Diagnostics diagnostics() {
  const std::lock_guard lock(internal::warning_state().mutex);
  return internal::warning_state().diagnostics;
}

}  // namespace etude
