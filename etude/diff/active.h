// SPDX-License-Identifier: Apache-2.0
// Active scalars: numbers whose arithmetic is recorded while a differential operator runs
// (scalar_operators.h). An operator differentiates a function by calling it with active scalars.
// The function has `auto` parameters, is a template, or takes Real.
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
#include <utility>

#include "etude/base/error.h"
#include "etude/diff/internal/inlining.h"
#include "etude/diff/internal/tape/active_calls.h"
#include "etude/diff/internal/tape/scalar_tape.h"
#include "etude/diff/protocol.h"
#include "etude/diff/scalar_math.h"
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

// A number of type T and its slot on the tape of the derivative that is being computed. T is float,
// double or, for nested derivatives, another scalar of this library. An Active without a slot is a
// plain number. After the derivative is computed, every Active is a plain number. Comparisons use
// values only. A conversion to an integer ends the dependence on the inputs.
//
// The result of a call owns its slot on the tape until the result is copied. A call may write its
// own result to the owned slot of an expiring operand (internal/tape/slots.h). Operators therefore
// have overloads for rvalues.
//
// threads: confined to the thread that computes the derivative; arithmetic on another thread is an
// error. During a derivative, only one thread at a time may use a number, since even a copy writes
// to its source.
// cost: an Active<double> has 16 bytes. A call that depends on an argument records 32 bytes. Other
// calls, and sums with a constant, record nothing. `s += x * y` records one call.
template <class T>
class Active {
  using Tape = internal::ScalarTape<T>;
  using Calls = internal::ActiveCalls<T>;

 public:
  using Value = T;

  Active() = default;
  Active(const T& value) : value_(value) {}
  Active(const Active& other) = default;
  Active(Active&& other) noexcept = default;
  // Takes `other` by value, so that an assigned temporary keeps the ownership of its slot.
  Active& operator=(Active other) { return take(std::move(other)); }
  ~Active() = default;
  template <internal::PlainFor<T> N>
  requires(!std::is_same_v<N, T>) Active(const N& value) : value_(static_cast<T>(value)) {}

  // Makes an input of the tape.
  static Active input(const T& value, internal::ScalarTape<T>& tape) {
    return input(value, tape, tape.new_input());
  }

  static Active input(const T& value, const internal::ScalarTape<T>& tape, uint32_t slot) {
    return Active(value, HeldSlot::shared(tape.key(), slot, tape.writes(slot)));
  }
  // Makes the result of a call. The result owns `slot`.
  static Active computed(const T& value, const internal::ScalarTape<T>& tape, uint32_t slot) {
    return Active(value,
                  HeldSlot::of_result(tape.key() | internal::kOwnsSlot | slot, tape.writes(slot)));
  }

  const T& value() const { return value_; }
  // The slot on the tape; 0 if the number does not depend on the tape's inputs.
  // throws: kInvalidArgument if the number depends on inputs of an outer tape.
  uint32_t slot_on(const internal::ScalarTape<T>& tape) const {
    if (Calls::on(place_.bits(), tape.key())) {
      tape.check_read(place_);
      return place_.slot();
    }
    Calls::check_ended(&tape, place_.bits());
    return 0;
  }
  // Whether the number depends on an argument of a derivative that encloses the derivative of
  // `tape`.
  bool varies_around(const internal::ScalarTape<T>& tape) const {
    return tape.is_around(place_.key());
  }
  // Whether the number depends on an argument of the derivative that this thread is computing.
  bool varies() const {
    const Tape* tape = Tape::current();
    return tape != nullptr && slot_on(*tape) != 0;
  }

  template <std::integral N>
  explicit operator N() const {
    note_end("a cast to an integer");
    return static_cast<N>(value_);
  }
  explicit operator bool() const { return value_ != T(0); }

  // Both operands may be the same number, and an rvalue operand releases its slot. The slot of the
  // lvalue operand is therefore read first.
#define ETUDE_OPERATOR(op, call)                                              \
  ETUDE_INLINED friend Active operator op(const Active& a, const Active& b) { \
    return call(a.value_, lent(a), b.value_, lent(b));                        \
  }                                                                           \
  ETUDE_INLINED friend Active operator op(const Active& a, Active&& b) {      \
    const SlotOperand at = lent(a);                                           \
    return call(a.value_, at, b.value_, given(b));                            \
  }                                                                           \
  ETUDE_INLINED friend Active operator op(Active&& a, const Active& b) {      \
    const SlotOperand at = lent(b);                                           \
    return call(a.value_, given(a), b.value_, at);                            \
  }                                                                           \
  ETUDE_INLINED friend Active operator op(Active&& a, Active&& b) {           \
    if (&a == &b) return std::as_const(a) op std::as_const(b);                \
    return call(a.value_, given(a), b.value_, given(b));                      \
  }                                                                           \
  ETUDE_INLINED Active& operator op##=(const Active& b) {                     \
    return take(call(value_, place_.replaced(), b.value_, lent(b)));          \
  }                                                                           \
  ETUDE_INLINED Active& operator op##=(Active&& b) {                          \
    if (&b == this) return *this op## = std::as_const(b);                     \
    return take(call(value_, place_.replaced(), b.value_, given(b)));         \
  }
  ETUDE_OPERATOR(+, sum)
  ETUDE_OPERATOR(-, difference)
  ETUDE_OPERATOR(*, product)
  ETUDE_OPERATOR(/, quotient)
