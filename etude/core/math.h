// SPDX-License-Identifier: Apache-2.0
// etude::math: the functions that scalar lambdas of op records are written with. They append to the
// program under construction (scalar.h). Not for numbers and not for tensors.
#pragma once

#include "etude/core/scalar.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace math {

using scalar::Fn;
using scalar::Sym;

#define ETUDE_MATH_1(name, fn) \
  constexpr Sym name(Sym x) { return scalar::call(fn, x); }
#define ETUDE_MATH_2(name, fn)                                                            \
  constexpr Sym name(Sym a, Sym b) { return scalar::call(fn, a, b); }                     \
  constexpr Sym name(Sym a, double b) { return scalar::call(fn, a, scalar::lift(a, b)); } \
  constexpr Sym name(double a, Sym b) { return scalar::call(fn, scalar::lift(b, a), b); }
ETUDE_MATH_1(abs, Fn::kAbs)
ETUDE_MATH_1(sign, Fn::kSign)
ETUDE_MATH_1(floor, Fn::kFloor)
ETUDE_MATH_1(ceil, Fn::kCeil)
ETUDE_MATH_1(round, Fn::kRound)
ETUDE_MATH_1(trunc, Fn::kTrunc)
ETUDE_MATH_1(sqrt, Fn::kSqrt)
ETUDE_MATH_1(rsqrt, Fn::kRsqrt)
ETUDE_MATH_1(cbrt, Fn::kCbrt)
ETUDE_MATH_1(exp, Fn::kExp)
ETUDE_MATH_1(exp2, Fn::kExp2)
ETUDE_MATH_1(exp10, Fn::kExp10)
ETUDE_MATH_1(expm1, Fn::kExpm1)
ETUDE_MATH_1(log, Fn::kLog)
ETUDE_MATH_1(log2, Fn::kLog2)
ETUDE_MATH_1(log10, Fn::kLog10)
ETUDE_MATH_1(log1p, Fn::kLog1p)
ETUDE_MATH_1(sin, Fn::kSin)
ETUDE_MATH_1(cos, Fn::kCos)
ETUDE_MATH_1(tan, Fn::kTan)
ETUDE_MATH_1(asin, Fn::kAsin)
ETUDE_MATH_1(acos, Fn::kAcos)
ETUDE_MATH_1(atan, Fn::kAtan)
ETUDE_MATH_1(sinh, Fn::kSinh)
ETUDE_MATH_1(cosh, Fn::kCosh)
ETUDE_MATH_1(tanh, Fn::kTanh)
ETUDE_MATH_1(asinh, Fn::kAsinh)
ETUDE_MATH_1(acosh, Fn::kAcosh)
ETUDE_MATH_1(atanh, Fn::kAtanh)
ETUDE_MATH_1(erf, Fn::kErf)
ETUDE_MATH_1(erfc, Fn::kErfc)
ETUDE_MATH_1(erfinv, Fn::kErfinv)
ETUDE_MATH_1(lgamma, Fn::kLgamma)
ETUDE_MATH_1(digamma, Fn::kDigamma)
ETUDE_MATH_1(sigmoid, Fn::kSigmoid)
ETUDE_MATH_1(bitwise_invert, Fn::kBitwiseInvert)
ETUDE_MATH_1(logical_not, Fn::kLogicalNot)
ETUDE_MATH_1(isnan, Fn::kIsnan)
ETUDE_MATH_1(isinf, Fn::kIsinf)
ETUDE_MATH_1(isfinite, Fn::kIsfinite)
ETUDE_MATH_1(signbit, Fn::kSignbit)
ETUDE_MATH_2(floor_divide, Fn::kFloorDivide)
ETUDE_MATH_2(remainder, Fn::kRemainder)
ETUDE_MATH_2(pow, Fn::kPow)
ETUDE_MATH_2(maximum, Fn::kMaximum)
ETUDE_MATH_2(minimum, Fn::kMinimum)
ETUDE_MATH_2(atan2, Fn::kAtan2)
ETUDE_MATH_2(hypot, Fn::kHypot)
ETUDE_MATH_2(copysign, Fn::kCopysign)
ETUDE_MATH_2(nextafter, Fn::kNextafter)
ETUDE_MATH_2(logaddexp, Fn::kLogaddexp)
ETUDE_MATH_2(bitwise_and, Fn::kBitwiseAnd)
ETUDE_MATH_2(bitwise_or, Fn::kBitwiseOr)
ETUDE_MATH_2(bitwise_xor, Fn::kBitwiseXor)
ETUDE_MATH_2(bitwise_left_shift, Fn::kBitwiseLeftShift)
ETUDE_MATH_2(bitwise_right_shift, Fn::kBitwiseRightShift)
ETUDE_MATH_2(logical_and, Fn::kLogicalAnd)
ETUDE_MATH_2(logical_or, Fn::kLogicalOr)
ETUDE_MATH_2(logical_xor, Fn::kLogicalXor)
#undef ETUDE_MATH_1
#undef ETUDE_MATH_2

// `a` where the condition holds, else `b`; both are evaluated. Numbers adapt.
template <class A, class B>
constexpr Sym select(Sym condition, A a, B b) {
  return scalar::call(Fn::kWhere, condition, scalar::lift(condition, a),
                      scalar::lift(condition, b));
}

}  // namespace math
}  // namespace etude
