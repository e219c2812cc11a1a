// SPDX-License-Identifier: Apache-2.0

#include "etude/kernels/cpu/simd/math_table.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "etude/base/warning.h"

namespace etude::internal {
namespace portable {
extern const std::span<const MathFn> kMathTable;
extern const LargeAngles kLargeAngles;
}  // namespace portable
#if defined(__x86_64__)
namespace avx2 {
extern const std::span<const MathFn> kMathTable;
extern const LargeAngles kLargeAngles;
}  // namespace avx2
namespace avx512 {
extern const std::span<const MathFn> kMathTable;
extern const LargeAngles kLargeAngles;
}  // namespace avx512
#endif

namespace {

Isa supported_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  // f16c has no name here in clang 14; every machine with AVX2 has it.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512) return Isa::kAvx512;
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kPortable;
}

Isa chosen_isa() {
  const Isa supported = supported_isa();
  const char* setting = std::getenv("ETUDE_ISA");
  if (setting == nullptr || *setting == '\0') return supported;
  const std::string_view name = setting;
  if (name == "portable") return Isa::kPortable;
  if (name == "avx2") return std::min(supported, Isa::kAvx2);
  if (name != "avx512") {
    warn_once("ETUDE_ISA", fmt::format("ETUDE_ISA is '{}', which names no instruction set, and is "
                                       "ignored. Set portable, avx2 or avx512",
                                       name));
  }
  return supported;
}

}  // namespace

Isa best_isa() {
  static const Isa isa = chosen_isa();
  return isa;
}

std::span<const MathFn> math_table(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return avx512::kMathTable;
  if (isa == Isa::kAvx2) return avx2::kMathTable;
#else
  static_cast<void>(isa);
#endif
  return portable::kMathTable;
}

const LargeAngles& large_angles(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return avx512::kLargeAngles;
  if (isa == Isa::kAvx2) return avx2::kLargeAngles;
#else
  static_cast<void>(isa);
#endif
  return portable::kLargeAngles;
}

}  // namespace etude::internal
