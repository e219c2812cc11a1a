// SPDX-License-Identifier: Apache-2.0
// Numbers of the judge: long double with nilpotent parts. Generators e0, e1, ... have squares of 0,
// and products of different ones stay. So the part of e0 is a first derivative, and the part of e0
// e1 a second one, exactly. It includes nothing of the library that it checks.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace pairs {

class Number {
 public:
  Number(long double value = 0) : parts_{value} {}

  // The number that moves along generator k.
  static Number along(std::size_t k, long double value) {
    Number out(value);
    out.parts_.resize(std::size_t{2} << k);
    out.parts_[std::size_t{1} << k] = 1;
    return out;
  }
  // The part of the product of generators in `set`, a bit each.
  long double part(std::size_t set) const { return set < parts_.size() ? parts_[set] : 0; }
  long double value() const { return parts_[0]; }

  // The factor of generator k, above which there is none.
  Number upper(std::size_t k) const {
    const std::size_t half = std::size_t{1} << k;
    Number out;
    if (parts_.size() > half)
      out.parts_.assign(parts_.begin() + static_cast<std::ptrdiff_t>(half), parts_.end());
    return out;
  }
  // The same value, with all derivatives times a factor.
  Number slopes_times(long double factor) const {
    Number out = *this;
    for (std::size_t i = 1; i < parts_.size(); ++i) out.parts_[i] *= factor;
    return out;
  }

  // Whether f is true of the value and of all derivatives.
  template <class F>
  bool all_of(const F& f) const {
    return std::all_of(parts_.begin(), parts_.end(), f);
  }

  friend Number operator+(const Number& a, const Number& b) {
    Number out = a;
    out.parts_.resize(std::max(a.parts_.size(), b.parts_.size()));
    for (std::size_t i = 0; i < b.parts_.size(); ++i) out.parts_[i] += b.parts_[i];
    return out;
  }
  friend Number operator*(const Number& a, const Number& b) {
    Number out;
    out.parts_.assign(std::max(a.parts_.size(), b.parts_.size()), 0);
    for (std::size_t i = 0; i < a.parts_.size(); ++i) {
      for (std::size_t j = 0; j < b.parts_.size(); ++j) {
        if ((i & j) == 0) out.parts_[i | j] += a.parts_[i] * b.parts_[j];
      }
    }
    return out;
  }
  friend Number operator-(const Number& a, const Number& b) { return a + Number(-1) * b; }

  // f and its derivatives at a: f(n, x) is the n-th derivative at x.
  template <class F>
  Number mapped(const F& f, int order = 0) const {
    if (parts_.size() == 1) return Number(f(order, parts_[0]));
    const std::size_t half = parts_.size() / 2;
    Number low, high;
    low.parts_.assign(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(half));
    high.parts_.assign(parts_.begin() + static_cast<std::ptrdiff_t>(half), parts_.end());
    const Number at = low.mapped(f, order), moved = low.mapped(f, order + 1) * high;
    Number out;
    out.parts_.assign(parts_.size(), 0);
    std::copy(at.parts_.begin(), at.parts_.end(), out.parts_.begin());
    std::copy(moved.parts_.begin(), moved.parts_.end(),
              out.parts_.begin() + static_cast<std::ptrdiff_t>(half));
    return out;
  }

 private:
  std::vector<long double> parts_;  // 2^k of them
};

// A binary floating type: bits of the fraction, and the exponents of its normal numbers.
struct FloatFormat {
  const char* name;
  int fraction, lowest, highest;
};
inline constexpr FloatFormat kHalf{"float16", 10, -14, 15};
inline constexpr FloatFormat kBrainFloat{"bfloat16", 7, -126, 127};

// The number of that type that is nearest to x, by IEEE 754: of two the even one; in steps of one
// size below the normal numbers; infinity from half a step above the largest on.
inline long double rounded(long double x, const FloatFormat& type) {
  if (x == 0 || !std::isfinite(x)) return x;
  const auto step = [&](int exponent) { return std::ldexp(1.0L, exponent - type.fraction); };
  const long double unit = step(std::max(std::ilogb(x), type.lowest));
  const long double near = std::nearbyint(x / unit) * unit;
  const bool is_beyond = std::abs(near) >= std::ldexp(2.0L, type.highest);
  return is_beyond ? std::copysign(std::numeric_limits<long double>::infinity(), x) : near;
}

constexpr std::size_t kLength = 3;  // of all vectors in programs

struct Numbers {
  std::array<Number, kLength> at;

  Numbers() = default;
  explicit Numbers(long double all) { at.fill(Number(all)); }
  template <class F>
  static Numbers made(const F& f) {
    Numbers out;
    for (std::size_t i = 0; i < kLength; ++i) out.at[i] = f(i);
    return out;
  }
};

inline Numbers operator+(const Numbers& a, const Numbers& b) {
  return Numbers::made([&](std::size_t i) { return a.at[i] + b.at[i]; });
}
inline Numbers operator-(const Numbers& a, const Numbers& b) {
  return Numbers::made([&](std::size_t i) { return a.at[i] - b.at[i]; });
}
inline Numbers operator*(const Numbers& a, const Numbers& b) {
  return Numbers::made([&](std::size_t i) { return a.at[i] * b.at[i]; });
}
inline Numbers operator*(const Numbers& a, double b) { return a * Numbers(b); }
inline Number sum(const Numbers& a) { return a.at[0] + a.at[1] + a.at[2]; }
inline Numbers sin(const Numbers& a) {
  const auto f = [](int n, long double x) {
    return n % 4 == 0   ? std::sin(x)
           : n % 4 == 1 ? std::cos(x)
           : n % 4 == 2 ? -std::sin(x)
                        : -std::cos(x);
  };
  return Numbers::made([&](std::size_t i) { return a.at[i].mapped(f); });
}
inline Numbers exp(const Numbers& a) {
  const auto f = [](int, long double x) { return std::exp(x); };
  return Numbers::made([&](std::size_t i) { return a.at[i].mapped(f); });
}
// x to a power that is no positive whole number, as 1 / x and the square root.
inline Number power(const Number& x, long double exponent) {
  return x.mapped([exponent](int n, long double at) {
    long double factor = 1;
    for (int i = 0; i < n; ++i) factor *= exponent - i;
    return factor * std::pow(at, exponent - n);
  });
}
inline Numbers operator*(const Numbers& a, const Number& b) {
  return Numbers::made([&](std::size_t i) { return a.at[i] * b; });
}
// The same values without derivatives.
inline Number held(const Number& a) { return Number(a.value()); }
inline Numbers held(const Numbers& a) {
  return Numbers::made([&](std::size_t i) { return held(a.at[i]); });
}

}  // namespace pairs
