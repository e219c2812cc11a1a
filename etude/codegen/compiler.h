// SPDX-License-Identifier: Apache-2.0
// What is said and asked of the compiler that works behind a program: runs of element-wise calls
// in graphs become machine code once they have run for about a millisecond (Tier 1), and better
// code after ten (Tier 2). It works on one thread of its own, at low priority; nothing waits for
// it, and results do not depend on it, to the bit.
//
// The environment variable ETUDE_TIER fixes the tier: 0 makes no code, 1 and 2 make it when a
// function is made ready, on the thread that asks.
//
// A child of fork() has no such thread: it runs the code that there is, and makes no more.
#pragma once

#include <cstddef>
#include <string>

#include "etude/version.h"

namespace ETUDE_API etude {

// Returns when all code that was asked for is made: for benchmarks. thread-safe.
void wait_for_compile();

struct CompilerReport {
  std::size_t fast = 0;      // programs that were made at Tier 1
  std::size_t best = 0;      // at Tier 2
  std::size_t failed = 0;    // that could not be made: they run on precompiled kernels
  std::size_t waiting = 0;   // asked for, and not made yet
  double seconds = 0;        // that making them took
  std::string last_failure;  // why the latest of them failed; "": none
};
// thread-safe.
CompilerReport compiler_report();
// Of lines: what it made, in how much time, and why it makes nothing, if so.
std::string to_string(const CompilerReport& report);

}  // namespace etude
