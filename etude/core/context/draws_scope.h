// SPDX-License-Identifier: Apache-2.0
// Draws that a failed call takes back, so that the next try draws the same numbers. Used by draws
// without a key and by staged functions.
#pragma once

#include <exception>

#include "etude/core/context/ambient.h"

namespace etude::internal {

// If an exception ends it, the generator of this thread continues as before it. Keys of a KeySource
// are not taken back. threads: confined to the thread that made it.
class DrawsScope {
 public:
  DrawsScope() : before_(ambient().generator), exceptions_(std::uncaught_exceptions()) {}
  DrawsScope(const DrawsScope&) = delete;
  DrawsScope& operator=(const DrawsScope&) = delete;
  ~DrawsScope() {
    if (std::uncaught_exceptions() > exceptions_) ambient().generator = before_;
  }

 private:
  const Generator before_;
  const int exceptions_;
};

}  // namespace etude::internal
