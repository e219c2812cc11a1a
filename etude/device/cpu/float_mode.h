// SPDX-License-Identifier: Apache-2.0
// The floating-point mode inside Etude: denormal numbers are flushed to zero, since they slow loops
// down a hundredfold. Entry points open a scope, after which the user's thread has its previous
// mode again. parallel_for sets the mode of its caller in its workers.
#pragma once

#include <atomic>
#include <cstdint>

#include "etude/version.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace ETUDE_API etude {

enum class Denormals {
  kFlush,  // to zero, as operands and as results; the default
  kKeep,   // as in IEEE 754; loops with many denormals get slow
};

// For all scopes opened from now on. threads: thread-safe.
void set_denormals(Denormals denormals) noexcept;
Denormals denormals() noexcept;

namespace internal {
// Bits 15 (results) and 6 (operands) of the control register.
inline constexpr uint32_t kFlushBits = 0x8040;
extern std::atomic<uint32_t> wanted_float_bits;
#if defined(__GNUC__)
[[gnu::tls_model("initial-exec")]]
#endif
extern thread_local constinit int float_scope_depth;
// The mode to restore after the outermost scope. 0 means that the mode need not change; 0 is never
// a usable control word.
#if defined(__GNUC__)
[[gnu::tls_model("initial-exec")]]
#endif
extern thread_local constinit uint32_t outer_float_mode;
}  // namespace internal

// Sets the mode, and restores the previous mode at its end.
// threads: confined to its thread.
//
// cost: about 1 ns inside another scope or if the mode is already set, else about 10 ns.
class FloatModeScope {
 public:
  FloatModeScope() noexcept {
#if defined(__SSE2__)
    if (internal::float_scope_depth++ != 0) return;
    const uint32_t now = _mm_getcsr();
    const uint32_t wanted =
        (now & ~internal::kFlushBits) | internal::wanted_float_bits.load(std::memory_order_relaxed);
    if (wanted == now) return;
    internal::outer_float_mode = now;
    _mm_setcsr(wanted);
#endif
  }
  FloatModeScope(const FloatModeScope&) = delete;
  FloatModeScope& operator=(const FloatModeScope&) = delete;
  ~FloatModeScope() {
#if defined(__SSE2__)
    if (--internal::float_scope_depth != 0 || internal::outer_float_mode == 0) return;
    _mm_setcsr(internal::outer_float_mode);
    internal::outer_float_mode = 0;
#endif
  }
};

// While alive, the thread has the mode that it had outside of all FloatModeScopes: for host code
// that a kernel calls. If this code sets a mode, that mode remains after the outermost scope.
// threads: confined to its thread.
class HostFloatModeScope {
 public:
  HostFloatModeScope() noexcept {
#if defined(__SSE2__)
    depth_ = internal::float_scope_depth;
    internal::float_scope_depth = 0;
    if (internal::outer_float_mode == 0) return;
    _mm_setcsr(internal::outer_float_mode);
    internal::outer_float_mode = 0;
#endif
  }
  HostFloatModeScope(const HostFloatModeScope&) = delete;
  HostFloatModeScope& operator=(const HostFloatModeScope&) = delete;
  ~HostFloatModeScope() {
#if defined(__SSE2__)
    internal::float_scope_depth = depth_;
    if (depth_ == 0) return;
    const uint32_t now = _mm_getcsr();
    const uint32_t wanted =
        (now & ~internal::kFlushBits) | internal::wanted_float_bits.load(std::memory_order_relaxed);
    if (wanted == now) return;
    internal::outer_float_mode = now;
    _mm_setcsr(wanted);
#endif
  }

 private:
  int depth_ = 0;
};

}  // namespace etude