#undef ETUDE_OPERATOR
  ETUDE_INLINED friend Active operator-(const Active& a) {
    return record(-a.value_, lent(a), T(-1));
  }
  ETUDE_INLINED friend Active operator-(Active&& a) { return record(-a.value_, given(a), T(-1)); }
  ETUDE_INLINED friend Active operator+(const Active& a) { return a; }

  // Operations with a plain number. Only the other operand can vary.
#define ETUDE_WITH_PLAIN(A, give, keep)                                      \
  template <internal::PlainFor<T> N>                                         \
  ETUDE_INLINED friend Active operator+(A a, const N& b) {                   \
    return moved(a.value_ + static_cast<T>(b), keep(a.place_));              \
  }                                                                          \
  template <internal::PlainFor<T> N>                                         \
  ETUDE_INLINED friend Active operator+(const N& a, A b) {                   \
    return moved(static_cast<T>(a) + b.value_, keep(b.place_));              \
  }                                                                          \
  template <internal::PlainFor<T> N>                                         \
  ETUDE_INLINED friend Active operator-(A a, const N& b) {                   \
    return moved(a.value_ - static_cast<T>(b), keep(a.place_));              \
  }                                                                          \
  template <internal::PlainFor<T> N>                                         \
  ETUDE_INLINED friend Active operator-(const N& a, A b) {                   \
    return record(static_cast<T>(a) - b.value_, give(b), T(-1));             \
  }                                                                          \
  template <internal::PlainFor<T> N>                                         \
  ETUDE_INLINED friend Active operator*(A a, const N& b) {                   \
    return record(a.value_ * static_cast<T>(b), give(a), static_cast<T>(b)); \
  }                                                                          \
  template <internal::PlainFor<T> N>                                         \
  ETUDE_INLINED friend Active operator*(const N& a, A b) {                   \
    return record(static_cast<T>(a) * b.value_, give(b), static_cast<T>(a)); \
  }                                                                          \
  template <internal::PlainFor<T> N>                                         \
  ETUDE_INLINED friend Active operator/(A a, const N& b) {                   \
    const T by = static_cast<T>(b);                                          \
    return record(a.value_ / by, give(a), T(1) / by);                        \
  }                                                                          \
  template <internal::PlainFor<T> N>                                         \
  ETUDE_INLINED friend Active operator/(const N& a, A b) {                   \
    const T y = static_cast<T>(a) / b.value_, partial = -y / b.value_;       \
    return record(y, give(b), partial);                                      \
  }
  ETUDE_WITH_PLAIN(const Active&, lent, HeldSlot)
  ETUDE_WITH_PLAIN(Active&&, given, std::move)
#undef ETUDE_WITH_PLAIN

  Active& operator++() { return *this += Active(T(1)); }
  Active& operator--() { return *this -= Active(T(1)); }
  Active operator++(int) {
    const Active was = *this;
    ++*this;
    return was;
  }
  Active operator--(int) {
    const Active was = *this;
    --*this;
    return was;
  }

  friend bool operator==(const Active& a, const Active& b) { return a.value_ == b.value_; }
  friend bool operator<(const Active& a, const Active& b) { return a.value_ < b.value_; }
  friend bool operator>(const Active& a, const Active& b) { return a.value_ > b.value_; }
  friend bool operator<=(const Active& a, const Active& b) { return a.value_ <= b.value_; }
  friend bool operator>=(const Active& a, const Active& b) { return a.value_ >= b.value_; }

#define ETUDE_UNARY_OF(f, A, give, dx)                                                \
  friend Active f(A at) {                                                             \
    using namespace internal::scalar_math; /* NOLINT(google-build-using-namespace) */ \
    const T& x = at.value_;                                                           \
    const T y = f(x);                                                                 \
    if (!at.varies()) return y;                                                       \
    return record(y, give(at), dx);                                                   \
  }
#define ETUDE_UNARY(fn, f, dx)               \
  ETUDE_UNARY_OF(f, const Active&, lent, dx) \
  ETUDE_UNARY_OF(f, Active&&, given, dx)
#define ETUDE_BINARY(fn, f, da, db)                                                   \
  friend Active f(Active at, Active with) {                                           \
    using namespace internal::scalar_math; /* NOLINT(google-build-using-namespace) */ \
    const T &a = at.value_, &b = with.value_;                                         \
    const T y = f(a, b);                                                              \
    const bool first = at.varies(), second = with.varies();                           \
    if (!first && !second) return y;                                                  \
    const T of_a = first ? T(da) : T(0), of_b = second ? T(db) : T(0);                \
    return record(y, given(at), of_a, given(with), of_b);                             \
  }
