// SPDX-License-Identifier: Apache-2.0
// etude::math: functions for scalar lambdas of op records, with the names of ops. They record calls
// in the expression under construction (expression.h). Not for numbers or tensors.
#pragma once

#include "etude/base/scalars/expression.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace math {

using scalar::Symbol;
using scalar::where;

#define ETUDE_UNARY(fn, f, dx) using scalar::f;
#define ETUDE_BINARY(fn, f, da, db) using scalar::f;
#define ETUDE_ROUNDING(fn, f) using scalar::f;
#define ETUDE_NUMBER_UNARY(fn, f, dx)
#define ETUDE_NUMBER_BINARY(fn, f, da, db)
#define ETUDE_NUMBER_ROUNDING(fn, f)
#define ETUDE_OP_UNARY(fn, f, dx) \
  constexpr Symbol f(const Symbol& x) { return scalar::note(scalar::Fn::fn, x); }
#define ETUDE_OP_BINARY(fn, f, da, db)                   \
  constexpr Symbol f(const Symbol& a, const Symbol& b) { \
    return scalar::note(scalar::Fn::fn, a, b);           \
  }
#define ETUDE_OP_ROUNDING(fn, f) ETUDE_OP_UNARY(fn, f, 0)
#define ETUDE_OP_TRUTH(fn, f, arity)                                \
  template <class... S>                                             \
  requires(sizeof...(S) == (arity)) constexpr Symbol f(S... args) { \
    return scalar::note(scalar::Fn::fn, Symbol(args)...);           \
  }
#include "etude/base/scalars/scalar_functions.inc"

}  // namespace math
}  // namespace etude
