// SPDX-License-Identifier: Apache-2.0
// The one door to several CPUs: kernels, executor, data pipeline and collectives use it. Not for
// waiting on files or peers: a worker that waits is lost to everybody.
#pragma once

#include <cstdint>

#include "etude/base/function_ref.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// How many threads work on one loop, the caller included: what affinity mask and control group
// grant, unless ETUDE_THREADS or set_thread_count says otherwise.
//
// throws: kInvalidArgument if ETUDE_THREADS is not a number from 1 to 1024.
// threads: thread-safe. cost: one load after the first call.
int worker_count();

// Sets worker_count() for loops that start from now on; 0: as the host grants.
//
// throws: kInvalidArgument outside 0 to 1024. threads: thread-safe.
void set_thread_count(int count);

// Runs body(0) .. body(chunks - 1), each once, in any order, and returns when all have ended. Make
// chunks of 20 to 50 us; their number follows from sizes, never from the number of threads. A loop
// inside a chunk runs on the chunk's thread alone, as does one that takes less than 30 us in all.
//
// throws: what a body throws first; the chunks that have not begun then stay undone.
// threads: thread-safe. cost: about 0.2 us when it goes parallel.
void parallel_for(int64_t chunks, double estimated_us, internal::FunctionRef<void(int64_t)> body);

}  // namespace etude
