// SPDX-License-Identifier: Apache-2.0
// The thread-local mode word. Zero: no context, profiler, cancellation or device scope is active,
// and calls may go from the dispatch cache straight to a kernel.
#pragma once

#include <cstdint>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

inline constexpr uint32_t kModeContexts = 1;  // a context above eager is on the stack
inline constexpr uint32_t kModeProfile = 2;   // calls are timed
inline constexpr uint32_t kModeCancel = 4;    // calls check first whether they are cancelled
inline constexpr uint32_t kModeDevice = 8;    // a DeviceScope selects the device of calls
#if defined(__GNUC__)
[[gnu::tls_model("initial-exec")]]
#endif
extern thread_local constinit uint32_t mode_word;

// Whether a rule or lowering is running. Its errors get the name of the user's op, not of its own.
bool is_inside_rule() noexcept;

}  // namespace internal
}  // namespace etude
