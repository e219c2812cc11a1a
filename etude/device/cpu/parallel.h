// SPDX-License-Identifier: Apache-2.0
// The one door to threads: kernels, data pipeline and everything else split work here. One arena;
// the caller always works; nobody waits for a worker that has not started.
#pragma once

#include <cstdint>

#include "etude/base/function_ref.h"

namespace etude {

// Threads that work at most, the caller included: the processors of the affinity mask and the
// cgroup, or ETUDE_THREADS, or what set_thread_count said.
int worker_count();
// Results do not depend on it. n < 1 means the default. Call it while no work runs.
void set_thread_count(int n);

// Runs body(0) .. body(chunks - 1), in parallel if `estimated_us` of work makes that worth while.
// Chunks must follow from sizes, never from the number of threads. Inside a chunk a further call
// runs on the calling thread alone. An exception of a body is rethrown here.
void parallel_for(int64_t chunks, double estimated_us, internal::FunctionRef<void(int64_t)> body);

}  // namespace etude
