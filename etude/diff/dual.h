// SPDX-License-Identifier: Apache-2.0
// Dual numbers: a value and its derivatives along some directions, carried through arithmetic.
// Forward mode (scalar_operators.h) calls functions with dual numbers.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <ostream>
#include <type_traits>
#include <utility>

#include "etude/diff/internal/inlining.h"
#include "etude/diff/protocol.h"
#include "etude/diff/scalar_math.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// A number of type T and its derivatives along n directions. Tag distinguishes nested derivatives.
// Numbers with different tags do not mix, except that T may be a Dual with another tag.
//
// threads: thread-compatible.
// cost: a derivative of 0 costs as much as any other. Each call also checks for NaN, since a
// derivative of 0 times an infinite partial is 0, as in reverse mode.
template <class T, std::size_t n, class Tag>
class Dual {
 public:
  using Value = T;
  static constexpr std::size_t kDirections = n;

  Dual() = default;
  constexpr Dual(const T& value) : value_(value) {}
  constexpr Dual(const T& value, const std::array<T, n>& derivatives)
      : value_(value), derivatives_(derivatives) {}
  template <internal::PlainFor<T> N>
  requires(!std::is_same_v<N, T>) constexpr Dual(const N& value) : value_(static_cast<T>(value)) {}

  // A number whose derivative is 1 along direction k and 0 along the others.
  static constexpr Dual unit(const T& value, std::size_t k) {
    return along(value, [&](std::size_t i) { return T(i == k ? 1 : 0); });
  }

  constexpr const T& value() const { return value_; }
  constexpr const std::array<T, n>& derivatives() const { return derivatives_; }

  template <std::integral N>
  constexpr explicit operator N() const {
    return static_cast<N>(value_);
  }
  constexpr explicit operator bool() const { return value_ != T(0); }

  friend constexpr Dual operator+(const Dual& a, const Dual& b) {
    return along(a.value_ + b.value_,
                 [&](std::size_t i) { return a.derivatives_[i] + b.derivatives_[i]; });
  }
  friend constexpr Dual operator-(const Dual& a, const Dual& b) {
    return along(a.value_ - b.value_,
                 [&](std::size_t i) { return a.derivatives_[i] - b.derivatives_[i]; });
  }
  ETUDE_INLINED friend constexpr Dual operator*(const Dual& a, const Dual& b) {
    return of_two(a.value_ * b.value_, a, b.value_, b, a.value_);
  }
  ETUDE_INLINED friend constexpr Dual operator/(const Dual& a, const Dual& b) {
    const T y = a.value_ / b.value_;
    return of_two(y, a, T(1) / b.value_, b, -y / b.value_);
  }
  friend constexpr Dual operator-(const Dual& a) {
    return along(-a.value_, [&](std::size_t i) { return -a.derivatives_[i]; });
  }
  friend constexpr Dual operator+(const Dual& a) { return a; }

  // Operations with plain numbers. A plain number has no derivative.
  template <internal::PlainFor<T> N>
  friend constexpr Dual operator+(const Dual& a, const N& b) {
    return Dual(a.value_ + static_cast<T>(b), a.derivatives_);
  }
  template <internal::PlainFor<T> N>
  friend constexpr Dual operator+(const N& a, const Dual& b) {
    return Dual(static_cast<T>(a) + b.value_, b.derivatives_);
  }
  template <internal::PlainFor<T> N>
  friend constexpr Dual operator-(const Dual& a, const N& b) {
    return Dual(a.value_ - static_cast<T>(b), a.derivatives_);
  }
  template <internal::PlainFor<T> N>
  friend constexpr Dual operator-(const N& a, const Dual& b) {
    return along(static_cast<T>(a) - b.value_, [&](std::size_t i) { return -b.derivatives_[i]; });
  }
  template <internal::PlainFor<T> N>
  ETUDE_INLINED friend constexpr Dual operator*(const Dual& a, const N& b) {
    const T by = static_cast<T>(b);
    return of_one(a.value_ * by, a, by);
  }
  template <internal::PlainFor<T> N>
  ETUDE_INLINED friend constexpr Dual operator*(const N& a, const Dual& b) {
    return b * a;
  }
  template <internal::PlainFor<T> N>
  ETUDE_INLINED friend constexpr Dual operator/(const Dual& a, const N& b) {
    const T by = static_cast<T>(b);
    return of_one(a.value_ / by, a, T(1) / by);
  }
  template <internal::PlainFor<T> N>
  ETUDE_INLINED friend constexpr Dual operator/(const N& a, const Dual& b) {
    const T y = static_cast<T>(a) / b.value_;
    return of_one(y, b, -y / b.value_);
  }

  constexpr Dual& operator+=(const Dual& b) { return *this = *this + b; }
  constexpr Dual& operator-=(const Dual& b) { return *this = *this - b; }
  constexpr Dual& operator*=(const Dual& b) { return *this = *this * b; }
  constexpr Dual& operator/=(const Dual& b) { return *this = *this / b; }
  constexpr Dual& operator++() { return *this += Dual(T(1)); }
  constexpr Dual& operator--() { return *this -= Dual(T(1)); }
  constexpr Dual operator++(int) { return std::exchange(*this, *this + T(1)); }
  constexpr Dual operator--(int) { return std::exchange(*this, *this - T(1)); }

