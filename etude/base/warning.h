// SPDX-License-Identifier: Apache-2.0
// Warnings: programs that run, but probably not as their author meant. They go to the standard
// error stream unless a handler takes them. Errors are thrown instead: error.h. Header-only, for
// the sake of the headers that need no library.
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

// What a diagnostic does: nothing, a warning once for each place (a call site; for numbers, a
// function), or an error there.
enum class Severity { kIgnore, kWarn, kError };

// How the findings of differential operators are told.
struct Diagnostics {
  // A result that does not depend on an argument: its gradient is zero.
  Severity independent_result = Severity::kWarn;
  // A number or tensor of a derivative that is used after that derivative: it is a constant there.
  Severity escaped_value = Severity::kIgnore;
};

namespace internal {

struct WarningState {
  std::mutex mutex;
  WarningHandler handler;
  // The keys that were seen, each between two '\0'. A set of strings would add a tenth to what
  // etude/diff.h costs a compiler, in each file that includes it.
  std::string seen;
  Diagnostics diagnostics;
};
inline WarningState& warning_state() {
  static WarningState* made = new WarningState;  // destructors of static objects may still warn
  return *made;
}

// Says it. threads: safe.
[[gnu::cold]] inline void warn(std::string_view message) {
  WarningHandler handler;
  {
    const std::lock_guard lock(warning_state().mutex);
    handler = warning_state().handler;
  }
  if (handler) return handler(message);
  std::fprintf(stderr, "etude: warning: %.*s\n", static_cast<int>(message.size()), message.data());
}

// Whether this key is seen for the first time in the process. threads: safe.
[[gnu::cold]] inline bool see_first(std::string_view key) {
  std::string entry(1, '\0');
  entry.append(key).push_back('\0');
  const std::lock_guard lock(warning_state().mutex);
  std::string& seen = warning_state().seen;
  if (seen.find(entry) != std::string::npos) return false;
  seen += entry;
  return true;
}
// Says it the first time that this key is seen. threads: safe.
inline void warn_once(std::string_view key, std::string_view message) {
  if (see_first(key)) warn(message);
}

// Forgets the keys that were seen. For tests.
inline void forget_warnings() {
  const std::lock_guard lock(warning_state().mutex);
  warning_state().seen.clear();
}

// Tells a finding as `severity` has it. The key is what it is told once for; make_message() is
// called where it is told.
// throws: kInvalidArgument for Severity::kError.
template <class Make>
[[gnu::cold, gnu::noinline]] void diagnose(Severity severity, std::string_view key,
                                           const Make& make_message) {
  if (severity == Severity::kError) throw Error(ErrorCode::kInvalidArgument, make_message());
  if (severity == Severity::kWarn && see_first(key)) warn(make_message());
}

}  // namespace internal

// Sends warnings to `handler`, and returns the one before; an empty one stands for the error
// stream. threads: safe.
inline WarningHandler set_warning_handler(WarningHandler handler) {
  const std::lock_guard lock(internal::warning_state().mutex);
  return std::exchange(internal::warning_state().handler, std::move(handler));
}

// Decides how findings are told, and returns what held before:
//
//   set_diagnostics({.independent_result = Severity::kError});  // in tests
//
// threads: safe.
inline Diagnostics set_diagnostics(Diagnostics wanted) {
  const std::lock_guard lock(internal::warning_state().mutex);
  return std::exchange(internal::warning_state().diagnostics, wanted);
}
inline Diagnostics diagnostics() {
  const std::lock_guard lock(internal::warning_state().mutex);
  return internal::warning_state().diagnostics;
}

}  // namespace etude
