// SPDX-License-Identifier: Apache-2.0
// Background work: pieces that no caller waits for, on the one background thread of low priority.
// Programs of lazy segments are made there (lazy/program.h). codegen/serve.cc, above this folder,
// owns the thread, since it makes code on it as well.
#pragma once

#include <functional>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Queues `work`, which may not throw, on the background thread. Returns false if there is no such
// thread: the caller may then run it. Pieces run in order, on one thread. wait_for_compile() waits
// for them. fork() waits for the running piece; queued pieces run in the child as well. Defined in
// etude/startup.cc. threads: thread-safe.
bool run_in_background(std::function<void()> work) noexcept;

}  // namespace internal
}  // namespace etude