  friend constexpr bool operator==(const Dual& a, const Dual& b) { return a.value_ == b.value_; }
  friend constexpr bool operator<(const Dual& a, const Dual& b) { return a.value_ < b.value_; }
  friend constexpr bool operator>(const Dual& a, const Dual& b) { return a.value_ > b.value_; }
  friend constexpr bool operator<=(const Dual& a, const Dual& b) { return a.value_ <= b.value_; }
  friend constexpr bool operator>=(const Dual& a, const Dual& b) { return a.value_ >= b.value_; }

#define ETUDE_UNARY(fn, f, dx)                                                        \
  friend Dual f(const Dual& at) {                                                     \
    using namespace internal::scalar_math; /* NOLINT(google-build-using-namespace) */ \
    const T& x = at.value_;                                                           \
    const T y = f(x);                                                                 \
    return of_one(y, at, dx);                                                         \
  }
#define ETUDE_BINARY(fn, f, da, db)                                                   \
  friend Dual f(const Dual& at, const Dual& with) {                                   \
    using namespace internal::scalar_math; /* NOLINT(google-build-using-namespace) */ \
    const T &a = at.value_, &b = with.value_;                                         \
    const T y = f(a, b);                                                              \
    return of_two(y, at, (da), with, (db));                                           \
  }
#define ETUDE_ROUNDING(fn, f)                                                         \
  friend Dual f(const Dual& at) {                                                     \
    using namespace internal::scalar_math; /* NOLINT(google-build-using-namespace) */ \
    return Dual(T(f(at.value_)));                                                     \
  }
#include "etude/base/scalars/scalar_functions.inc"

  // fma and lerp compute the value with the function for T. fma rounds once.
  friend Dual fma(const Dual& a, const Dual& b, const Dual& c) {
    using namespace internal::scalar_math;  // NOLINT(google-build-using-namespace)
    Dual y = a * b + c;
    y.value_ = fma(a.value_, b.value_, c.value_);
    return y;
  }
  friend Dual lerp(const Dual& a, const Dual& b, const Dual& t) {
    using namespace internal::scalar_math;  // NOLINT(google-build-using-namespace)
    Dual y = a + t * (b - a);
    y.value_ = lerp(a.value_, b.value_, t.value_);
    return y;
  }
#define ETUDE_QUESTION(f)                                                             \
  friend bool f(const Dual& x) {                                                      \
    using namespace internal::scalar_math; /* NOLINT(google-build-using-namespace) */ \
    return f(x.value_);                                                               \
  }
  ETUDE_QUESTION(isnan)
  ETUDE_QUESTION(isinf)
  ETUDE_QUESTION(isfinite)
  ETUDE_QUESTION(signbit)
#undef ETUDE_QUESTION

  friend constexpr Dual strong_product(const Dual& a, const Dual& b) {
    using internal::scalar_math::strong_product;
    return of_two(strong_product(a.value_, b.value_), a, b.value_, b, a.value_);
  }
  friend constexpr bool is_exact_zero(const Dual& x) {
    using internal::scalar_math::is_exact_zero;
    for (const T& d : x.derivatives_) {
      if (!is_exact_zero(d)) return false;
    }
    return is_exact_zero(x.value_);
  }

  friend constexpr bool is_exact_one(const Dual& x) {
    using internal::scalar_math::is_exact_one;
    using internal::scalar_math::is_exact_zero;
    for (const T& d : x.derivatives_) {
      if (!is_exact_zero(d)) return false;
    }
    return is_exact_one(x.value_);
  }

  friend std::ostream& operator<<(std::ostream& out, const Dual& x) { return out << x.value_; }

