// SPDX-License-Identifier: Apache-2.0
// Active scalars: numbers whose arithmetic is recorded while a differential operator runs
// (scalar_operators.h). Functions that take `auto`, templates and functions on Real are
// differentiated by calling them with these.
//
//   Real energy(Real x) { return x * x + sin(x); }
//   gradient(energy, 2.0);
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <numbers>
#include <ostream>
#include <type_traits>

#include "etude/diff/protocol.h"
#include "etude/diff/scalar_math.h"
#include "etude/diff/scalar_tape.h"
#include "etude/version.h"

namespace ETUDE_API etude {

template <class T>
class Active;

namespace internal {

template <class T>
struct IsActive : std::false_type {};
template <class T>
struct IsActive<Active<T>> : std::true_type {};

}  // namespace internal

// A number of type T (float, double, or a scalar of this library: derivatives nest) with its place
// on the tape of the derivative that is being taken. Without one, and after it, a plain number.
// Comparisons look at values; conversions to integers end the dependence.
//
// An expression of several calls becomes one statement of the tape: the result of a call says that
// nobody else holds it, until it is copied, and the next call may then extend its statement. That
// is why operators take numbers by value: what is bound to them without a copy is held by no one
// else.
//
// threads: thread-compatible; records on the tape of the thread that computes.
// cost: 16 bytes for double; an operand that depends on an argument records 12 bytes, a statement
// one more; what does not depend on any records nothing.
template <class T>
class Active {
  using Tape = internal::ScalarTape<T>;

 public:
  using Value = T;

  Active() = default;
  Active(const T& value) : value_(value) {}  // NOLINT(google-explicit-constructor): as a number
  Active(const Active& other)
      : value_(other.value_), slot_(other.slot_), tape_(other.tape_ & kTapeId) {
    other.share();
  }
  // By value: what is computed for the assignment is held by no one else, and stays so.
  Active& operator=(Active other) {
    take(other);
    return *this;
  }
  ~Active() = default;
  template <class N>
  requires(std::is_arithmetic_v<N> && !std::is_same_v<N, T>)
      Active(N value)  // NOLINT(google-explicit-constructor)
      : value_(static_cast<T>(value)) {}

  // An input of the tape of this thread.
  static Active input(const T& value, internal::ScalarTape<T>& tape) {
    return Active(value, tape.append_input(), tape.id());
  }

  // The result of statement `slot` of that tape.
  static Active computed(const T& value, const internal::ScalarTape<T>& tape, std::uint32_t slot) {
    return Active(value, slot, tape.id() | kIsSole);
  }

  const T& value() const { return value_; }
  // Its number on the tape; 0 if it does not depend on the tape's inputs.
  // throws: kInvalidArgument if it depends on those of a tape around it.
  std::uint32_t slot_on(const internal::ScalarTape<T>& tape) const {
    const std::uint32_t id = tape_ & kTapeId;
    if (id == tape.id()) return slot_;
    if (id != 0) [[unlikely]]
      tape.require_ended(id);
    return 0;
  }
  // Whether it depends on an argument of the derivative that this thread is taking.
  bool varies() const {
    const Tape* tape = Tape::current();
    return tape != nullptr && slot_on(*tape) != 0;
  }

  template <std::integral N>
  explicit operator N() const {
    return static_cast<N>(value_);
  }
  explicit operator bool() const { return value_ != T(0); }

  friend Active operator+(Active a, Active b) {
    return record(a.value_ + b.value_, a, T(1), b, T(1));
  }
  friend Active operator-(Active a, Active b) {
    return record(a.value_ - b.value_, a, T(1), b, T(-1));
  }
  friend Active operator*(Active a, Active b) {
    return record(a.value_ * b.value_, a, b.value_, b, a.value_);
  }
  friend Active operator/(Active a, Active b) {
    const T y = a.value_ / b.value_;
    return record(y, a, T(1) / b.value_, b, -y / b.value_);
  }
  friend Active operator-(Active a) { return record(-a.value_, a, T(-1)); }
  friend Active operator+(const Active& a) { return a; }

  Active& operator+=(Active b) { return take(record(value_ + b.value_, *this, T(1), b, T(1))); }
  Active& operator-=(Active b) { return take(record(value_ - b.value_, *this, T(1), b, T(-1))); }
  // A running product does not join: all terms so far would be multiplied each time.
  Active& operator*=(const Active& b) { return *this = Active(*this) * b; }
  Active& operator/=(const Active& b) { return *this = Active(*this) / b; }
  Active& operator++() { return *this += Active(T(1)); }
  Active& operator--() { return *this -= Active(T(1)); }

