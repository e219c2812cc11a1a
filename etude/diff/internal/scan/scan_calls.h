// SPDX-License-Identifier: Apache-2.0
// The operations in the body of a scan: calls (base/scalars/expression.h), their values and their
// partials, on numbers and on lanes. Used by scan_program.h.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "etude/base/scalars/expression.h"
#include "etude/diff/internal/scan/lanes.h"
#include "etude/diff/scalar_math.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

using ScanFn = scalar::Fn;

// The number of operands that a derivative passes to. Conditions and constants get none.
constexpr int partials_of(ScanFn fn) {
  switch (fn) {
#define ETUDE_UNARY(fn, f, dx)
#define ETUDE_BINARY(fn, f, da, db)
#define ETUDE_ROUNDING(fn, f) case ScanFn::fn:
#include "etude/base/scalars/scalar_functions.inc"
    return 0;
    case ScanFn::kWhere:
      return 2;
    default:
      return scalar::info(fn).is_bool ? 0 : scalar::info(fn).arity;
  }
}
// Operand i that a derivative passes to.
constexpr uint16_t operand_of(const scalar::Node& node, int i) {
  return node.args[static_cast<std::size_t>(node.fn == ScanFn::kWhere ? i + 1 : i)];
}

// Whether lanes are computed one by one: comparisons, and functions of two numbers.
template <ScanFn fn, class T>
inline constexpr bool kLaneByLane =
    kIsLanes<T>&& scalar::info(fn).arity == 2 && fn != ScanFn::kAdd&& fn != ScanFn::kSubtract&& fn
                                                     != ScanFn::kMultiply&& fn != ScanFn::kDivide;

// The value of a call on numbers, or on lanes computed together.
template <ScanFn fn, class T>
[[gnu::always_inline]] inline T value_of_call(const T& a, const T& b) {
  using namespace scalar_math;  // NOLINT(google-build-using-namespace)
  if constexpr (fn == ScanFn::kAdd) return a + b;
  if constexpr (fn == ScanFn::kSubtract) return a - b;
  if constexpr (fn == ScanFn::kMultiply) return a * b;
  if constexpr (fn == ScanFn::kDivide) return a / b;
  if constexpr (fn == ScanFn::kNegative) return -a;
  if constexpr (fn == ScanFn::kEqual) return a == b ? T(1) : T(0);
  if constexpr (fn == ScanFn::kNotEqual) return a == b ? T(0) : T(1);
  if constexpr (fn == ScanFn::kLess) return a < b ? T(1) : T(0);
  if constexpr (fn == ScanFn::kLessEqual) return a <= b ? T(1) : T(0);
  if constexpr (fn == ScanFn::kGreater) return a > b ? T(1) : T(0);
  if constexpr (fn == ScanFn::kGreaterEqual) return a >= b ? T(1) : T(0);
#define ETUDE_UNARY(name, f, dx) \
  if constexpr (fn == ScanFn::name) return f(a);
#define ETUDE_BINARY(name, f, da, db) \
  if constexpr (fn == ScanFn::name) return f(a, b);
#define ETUDE_ROUNDING(name, f) ETUDE_UNARY(name, f, 0)
#include "etude/base/scalars/scalar_functions.inc"
}
// The derivative by operand `which`, for the value y.
template <ScanFn fn, int which, class T>
[[gnu::always_inline]] inline T partial_of_call(const T& a, const T& b, const T& y) {
  using namespace scalar_math;  // NOLINT(google-build-using-namespace)
  [[maybe_unused]] const T& x = a;
  if constexpr (fn == ScanFn::kMultiply) return which == 0 ? b : a;
  if constexpr (fn == ScanFn::kDivide) return which == 0 ? T(1) / b : -y / b;
#define ETUDE_UNARY(name, f, dx) \
  if constexpr (fn == ScanFn::name) return dx;
#define ETUDE_BINARY(name, f, da, db) \
  if constexpr (fn == ScanFn::name) return which == 0 ? T(da) : T(db);
#define ETUDE_ROUNDING(name, f)
#include "etude/base/scalars/scalar_functions.inc"
}

// The value and the partial for numbers and all kinds of lanes.
template <ScanFn fn, class T>
[[gnu::always_inline]] inline T scan_value(const T& a, const T& b) {
  if constexpr (kLaneByLane<fn, T>) {
    return T::of([&](std::size_t l) { return value_of_call<fn>(a[l], b[l]); });
  } else {
    return value_of_call<fn>(a, b);
  }
}
template <ScanFn fn, int which, class T>
[[gnu::always_inline]] inline T scan_partial(const T& a, const T& b, const T& y) {
  if constexpr (kLaneByLane<fn, T>) {
    return T::of([&](std::size_t l) { return partial_of_call<fn, which>(a[l], b[l], y[l]); });
  } else {
    return partial_of_call<fn, which>(a, b, y);
  }
}
template <class T>
[[gnu::always_inline]] inline T choose(const T& condition, const T& yes, const T& no) {
  return condition != T(0) ? yes : no;
}
template <std::floating_point T>
inline bool may_be_nan(const T& x) {
  return x != x;
}

}  // namespace internal
}  // namespace etude
