// SPDX-License-Identifier: Apache-2.0
// CheckedInt: the arithmetic of type rules on sizes and attributes, which are any 64-bit numbers.
// An operation whose result does not fit throws, where int64_t would be undefined.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "etude/base/error.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// A value. An expression is checked if its first operand is a CheckedInt:
//
//   const int64_t room = (CheckedInt(axis.input) + axis.before + axis.after - reach).value();
//
// throws: kInvalidArgument, with both numbers, if a result does not fit in 64 bits.
class CheckedInt {
 public:
  constexpr CheckedInt(int64_t value) noexcept : value_(value) {}
  constexpr int64_t value() const noexcept { return value_; }

  friend CheckedInt operator+(CheckedInt a, CheckedInt b) {
    int64_t out = 0;
    if (__builtin_add_overflow(a.value_, b.value_, &out)) refuse(a, '+', b);
    return out;
  }
  friend CheckedInt operator-(CheckedInt a, CheckedInt b) {
    int64_t out = 0;
    if (__builtin_sub_overflow(a.value_, b.value_, &out)) refuse(a, '-', b);
    return out;
  }
  friend CheckedInt operator*(CheckedInt a, CheckedInt b) {
    int64_t out = 0;
    if (__builtin_mul_overflow(a.value_, b.value_, &out)) refuse(a, '*', b);
    return out;
  }
  friend CheckedInt operator/(CheckedInt a, CheckedInt b) {
    if (b.value_ == 0 || (a.value_ == INT64_MIN && b.value_ == -1)) refuse(a, '/', b);
    return a.value_ / b.value_;
  }
  friend CheckedInt operator%(CheckedInt a, CheckedInt b) {
    if (b.value_ == 0) refuse(a, '%', b);
    return b.value_ == -1 ? 0 : a.value_ % b.value_;
  }
  CheckedInt operator-() const { return CheckedInt(0) - *this; }
  CheckedInt& operator+=(CheckedInt b) { return *this = *this + b; }
  CheckedInt& operator-=(CheckedInt b) { return *this = *this - b; }
  CheckedInt& operator*=(CheckedInt b) { return *this = *this * b; }
  friend constexpr auto operator<=>(CheckedInt, CheckedInt) noexcept = default;

 private:
  [[noreturn, gnu::cold, gnu::noinline]] static void refuse(CheckedInt a, char sign, CheckedInt b) {
    throw Error(ErrorCode::kInvalidArgument,
                "the sizes and attributes of this call are too large: " + std::to_string(a.value_) +
                    " " + sign + " " + std::to_string(b.value_) +
                    " does not fit in 64 bits. Use smaller ones");
  }

  int64_t value_;
};

}  // namespace internal
}  // namespace etude
