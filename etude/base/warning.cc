// SPDX-License-Identifier: Apache-2.0
#include "etude/base/warning.h"

#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

namespace etude {
namespace {

struct State {
  std::mutex mutex;
  WarningHandler handler;
  std::set<std::string, std::less<>> seen;
};

State& state() {
  static State* made = new State;  // destructors of static objects may still warn
  return *made;
}

}  // namespace

WarningHandler set_warning_handler(WarningHandler handler) {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().handler, std::move(handler));
}

namespace internal {

void warn(std::string_view message) {
  WarningHandler handler;
  {
    const std::lock_guard lock(state().mutex);
    handler = state().handler;
  }
  if (handler) return handler(message);
  std::fprintf(stderr, "etude: warning: %.*s\n", static_cast<int>(message.size()), message.data());
}

void warn_once(std::string_view key, std::string_view message) {
  {
    const std::lock_guard lock(state().mutex);
    if (!state().seen.emplace(key).second) return;
  }
  warn(message);
}

void forget_warnings() {
  const std::lock_guard lock(state().mutex);
  state().seen.clear();
}

}  // namespace internal
}  // namespace etude
