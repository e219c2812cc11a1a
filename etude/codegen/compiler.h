// SPDX-License-Identifier: Apache-2.0
// Control and status of the background compiler. It compiles sequences of element-wise calls in
// graphs, and sequences and loops of calls on few elements. Code that has run for about a
// millisecond is compiled at Tier 1. After about ten milliseconds it is compiled again at Tier 2,
// to faster code. A thread of low priority requests the code from a separate process, the program
// etude-codegen next to libetude.so. The process starts on demand and ends after ten idle seconds.
// Computations do not wait for the process, and its faults cannot harm the calling program. Results
// have the same bits without compiled code.
//
// The environment variable ETUDE_TIER fixes the tier. With 0, no code is made and no process is
// started. With 1 or 2, the code is made when a function is prepared, and the calling thread waits
// for the code.
//
// A child of fork() runs the existing code. For further code it starts its own thread and its own
// compiler process.
#pragma once

#include <cstddef>
#include <string>

#include "etude/version.h"

namespace ETUDE_API etude {

// Waits until all requested code and all programs of lazy calls (lazy/lazy.h) are made. For
// benchmarks. threads: thread-safe.
void wait_for_compile();

struct CompilerReport {
  std::size_t fast = 0;      // programs made at Tier 1
  std::size_t best = 0;      // programs made at Tier 2
  std::size_t clusters = 0;  // sequences and loops of small calls, made at either tier
  std::size_t failed = 0;    // requests that failed; precompiled kernels run instead
  std::size_t waiting = 0;   // requests that are not complete yet
  double seconds = 0;        // of compile time
  std::string last_failure;  // the reason of the latest failure, or ""
};
// threads: thread-safe.
CompilerReport compiler_report();
// Returns the report as lines of text: the numbers of programs, the time, and the reason of the
// latest failure.
std::string to_string(const CompilerReport& report);

}  // namespace etude
