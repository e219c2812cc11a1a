// SPDX-License-Identifier: Apache-2.0
// Control and status of the background compiler. It compiles sequences of element-wise calls in
// graphs, and sequences and loops of calls on few elements. They become machine code after about a
// millisecond of run time (tier 1), and better code after ten milliseconds (tier 2). A thread of
// low priority requests the code from a separate process, the program etude-codegen next to
// libetude.so. That process starts on demand and ends after ten idle seconds. No computation waits
// for it, a fault in it cannot harm this process, and results have the same bits without it.
//
// The environment variable ETUDE_TIER fixes the tier: with 0 no code is made and no process is
// started; with 1 and 2 the code is made when a function is prepared, and the thread waits for it.
//
// A child of fork() runs the existing code, and starts a thread and a compiler process of its own
// for further code.
#pragma once

#include <cstddef>
#include <string>

#include "etude/version.h"

namespace ETUDE_API etude {

// Waits until all requested code and all programs of lazy calls (lazy/lazy.h) are made. For
// benchmarks. threads: thread-safe.
void wait_for_compile();

struct CompilerReport {
  std::size_t fast = 0;      // programs that were made at Tier 1
  std::size_t best = 0;      // at Tier 2
  std::size_t clusters = 0;  // runs of small calls, and loops of them, at either tier
  std::size_t failed = 0;    // could not be made: they run on precompiled kernels
  std::size_t waiting = 0;   // requested, and not made yet
  double seconds = 0;        // of compiling
  std::string last_failure;  // the reason of the latest failure; "": none
};
// threads: thread-safe.
CompilerReport compiler_report();
// The report as lines of text: the number of programs made, the time, and the reason if none can be
// made.
std::string to_string(const CompilerReport& report);

}  // namespace etude
