// SPDX-License-Identifier: Apache-2.0
// The user's file and line, recorded by a default argument, without macros. Every public entry
// point takes a CallSite. Errors, records and profiles show it. Not a stack trace.
#pragma once

#include "etude/version.h"

namespace ETUDE_API etude {

namespace internal {

// Whether `file`, as the compiler spells it, is a source file of the user. Files in the folder of
// this library do not count, except its tests (_test.cc). Files of the standard library do not
// count either: std::invoke and std::optional::emplace make calls for other code.
// cost: none if `file` is a constant, since the compiler evaluates the call.
[[gnu::always_inline]] constexpr bool is_users_file(const char* file) noexcept {
  constexpr unsigned long kFolder = sizeof(__FILE__) - sizeof("base/call_site.h");
  const unsigned long length = __builtin_strlen(file);
  if (!__builtin_is_constant_evaluated() && __builtin_strstr(file, "/include/c++/") != nullptr) {
    return false;
  }
  if (__builtin_strncmp(file, __FILE__, kFolder) != 0) return true;
  return length > 8 && __builtin_strcmp(file + (length - 8), "_test.cc") == 0;
}

}  // namespace internal

// A position in a source file: two words, trivially copyable. The text of `file` is static.
struct CallSite {
  const char* file = "";
  int line = 0;

  // Returns the line of the caller: the line of the expression that evaluates the default argument.
  // Unknown for callers inside the library. Errors then show the line of the user's call (CallScope
  // in core/call/call_scope.h).
  [[gnu::always_inline]] static constexpr CallSite here(const char* file = __builtin_FILE(),
                                                        int line = __builtin_LINE()) noexcept {
    return internal::is_users_file(file) ? CallSite{file, line} : CallSite{};
  }
  constexpr bool known() const noexcept { return line != 0; }
};

}  // namespace etude
