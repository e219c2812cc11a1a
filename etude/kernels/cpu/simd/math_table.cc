// SPDX-License-Identifier: Apache-2.0

#include "etude/kernels/cpu/simd/math_table.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "etude/base/environment.h"

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
#ifndef ETUDE_WITHOUT_AVX512
namespace avx512 {
extern const std::span<const MathFn> kMathTable;
extern const LargeAngles kLargeAngles;
}  // namespace avx512
#endif
#endif

namespace {

Isa chosen_isa() {
  constexpr std::array kNames{name(Isa::kPortable), name(Isa::kAvx2), name(Isa::kAvx512)};
  const Isa supported = supported_isa();
  const int chosen = environment_choice("ETUDE_ISA", kNames);
  return chosen < 0 ? supported : std::min(supported, static_cast<Isa>(chosen));
}

}  // namespace

Isa supported_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  // f16c has no name here in clang 14; every machine with AVX2 has it.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#ifndef ETUDE_WITHOUT_AVX512
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512) return Isa::kAvx512;
#endif
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kPortable;
}

Isa best_isa() {
  static const Isa isa = chosen_isa();
  return isa;
}

std::span<const MathFn> math_table(Isa isa) { return ETUDE_OF_ISA(isa, internal, kMathTable); }

const LargeAngles& large_angles(Isa isa) { return ETUDE_OF_ISA(isa, internal, kLargeAngles); }

}  // namespace etude::internal