 private:
  // Returns `value` with derivative fn(i) along each direction i. There is no loop, so that all
  // values stay in registers.
  template <class Fn>
  static constexpr Dual along(const T& value, const Fn& fn) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return Dual(value, std::array<T, n>{fn(I)...});
    }
    (std::make_index_sequence<n>());
  }
  // The result of a call with one or two operands, for the given partials.
  ETUDE_INLINED static constexpr Dual of_one(const T& value, const Dual& a, const T& da) {
    if constexpr (kChecksPartials) {
      if (are_known(a) || is_plain(da)) [[likely]] {
        return along(value, [&](std::size_t i) {
          const T& d = a.derivatives_[i];
          return is_known_zero(d) ? T(0) : d * da;
        });
      }
      return with_care(value, a, da);
    } else if constexpr (std::is_floating_point_v<T>) {
      return along(value, [&](std::size_t i) { return product(a.derivatives_[i], da); });
    } else {
      return nested(value, a, da);
    }
  }
  ETUDE_INLINED static constexpr Dual of_two(const T& value, const Dual& a, const T& da,
                                             const Dual& b, const T& db) {
    if constexpr (kChecksPartials) {
      if (is_plain(da * db)) [[likely]] {
        return along(
            value, [&](std::size_t i) { return a.derivatives_[i] * da + b.derivatives_[i] * db; });
      }
      return with_care(value, a, da, b, db);
    } else if constexpr (std::is_floating_point_v<T>) {
      return along(value, [&](std::size_t i) {
        return sum_of_products(a.derivatives_[i], da, b.derivatives_[i], db);
      });
    } else {
      return nested(value, a, da, b, db);
    }
  }
  // Not inlined. In nested derivatives a product consists of several products of the level below,
  // so inlined code would grow exponentially with the depth.
  static constexpr Dual nested(const T& value, const Dual& a, const T& da) {
    using internal::scalar_math::strong_product;
    return along(value, [&](std::size_t i) { return strong_product(a.derivatives_[i], da); });
  }
  static constexpr Dual nested(const T& value, const Dual& a, const T& da, const Dual& b,
                               const T& db) {
    using internal::scalar_math::strong_product;
    return along(value, [&](std::size_t i) {
      return strong_product(a.derivatives_[i], da) + strong_product(b.derivatives_[i], db);
    });
  }
  // Whether to test the partials with is_plain() instead of testing the products for NaN. This is
  // cheaper if there are more directions than partials. With a finite, non-zero partial, a strong
  // product equals the plain product. One check covers two partials, since their product is finite
  // and non-zero only if both partials are.
  static constexpr bool kChecksPartials = std::is_floating_point_v<T> && (n > 2);
  ETUDE_INLINED static constexpr bool is_plain(const T& partial) {
    return internal::scalar_math::is_plain_factor(partial);
  }
  // Not inlined, and with parameters by value, so that the fast path keeps its operands in
  // registers.
  [[gnu::cold, gnu::noinline]] static constexpr Dual with_care(T value, Dual a, T da) {
    return along(value, [&](std::size_t i) { return product(a.derivatives_[i], da); });
  }
  [[gnu::cold, gnu::noinline]] static constexpr Dual with_care(T value, Dual a, T da, Dual b,
                                                               T db) {
    return along(value, [&](std::size_t i) {
      return sum_of_products(a.derivatives_[i], da, b.derivatives_[i], db);
    });
  }
  // Strong products of plain numbers. A plain product is computed first. If it is NaN, a factor of
  // 0 may be the cause, and the strong product is computed.
  ETUDE_INLINED static constexpr T product(const T& d, const T& partial) {
    if (is_known_zero(d)) return T(0);
    const T y = d * partial;
    if (is_known(d) || is_known(partial) || !is_nan(y)) return y;
    return internal::scalar_math::strong_product(d, partial);
  }
  ETUDE_INLINED static constexpr T sum_of_products(const T& a, const T& da, const T& b,
                                                   const T& db) {
    using internal::scalar_math::strong_product;
    if (is_known_zero(a)) return product(b, db);
    if (is_known_zero(b)) return product(a, da);
    const T y = a * da + b * db;
    const bool plain = (is_known(a) || is_known(da)) && (is_known(b) || is_known(db));
    if (plain || !is_nan(y)) return y;
    return strong_product(a, da) + strong_product(b, db);
  }
  ETUDE_INLINED static constexpr bool is_nan(const T& x) {
    return __builtin_expect_with_probability(x != x, 0, 1.0) != 0;
  }
  // Whether x is known at compile time to be 0, so that every product is 0.
  ETUDE_INLINED static constexpr bool is_known_zero(const T& x) {
    if constexpr (n == 1) return false;
    return __builtin_constant_p(x) && x == T(0);
  }
  // Whether x is known at compile time to be finite and non-zero, so that its product with a number
  // is not NaN.
  ETUDE_INLINED static constexpr bool is_known(const T& x) {
    return __builtin_constant_p(x) && internal::scalar_math::is_plain_factor(x);
  }
  // Whether each derivative is known at compile time to be 0, or to be finite and non-zero. This
  // holds for the derivatives of an argument. No partial is then checked.
  ETUDE_INLINED static constexpr bool are_known(const Dual& a) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return ((is_known_zero(a.derivatives_[I]) || is_known(a.derivatives_[I])) && ...);
    }
    (std::make_index_sequence<n>());
  }

  T value_{};
  std::array<T, n> derivatives_{};
};

// Returns x without its derivatives: a constant for this derivative and for all outer derivatives.
template <class T, std::size_t n, class Tag>
constexpr Dual<T, n, Tag> stop_gradient(const Dual<T, n, Tag>& x) {
  return Dual<T, n, Tag>(stop_gradient(x.value()));
}
template <class T, std::size_t n, class Tag>
constexpr auto value_of(const Dual<T, n, Tag>& x) {
  return value_of(x.value());
}

template <class T, std::size_t n, class Tag>
struct DifferentiableTraits<Dual<T, n, Tag>> {
  using Tangent = Dual<T, n, Tag>;
  static constexpr Tangent zero(const Tangent&) { return {}; }
  static constexpr void move(Tangent& x, const Tangent& by) { x += by; }
};

}  // namespace etude

template <class T, std::size_t n, class Tag>
class std::numeric_limits<etude::Dual<T, n, Tag>> : public std::numeric_limits<T> {};
