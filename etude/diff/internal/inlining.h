// SPDX-License-Identifier: Apache-2.0
// ETUDE_INLINED: for the arithmetic of derivative numbers (dual.h, active.h), and for operators
// that only pass a function on.
#pragma once

// In optimised builds such a call is inlined however large it looks to the compiler: the
// surrounding code shows which derivatives are 0 or 1, and most of the call is removed. Without
// optimisation (-O0) nothing is removed, and each copy would be compiled and instrumented in full,
// so it stays a call. As for operators: the code that calls the user's function is inlined level by
// level, and compilers optimise its body again at each level. With forced inlining all levels are
// one.
#ifdef __OPTIMIZE__
#define ETUDE_INLINED [[gnu::always_inline]]
#else
#define ETUDE_INLINED
#endif

// The same for a call of the user's function: clang inlines it on request, as it has no other call
// with these numbers.
#if defined(__OPTIMIZE__) && __clang_major__ >= 15
#define ETUDE_INLINED_CALL [[clang::always_inline]]
#else
#define ETUDE_INLINED_CALL
#endif
