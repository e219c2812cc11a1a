// SPDX-License-Identifier: Apache-2.0
// The user's file and line, recorded without macros by a defaulted parameter.
// Every public entry point takes one; errors, records and profiles show it. Not a stack trace.
#pragma once

#include "etude/version.h"

namespace ETUDE_API etude {

// A position in a source file. Trivial, two words; the text lives as long as the program.
struct CallSite {
  const char* file = "";
  int line = 0;

  // The line of the expression that evaluates the default argument, that is, of the caller.
  static constexpr CallSite here(const char* file = __builtin_FILE(),
                                 int line = __builtin_LINE()) noexcept {
    return {file, line};
  }
  constexpr bool known() const noexcept { return line != 0; }
};

}  // namespace etude
