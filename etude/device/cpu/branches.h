// SPDX-License-Identifier: Apache-2.0
// Runs pieces of work of a hundred microseconds or more in parallel, such as branches of a plan.
// Loops inside a piece still use all threads, unlike loops inside a chunk of parallel.h.
#pragma once

#include <cstdint>

#include "etude/base/internal/function_ref.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Runs body(0) .. body(count - 1), each once, and returns when all have ended. If there is only one
// thread, and inside a chunk of parallel_for, the bodies run one after another.
//
// While a thread waits here, it may run bodies and chunks of other callers. So a caller, and a body
// that runs a loop, must not hold anything that another body could need, such as a lock or scratch
// memory of the thread.
//
// throws: the first exception of a body; bodies that have not begun are then not run.
// threads: thread-safe. cost: about 0.2 us, and 5 to 50 us if a worker has to wake up.
void run_branches(int64_t count, FunctionRef<void(int64_t)> body);

}  // namespace internal
}  // namespace etude
