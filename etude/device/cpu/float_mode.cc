// SPDX-License-Identifier: Apache-2.0
#include "etude/device/cpu/float_mode.h"

namespace etude {
namespace internal {
constinit std::atomic<uint32_t> wanted_float_bits{kFlushBits};
thread_local constinit int float_scope_depth = 0;
thread_local constinit uint32_t outer_float_mode = 0;
}  // namespace internal

void set_denormals(Denormals denormals) noexcept {
  internal::wanted_float_bits.store(denormals == Denormals::kFlush ? internal::kFlushBits : 0,
                                    std::memory_order_relaxed);
}

Denormals denormals() noexcept {
  return internal::wanted_float_bits.load(std::memory_order_relaxed) == 0 ? Denormals::kKeep
                                                                          : Denormals::kFlush;
}

}  // namespace etude
