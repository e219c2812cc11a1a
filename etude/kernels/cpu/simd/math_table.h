// SPDX-License-Identifier: Apache-2.0
//
// The vector mathematics as functions on arrays, one table per instruction set.
//
// All tables list the same functions in the same order, and a function returns the same bits in
// every table, for every length and alignment. `out` may be the same array as an operand.

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

// The best instruction set that machine and operating system support, and this build contains.
Isa supported_isa();
// The instruction set of the kernels that run: the best set that is supported, unless the
// environment variable ETUDE_ISA (portable, avx2 or avx512) lowers it. Read once.
Isa best_isa();

// each_isa.inc defines a function or table under one name in space::portable, ::avx2 and ::avx512.
// The macro is the version for `isa`, or for the best instruction set. It is an lvalue.
#if defined(__x86_64__) && defined(ETUDE_WITHOUT_AVX512)
#define ETUDE_OF_ISA(isa, space, ...) \
  ((isa) == ::etude::internal::Isa::kAvx2 ? space::avx2::__VA_ARGS__ : space::portable::__VA_ARGS__)
#elif defined(__x86_64__)
#define ETUDE_OF_ISA(isa, space, ...)                                    \
  ((isa) == ::etude::internal::Isa::kAvx512 ? space::avx512::__VA_ARGS__ \
   : (isa) == ::etude::internal::Isa::kAvx2 ? space::avx2::__VA_ARGS__   \
                                            : space::portable::__VA_ARGS__)
#else  // a choice as well, so that `isa` is used and a template's name has a type
#define ETUDE_OF_ISA(isa, space, ...)                                        \
  ((isa) == ::etude::internal::Isa::kPortable ? space::portable::__VA_ARGS__ \
                                              : space::portable::__VA_ARGS__)
#endif
#define ETUDE_OF_BEST_ISA(space, ...) \
  ETUDE_OF_ISA(::etude::internal::best_isa(), space, __VA_ARGS__)

struct MathFn {
  const char* name;
  int arity;  // 1 or 2; `b` is not read when it is 1
  void (*run)(float* out, const float* a, const float* b, std::size_t n);
};

// The functions that generated code calls for large arguments. They return y, on lanes(isa) floats,
// but with the values of sin(x + ahead pi / 2), or of tan(x), in the lanes where |x| is large,
// infinite or NaN.
struct LargeAngles {
  void (*sin)(const float* x, float* y, int32_t ahead);
  void (*tan)(const float* x, float* y);
};
constexpr int lanes(Isa isa) { return isa == Isa::kPortable ? 4 : isa == Isa::kAvx2 ? 8 : 16; }

// Precondition: the machine supports the instruction set.
std::span<const MathFn> math_table(Isa isa);
const LargeAngles& large_angles(Isa isa);

}  // namespace etude::internal
