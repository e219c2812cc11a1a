// SPDX-License-Identifier: Apache-2.0
// Flush-to-zero inside Etude: a denormal operand costs a vector unit fifty times a normal one. The
// mode is set at Etude's entry points and restored on leaving; a user's thread is never left
// changed.
#pragma once

#include <atomic>
#include <cstdint>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace etude {

enum class Denormals : uint8_t { kFlush, kKeep };
// kKeep computes with denormals, slowly; for all threads. Default: kFlush. thread-safe.
void set_denormals(Denormals mode);

namespace internal {

extern std::atomic<bool> flush_denormals;

// While alive, denormals are flushed on this thread. cost: about 10 ns, 2 ns when nested.
class FloatModeScope {
 public:
#if defined(__x86_64__)
  FloatModeScope() noexcept : saved_(_mm_getcsr()) {
    if ((saved_ & kFlush) == kFlush || !flush_denormals.load(std::memory_order_relaxed)) return;
    _mm_setcsr(saved_ | kFlush);
    changed_ = true;
  }
  ~FloatModeScope() {
    if (changed_) _mm_setcsr(saved_);
  }
#else
  FloatModeScope() noexcept = default;
#endif
  FloatModeScope(const FloatModeScope&) = delete;
  FloatModeScope& operator=(const FloatModeScope&) = delete;

 private:
  static constexpr unsigned kFlush = 0x8040;  // FTZ and DAZ of MXCSR
  [[maybe_unused]] unsigned saved_ = 0;
  [[maybe_unused]] bool changed_ = false;
};

}  // namespace internal
}  // namespace etude
