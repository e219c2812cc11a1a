// SPDX-License-Identifier: Apache-2.0
// Background work: runs pieces of work for which no caller waits on the only background thread,
// which has low priority. It makes the programs of lazy segments (lazy/program.h).
// codegen/serve.cc, a higher folder, owns the thread, since it also makes machine code there.
#pragma once

#include <functional>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Queues `work`, which must not throw, for the background thread. Returns false if there is no such
// thread; the caller may then run `work` itself. Pieces run in order. wait_for_compile() waits for
// them. fork() waits for the running piece; queued pieces run in the child as well. Defined in
// etude/startup.cc. threads: thread-safe.
bool run_in_background(std::function<void()> work) noexcept;

}  // namespace internal
}  // namespace etude
