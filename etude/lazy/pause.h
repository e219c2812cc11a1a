// SPDX-License-Identifier: Apache-2.0
// Pauses a LazyScope for calls that change their arguments, since a change by a recorded call
// cannot be undone if the call fails. Used by staged functions. Calls that only return results are
// recorded.
#pragma once

#include "etude/base/call_site.h"
#include "etude/version.h"

namespace etude::internal {

// While alive, calls of this thread run at once, as if there were no LazyScope; tapes, jvp and vmap
// remain. The constructor first runs pending calls, which does not count as an observation. Their
// failures are thrown where the results are needed. No effect if nothing is being recorded.
// threads: confined to the thread that made it.
class LazyPause {
 public:
  explicit LazyPause(CallSite where);
  LazyPause(const LazyPause&) = delete;
  LazyPause& operator=(const LazyPause&) = delete;
  ~LazyPause();

 private:
  bool has_left_;
};

}  // namespace etude::internal
