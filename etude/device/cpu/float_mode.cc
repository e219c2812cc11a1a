// SPDX-License-Identifier: Apache-2.0
#include "etude/device/cpu/float_mode.h"

namespace etude {
namespace internal {
std::atomic<bool> flush_denormals{true};
}

void set_denormals(Denormals mode) { internal::flush_denormals = mode == Denormals::kFlush; }

}  // namespace etude
