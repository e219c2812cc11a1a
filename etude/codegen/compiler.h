// SPDX-License-Identifier: Apache-2.0
// Control and status of the background compiler. Runs of element-wise calls in graphs, and runs and
// loops of calls on few elements, become machine code after about a millisecond of run time (Tier
// 1), and better code after ten milliseconds (Tier 2). One thread of low priority requests it from
// a separate process, which starts on demand and ends after ten idle seconds (the program
// etude-codegen, next to libetude.so). Nothing waits for it, no fault in it can harm this process,
// and results do not depend on it, to the bit.
//
// The environment variable ETUDE_TIER fixes the tier: 0 makes no code and starts nothing; 1 and 2
// make code when a function is made ready, and the requesting thread waits.
//
// A child of fork() runs the existing code, and has a thread and a process of its own for more.
#pragma once

#include <cstddef>
#include <string>

#include "etude/version.h"

namespace ETUDE_API etude {

// Returns when all requested code is made, and all programs of lazy calls (lazy/lazy.h): for
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
// As lines: the number of programs made, the time, and the reason if none are made.
std::string to_string(const CompilerReport& report);

}  // namespace etude
