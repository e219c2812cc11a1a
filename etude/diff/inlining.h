// SPDX-License-Identifier: Apache-2.0
// ETUDE_INLINED: for the arithmetic of numbers of a derivative (dual.h, active.h), and for
// operators that do nothing but pass a function on.
#pragma once

// Where a program is optimised, such a call is inlined however large it looks to the compiler: the
// code around it says which derivatives are 0 or 1, and most of it goes away then. Where it is not
// (-O0), nothing goes away. A copy at each call would be compiled, and instrumented where
// sanitizers are on, as it stands, so there it is left a call.
// As for operators: what calls the function of the user is inlined level by level, and at each
// level compilers optimise its body anew. Inlined first, all levels are one.
#ifdef __OPTIMIZE__
#define ETUDE_INLINED [[gnu::always_inline]]
#else
#define ETUDE_INLINED
#endif

// The same for one call of a function that is not ours: clang inlines the function of the user,
// which is called from nowhere else with these numbers, when it is told to.
#if defined(__OPTIMIZE__) && __clang_major__ >= 15
#define ETUDE_INLINED_CALL [[clang::always_inline]]
#else
#define ETUDE_INLINED_CALL
#endif
