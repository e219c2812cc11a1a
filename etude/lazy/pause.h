// SPDX-License-Identifier: Apache-2.0
// A gap in a LazyScope, for calls that change what they were given: what a recorded call has
// changed cannot be taken back where it fails. Used by staged functions. Not for calls that give
// results only: those are recorded.
#pragma once

#include "etude/base/call_site.h"
#include "etude/version.h"

namespace etude::internal {

// While alive, calls of this thread run at once, as if no LazyScope were around it; tapes, jvp and
// vmap stay. What is pending runs first, which is no look; what fails then throws where it is
// needed. Does nothing where nothing is recorded. confined to the thread that made it.
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
