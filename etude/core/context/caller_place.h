// SPDX-License-Identifier: Apache-2.0
// The DeviceScope around a staged call. A graph runs without it, since its nodes are placed
// already. Host code in the graph runs in it, as in a plain call.
#pragma once

#include "etude/core/context/device_scope.h"

namespace etude::internal {

// While alive, `place` is the scope around the staged call that runs on this thread; null: none.
// threads: confined to its thread.
class CallerPlaceScope {
 public:
  explicit CallerPlaceScope(const Placement* place);
  CallerPlaceScope(const CallerPlaceScope&) = delete;
  CallerPlaceScope& operator=(const CallerPlaceScope&) = delete;
  ~CallerPlaceScope();

 private:
  const Placement* saved_;
};

// The scope around the innermost staged call of this thread; null if there is none.
const Placement* caller_place() noexcept;

}  // namespace etude::internal
