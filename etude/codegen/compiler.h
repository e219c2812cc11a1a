// SPDX-License-Identifier: Apache-2.0
// What is said and asked of the compiler that works behind a program: runs of element-wise calls
// in graphs, and runs and loops of calls on few elements, become machine code once they have run
// for about a millisecond (Tier 1), and better code after ten (Tier 2). One thread of low priority
// asks for it, of a process that is started when there is something to make and ends ten seconds
// after (the program etude-codegen, beside libetude.so): nothing waits for it, nothing in it can
// harm this process, and results do not depend on it, to the bit.
//
// The environment variable ETUDE_TIER fixes the tier: 0 makes no code and starts nothing, 1 and 2
// make it when a function is made ready, and the thread that asks waits for it.
//
// A child of fork() runs the code that there is, and has a thread and a process of its own for
// more.
#pragma once

#include <cstddef>
#include <string>

#include "etude/version.h"

namespace ETUDE_API etude {

// Returns when all code that was asked for is made, and all programs of lazy calls
// (lazy/lazy.h): for benchmarks. thread-safe.
void wait_for_compile();

struct CompilerReport {
  std::size_t fast = 0;      // programs that were made at Tier 1
  std::size_t best = 0;      // at Tier 2
  std::size_t regions = 0;   // runs of small calls, and loops of them, at either tier
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