  friend bool operator==(const Active& a, const Active& b) { return a.value_ == b.value_; }
  friend bool operator<(const Active& a, const Active& b) { return a.value_ < b.value_; }
  friend bool operator>(const Active& a, const Active& b) { return a.value_ > b.value_; }
  friend bool operator<=(const Active& a, const Active& b) { return a.value_ <= b.value_; }
  friend bool operator>=(const Active& a, const Active& b) { return a.value_ >= b.value_; }

#define ETUDE_UNARY(f, dx)                                                            \
  friend Active f(Active at) {                                                        \
    using namespace internal::scalar_math; /* NOLINT(google-build-using-namespace) */ \
    const T& x = at.value_;                                                           \
    const T y = f(x);                                                                 \
    if (!at.varies()) return y;                                                       \
    return record(y, at, dx);                                                         \
  }
#define ETUDE_BINARY(f, da, db)                                                       \
  friend Active f(Active at, Active with) {                                           \
    using namespace internal::scalar_math; /* NOLINT(google-build-using-namespace) */ \
    const T &a = at.value_, &b = with.value_;                                         \
    const T y = f(a, b);                                                              \
    const bool first = at.varies(), second = with.varies();                           \
    if (!first && !second) return y;                                                  \
    return record(y, at, first ? T(da) : T(0), with, second ? T(db) : T(0));          \
  }
#define ETUDE_ROUNDING(f)                                                             \
  friend Active f(const Active& at) {                                                 \
    using namespace internal::scalar_math; /* NOLINT(google-build-using-namespace) */ \
    return Active(T(f(at.value_)));                                                   \
  }
#include "etude/diff/math_rules.inc"
#undef ETUDE_UNARY
#undef ETUDE_BINARY
#undef ETUDE_ROUNDING

  friend Active fma(const Active& a, const Active& b, Active c) { return a * b + c; }
  friend Active lerp(const Active& a, const Active& b, const Active& t) { return a + t * (b - a); }
  friend bool isnan(const Active& x) {
    using namespace internal::scalar_math;  // NOLINT(google-build-using-namespace)
    return isnan(x.value_);
  }
  friend bool isfinite(const Active& x) {
    using namespace internal::scalar_math;  // NOLINT(google-build-using-namespace)
    return isfinite(x.value_);
  }

  friend bool is_exact_zero(const Active& x) {
    using internal::scalar_math::is_exact_zero;
    return is_exact_zero(x.value_) && !x.varies();
  }

  friend bool is_exact_one(const Active& x) {
    using internal::scalar_math::is_exact_one;
    return is_exact_one(x.value_) && !x.varies();
  }

  friend std::ostream& operator<<(std::ostream& out, const Active& x) { return out << x.value_; }

 private:
  // tape_ is the number of a tape, and this bit where nobody else holds the slot, unless the tape
  // has sealed it.
  static constexpr std::uint32_t kIsSole = 0x80000000u, kTapeId = kIsSole - 1;

  Active(const T& value, std::uint32_t slot, std::uint32_t tape)
      : value_(value), slot_(slot), tape_(tape) {}

  bool is_sole() const { return (tape_ & kIsSole) != 0; }
  // Another number has the same slot from now on.
  void share() const {
    if (!is_sole()) return;
    Tape* tape = Tape::current();
    if (tape != nullptr && tape->id() == (tape_ & kTapeId)) tape->seal(slot_);
  }
  Active& take(const Active& computed) {
    value_ = computed.value_;
    slot_ = computed.slot_;
    tape_ = computed.tape_;
    return *this;
  }

  [[gnu::always_inline]] static Active record(const T& value, const Active& a, const T& da) {
    Tape* tape = Tape::current();
    if (tape == nullptr) return value;
    return record_one(*tape, value, a, a.slot_on(*tape), da);
  }
  [[gnu::always_inline]] static Active record_one(Tape& tape, const T& value, const Active& a,
                                                  std::uint32_t slot, const T& da) {
    if (slot == 0) return value;
    return Active(value, a.is_sole() ? tape.join(da, slot) : tape.append(da, slot),
                  tape.id() | kIsSole);
  }
  [[gnu::always_inline]] static Active record(const T& value, const Active& a, const T& da,
                                              const Active& b, const T& db) {
    Tape* tape = Tape::current();
    if (tape == nullptr) return value;
    const std::uint32_t first = a.slot_on(*tape), second = b.slot_on(*tape);
    if (second == 0) return record_one(*tape, value, a, first, da);
    if (first == 0) return record_one(*tape, value, b, second, db);
    const bool owned_a = a.is_sole(), owned_b = b.is_sole();
    return Active(value,
                  owned_a || owned_b ? tape->join(da, first, owned_a, db, second, owned_b)
                                     : tape->append(da, first, db, second),
                  tape->id() | kIsSole);
  }

  T value_{};
  std::uint32_t slot_ = 0, tape_ = 0;
};

// A number that plain functions and structs use to be differentiable without templates.
using Real = Active<double>;

// x without its dependence: a constant to the derivative that is being taken.
template <class T>
Active<T> stop_gradient(const Active<T>& x) {
  return Active<T>(x.value());
}
template <std::floating_point T>
constexpr T stop_gradient(T x) {
  return x;
}

// The plain number behind a scalar.
template <std::floating_point T>
constexpr T value_of(T x) {
  return x;
}
template <class T>
auto value_of(const Active<T>& x) {
  return value_of(x.value());
}

template <class T>
struct DifferentiableTraits<Active<T>> {
  using Tangent = Active<T>;
  static Active<T> zero(const Active<T>&) { return {}; }
  static void move(Active<T>& x, const Active<T>& by) { x += by; }
};

}  // namespace etude

template <class T>
class std::numeric_limits<etude::Active<T>> : public std::numeric_limits<T> {};
