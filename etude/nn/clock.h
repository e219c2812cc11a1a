// SPDX-License-Identifier: Apache-2.0
// Time that goes by, for what epochs and metrics say of speed.
#pragma once

#include <chrono>

namespace etude::nn::detail {

// Seconds from a moment that is the same for all calls.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace etude::nn::detail
