// SPDX-License-Identifier: Apache-2.0
// Runs loops on several CPUs. All code that needs more than one CPU uses it: kernels, the executor,
// the data pipeline and collectives. Not for waiting on files or peers: a waiting worker cannot run
// other loops.
#pragma once

#include <cstdint>

#include "etude/base/internal/function_ref.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// The number of threads of one loop, including the caller. ETUDE_THREADS or set_thread_count() sets
// it; the default is the number that affinity mask and control group allow.
//
// throws: kInvalidArgument if ETUDE_THREADS is not a number from 1 to 1024.
// threads: thread-safe. cost: one load after the first call.
int worker_count();

// Sets worker_count() for loops that start from now on. 0: the default.
//
// throws: kInvalidArgument outside 0 to 1024. threads: thread-safe.
void set_thread_count(int count);

// Runs body(0) .. body(chunks - 1), each once, in any order, and returns when all have ended. Make
// chunks of 20 to 50 us; their number must depend on sizes, not on the number of threads. A loop
// inside a chunk runs on the thread of the chunk alone. A loop of less than 30 us in total runs on
// the calling thread.
//
// throws: the first exception of a body; chunks that have not begun are then not run.
// threads: thread-safe. cost: about 0.2 us if it runs in parallel.
void parallel_for(int64_t chunks, double estimated_us, internal::FunctionRef<void(int64_t)> body);

}  // namespace etude