#define ETUDE_ROUNDING(fn, f)                                                         \
  friend Active f(const Active& at) {                                                 \
    using namespace internal::scalar_math; /* NOLINT(google-build-using-namespace) */ \
    at.note_end(#f);                                                                  \
    return Active(T(f(at.value_)));                                                   \
  }
#include "etude/base/scalars/scalar_functions.inc"
#undef ETUDE_UNARY_OF

  // fma and lerp compute the value with the function for T. fma rounds once.
  friend Active fma(const Active& a, const Active& b, const Active& c) {
    using namespace internal::scalar_math;  // NOLINT(google-build-using-namespace)
    Active y = a * b + c;
    y.value_ = fma(a.value_, b.value_, c.value_);
    return y;
  }
  friend Active lerp(const Active& a, const Active& b, const Active& t) {
    using namespace internal::scalar_math;  // NOLINT(google-build-using-namespace)
    Active y = a + t * (b - a);
    y.value_ = lerp(a.value_, b.value_, t.value_);
    return y;
  }
#define ETUDE_QUESTION(f)                                                             \
  friend bool f(const Active& x) {                                                    \
    using namespace internal::scalar_math; /* NOLINT(google-build-using-namespace) */ \
    return f(x.value_);                                                               \
  }
  ETUDE_QUESTION(isnan)
  ETUDE_QUESTION(isinf)
  ETUDE_QUESTION(isfinite)
  ETUDE_QUESTION(signbit)
#undef ETUDE_QUESTION

  friend Active strong_product(const Active& a, const Active& b) {
    using internal::scalar_math::strong_product;
    return record(strong_product(a.value_, b.value_), lent(a), b.value_, lent(b), a.value_);
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
  using HeldSlot = internal::HeldSlot;
  using SlotOperand = internal::SlotOperand;

  Active(const T& value, HeldSlot place) : value_(value), place_(std::move(place)) {}

  // Notes that the call `by` ended the dependence of this number. The warning about a result that
  // does not depend on the arguments names the call.
  void note_end(const char* by) const {
    if (varies()) Tape::current()->note_end(by);
  }
  ETUDE_INLINED Active& take(Active&& computed) {
    value_ = std::move(computed.value_);
    place_ = std::move(computed.place_);
    return *this;
  }

  ETUDE_INLINED static SlotOperand lent(const Active& a) { return a.place_.lent(); }
  ETUDE_INLINED static SlotOperand given(Active& a) { return a.place_.given(); }

  // Returns a result with this place on the tape. 0: the result does not vary.
  ETUDE_INLINED static Active result(const T& value, uint64_t place) {
    internal::SlotWrites writes;
    if constexpr (internal::kChecksSlots) {
      if (place != 0) writes = Tape::current()->writes(Calls::slot_of(place));
    }
    return Active(value, HeldSlot::of_result(place, writes));
  }
  // Records a call and returns its result. Each operand that may vary has a partial derivative.
  ETUDE_INLINED static Active record(const T& value, SlotOperand a, const T& da) {
    return result(value, Calls::place_of(Calls::checked(a), da));
  }
  ETUDE_INLINED static Active record(const T& value, SlotOperand a, const T& da, SlotOperand b,
                                     const T& db) {
    const uint64_t first = Calls::checked(a), second = Calls::checked(b);
    return result(value, Calls::place_of(first, da, second, db));
  }
  // Returns a + constant. The result takes over the slot of `a` and has another value.
  ETUDE_INLINED static Active moved(const T& value, HeldSlot a) {
    if (Calls::on(a.bits())) [[likely]] {
      Tape::current()->check_read(a);
      return Active(value, std::move(a));
    }
    Calls::check_ended(Tape::current(), a.bits());
    return value;
  }
  ETUDE_INLINED static Active product(const T& x, SlotOperand a, const T& y, SlotOperand b) {
    return record(x * y, a, y, b, x);
  }
  ETUDE_INLINED static Active quotient(const T& x, SlotOperand a, const T& y, SlotOperand b) {
    const T value = x / y;
    return record(value, a, T(1) / y, b, -value / y);
  }
  ETUDE_INLINED static Active sum(const T& x, SlotOperand a, const T& y, SlotOperand b) {
    const T value = x + y;
    const uint64_t first = Calls::checked(a), second = Calls::checked(b);
    return result(value, Calls::place_of_sum(first, second));
  }
  ETUDE_INLINED static Active difference(const T& x, SlotOperand a, const T& y, SlotOperand b) {
    const T value = x - y;
    const uint64_t first = Calls::checked(a), second = Calls::checked(b);
    return result(value, Calls::place_of_difference(first, second));
  }

  T value_{};
  HeldSlot place_;
};

// A number type that makes plain functions and structs differentiable without templates.
using Real = Active<double>;

// Returns x without its dependence: a constant for this derivative and for all outer derivatives.
template <class T>
Active<T> stop_gradient(const Active<T>& x) {
  return Active<T>(stop_gradient(x.value()));
}

// The plain value of a scalar.
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
