// SPDX-License-Identifier: Apache-2.0
// Runs tasks of a hundred microseconds or more in parallel, such as branches of a plan. A
// parallel_for (parallel.h) inside such a task still uses all threads. Inside a chunk of another
// parallel_for it uses one thread.
#pragma once

#include <cstdint>

#include "etude/base/internal/function_ref.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Runs body(0) .. body(count - 1), each once, and returns when all have ended. The bodies run one
// after another if there is only one thread, or if the caller is inside a chunk of parallel_for.
//
// While a thread waits here, it may run bodies and chunks of other callers. So a caller must not
// hold anything that another body could need, such as a lock or scratch memory of the thread. The
// same holds for a body that calls parallel_for.
//
// throws: the first exception of a body; bodies that have not begun by then are skipped.
// threads: thread-safe. cost: about 0.2 us, or 5 to 50 us if a worker has to wake up.
void run_branches(int64_t count, FunctionRef<void(int64_t)> body);

}  // namespace internal
}  // namespace etude
