// SPDX-License-Identifier: Apache-2.0
//
// The vector mathematics as functions on arrays, one table per instruction set.
//
// All tables list the same functions in the same order, and a function gives the same bits in every
// table, for every length and alignment. `out` may be the same array as an operand.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace etude::internal {

enum class Isa { kPortable, kAvx2, kAvx512 };
constexpr std::string_view name(Isa isa) {
  return isa == Isa::kPortable ? "portable" : isa == Isa::kAvx2 ? "avx2" : "avx512";
}

// The best instruction set that machine and operating system support. The environment variable
// ETUDE_ISA (portable, avx2 or avx512) may lower it; it is read once.
Isa best_isa();

struct MathFn {
  const char* name;
  int arity;  // 1 or 2; `b` is not read when it is 1
  void (*run)(float* out, const float* a, const float* b, std::size_t n);
};

// What generated code calls where an argument is large. On lanes(isa) floats: y, with the values of
// sin(x + ahead pi / 2), or of tan(x), in the lanes where |x| is large, infinite or NaN.
struct LargeAngles {
  void (*sin)(const float* x, float* y, std::int32_t ahead);
  void (*tan)(const float* x, float* y);
};
constexpr int lanes(Isa isa) { return isa == Isa::kPortable ? 4 : isa == Isa::kAvx2 ? 8 : 16; }

// Ask only for an instruction set up to what the machine supports.
std::span<const MathFn> math_table(Isa isa);
const LargeAngles& large_angles(Isa isa);

}  // namespace etude::internal
