// SPDX-License-Identifier: Apache-2.0
// What the body of a scan is made of: calls, their values and their slopes, on numbers and on
// lanes. Used by scan_program.h.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "etude/diff/lanes.h"
#include "etude/diff/scalar_math.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// What a symbol stands for. The functions are those of math_rules.inc, by its names.
// NOLINTBEGIN(readability-identifier-naming): named like the functions
enum class ScanOp : std::uint8_t {
  input,
  constant,
  add,
  subtract,
  multiply,
  divide,
  negate,
  less,
  less_equal,
  select,
#define ETUDE_UNARY(f, dx) f,
#define ETUDE_BINARY(f, da, db) f,
#define ETUDE_ROUNDING(f) f,
#include "etude/diff/math_rules.inc"
#undef ETUDE_UNARY
#undef ETUDE_BINARY
#undef ETUDE_ROUNDING
};
// NOLINTEND(readability-identifier-naming)

// Whether a node is computed from others, and from how many numbers.
constexpr int operands_of(ScanOp op) {
  switch (op) {
    case ScanOp::input:
    case ScanOp::constant:
      return 0;
    case ScanOp::add:
    case ScanOp::subtract:
    case ScanOp::multiply:
    case ScanOp::divide:
    case ScanOp::less:
    case ScanOp::less_equal:
    case ScanOp::select:
      return 2;
#define ETUDE_UNARY(f, dx)
#define ETUDE_BINARY(f, da, db) case ScanOp::f:
#define ETUDE_ROUNDING(f)
#include "etude/diff/math_rules.inc"
#undef ETUDE_UNARY
#undef ETUDE_BINARY
#undef ETUDE_ROUNDING
      return 2;
    default:
      return 1;
  }
}
// Whether a derivative passes through a call.
constexpr bool passes_derivative(ScanOp op) {
  switch (op) {
    case ScanOp::less:
    case ScanOp::less_equal:
#define ETUDE_UNARY(f, dx)
#define ETUDE_BINARY(f, da, db)
#define ETUDE_ROUNDING(f) case ScanOp::f:
#include "etude/diff/math_rules.inc"
#undef ETUDE_UNARY
#undef ETUDE_BINARY
#undef ETUDE_ROUNDING
      return false;
    default:
      return operands_of(op) > 0;
  }
}

// Whether lanes are computed one by one: comparisons, and functions of two numbers.
template <ScanOp op, class T>
inline constexpr bool kLaneByLane = kIsLanes<T>&& operands_of(op) == 2 && op > ScanOp::divide;

// The value of a call on numbers, or on lanes where they go together.
template <ScanOp op, class T>
[[gnu::always_inline]] inline T value_of_call(const T& a, const T& b) {
  using namespace scalar_math;  // NOLINT(google-build-using-namespace)
  if constexpr (op == ScanOp::add) return a + b;
  if constexpr (op == ScanOp::subtract) return a - b;
  if constexpr (op == ScanOp::multiply) return a * b;
  if constexpr (op == ScanOp::divide) return a / b;
  if constexpr (op == ScanOp::negate) return -a;
  if constexpr (op == ScanOp::less) return a < b ? T(1) : T(0);
  if constexpr (op == ScanOp::less_equal) return a <= b ? T(1) : T(0);
#define ETUDE_UNARY(f, dx) \
  if constexpr (op == ScanOp::f) return f(a);
#define ETUDE_BINARY(f, da, db) \
  if constexpr (op == ScanOp::f) return f(a, b);
#define ETUDE_ROUNDING(f) ETUDE_UNARY(f, 0)
#include "etude/diff/math_rules.inc"
#undef ETUDE_UNARY
#undef ETUDE_BINARY
#undef ETUDE_ROUNDING
}
// Its derivative by operand `which`, for the value y.
template <ScanOp op, int which, class T>
[[gnu::always_inline]] inline T slope_of_call(const T& a, const T& b, const T& y) {
  using namespace scalar_math;  // NOLINT(google-build-using-namespace)
  [[maybe_unused]] const T& x = a;
  if constexpr (op == ScanOp::multiply) return which == 0 ? b : a;
  if constexpr (op == ScanOp::divide) return which == 0 ? T(1) / b : -y / b;
#define ETUDE_UNARY(f, dx) \
  if constexpr (op == ScanOp::f) return dx;
#define ETUDE_BINARY(f, da, db) \
  if constexpr (op == ScanOp::f) return which == 0 ? T(da) : T(db);
#define ETUDE_ROUNDING(f)
#include "etude/diff/math_rules.inc"
#undef ETUDE_UNARY
#undef ETUDE_BINARY
#undef ETUDE_ROUNDING
}

// Both for numbers and lanes.
template <ScanOp op, class T>
[[gnu::always_inline]] inline T scan_value(const T& a, const T& b) {
  if constexpr (kLaneByLane<op, T>) {
    return T::of([&](std::size_t l) { return value_of_call<op>(a[l], b[l]); });
  } else {
    return value_of_call<op>(a, b);
  }
}
template <ScanOp op, int which, class T>
[[gnu::always_inline]] inline T scan_slope(const T& a, const T& b, const T& y) {
  if constexpr (kLaneByLane<op, T>) {
    return T::of([&](std::size_t l) { return slope_of_call<op, which>(a[l], b[l], y[l]); });
  } else {
    return slope_of_call<op, which>(a, b, y);
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
