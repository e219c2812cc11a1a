// SPDX-License-Identifier: Apache-2.0
// Pieces of work of a hundred microseconds or more that run side by side, such as branches of a
// plan. Loops inside them still use all threads (parallel.h), unlike loops inside a chunk.
#pragma once

#include <cstdint>

#include "etude/base/internal/function_ref.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Runs body(0) .. body(count - 1), each once, and returns when all have ended. On one thread, and
// in a chunk of parallel_for, they run one after another.
//
// A thread that waits here may run bodies and chunks of other callers meanwhile. So a caller, and a
// body around a loop, must not hold anything that another body could need, such as a lock or a
// thread's scratch memory.
//
// throws: the first exception of a body; bodies that have not begun are then not run.
// threads: thread-safe. cost: about 0.2 us, and 5 to 50 us if a worker has to wake up.
void run_branches(int64_t count, FunctionRef<void(int64_t)> body);

}  // namespace internal
}  // namespace etude
