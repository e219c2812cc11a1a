// SPDX-License-Identifier: Apache-2.0
// Elapsed time, for the speed that epochs and metrics report.
#pragma once

#include <chrono>

namespace etude::nn::internal {

// Seconds since a fixed moment.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace etude::nn::internal
