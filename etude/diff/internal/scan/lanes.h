// SPDX-License-Identifier: Apache-2.0
// Several numbers in one SIMD vector. Used by scan_sum.h for independent steps; not a type for
// users.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "etude/diff/scalar_math.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// A constant, so that files compiled for different machines form one program. On a machine with
// shorter vectors compilers use several.
inline constexpr std::size_t kLaneBytes = 32;

// Arithmetic uses the machine's vectors. Functions are called for each lane, so that results are
// the same as elsewhere. All functions are inlined: the calling convention for vectors depends on
// the machine.
template <class T, std::size_t n>
class Lanes {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);

 public:
  // Uninitialised.
  Lanes() = default;
  [[gnu::always_inline]] explicit Lanes(T all) : at_(all - Vector{}) {}  // + would turn -0 into 0
  [[gnu::always_inline]] static Lanes load(const T* from) {
    Lanes out;
    __builtin_memcpy(&out.at_, from, sizeof out.at_);
    return out;
  }
  [[gnu::always_inline]] void store(T* to) const { __builtin_memcpy(to, &at_, sizeof at_); }
  // The lanes f(0), f(1), ...
  template <class F>
  [[gnu::always_inline]] static Lanes of(const F& f) {
    Lanes out;
    for (std::size_t l = 0; l < n; ++l) out.at_[l] = f(l);
    return out;
  }
  [[gnu::always_inline]] T operator[](std::size_t lane) const { return at_[lane]; }

  [[gnu::always_inline]] friend Lanes operator+(const Lanes& a, const Lanes& b) {
    return Lanes(Raw{a.at_ + b.at_});
  }
  [[gnu::always_inline]] friend Lanes operator-(const Lanes& a, const Lanes& b) {
    return Lanes(Raw{a.at_ - b.at_});
  }
  [[gnu::always_inline]] friend Lanes operator*(const Lanes& a, const Lanes& b) {
    return Lanes(Raw{a.at_ * b.at_});
  }
  [[gnu::always_inline]] friend Lanes operator/(const Lanes& a, const Lanes& b) {
    return Lanes(Raw{a.at_ / b.at_});
  }
  [[gnu::always_inline]] friend Lanes operator-(const Lanes& a) { return Lanes(Raw{-a.at_}); }
  [[gnu::always_inline]] Lanes& operator+=(const Lanes& b) { return *this = *this + b; }

  // Transposes the square in place; n is 2 or 4.
  [[gnu::always_inline]] static void transpose(Lanes (&square)[n]) {
    static_assert(n == 2 || n == 4);
    const Vector a = square[0].at_, b = square[1].at_;
    if constexpr (n == 2) {
      square[0].at_ = __builtin_shufflevector(a, b, 0, 2);
      square[1].at_ = __builtin_shufflevector(a, b, 1, 3);
    } else {
      const Vector c = square[2].at_, d = square[3].at_;
      const Vector even_ab = __builtin_shufflevector(a, b, 0, 4, 2, 6),
                   odd_ab = __builtin_shufflevector(a, b, 1, 5, 3, 7),
                   even_cd = __builtin_shufflevector(c, d, 0, 4, 2, 6),
                   odd_cd = __builtin_shufflevector(c, d, 1, 5, 3, 7);
      square[0].at_ = __builtin_shufflevector(even_ab, even_cd, 0, 1, 4, 5);
      square[1].at_ = __builtin_shufflevector(odd_ab, odd_cd, 0, 1, 4, 5);
      square[2].at_ = __builtin_shufflevector(even_ab, even_cd, 2, 3, 6, 7);
      square[3].at_ = __builtin_shufflevector(odd_ab, odd_cd, 2, 3, 6, 7);
    }
  }
  // Selects per lane: `yes` where the condition is not 0, else `no`.
  [[gnu::always_inline]] friend Lanes choose(const Lanes& condition, const Lanes& yes,
                                             const Lanes& no) {
    return Lanes(Raw{condition.at_ != Vector{} ? yes.at_ : no.at_});
  }

  [[gnu::always_inline]] friend Lanes strong_product(const Lanes& a, const Lanes& b) {
    return Lanes(Raw{((a.at_ != Vector{}) & (b.at_ != Vector{})) ? (a * b).at_ : Vector{}});
  }
  // Whether a lane may be NaN: the sum of all lanes is NaN.
  [[gnu::always_inline]] friend bool may_be_nan(const Lanes& x) {
    constexpr std::make_index_sequence<n> all;
    Lanes sums = x;
    if constexpr (n > 4) sums = folded<4>(sums, all);
    if constexpr (n > 2) sums = folded<2>(sums, all);
    if constexpr (n > 1) sums = folded<1>(sums, all);
    static_assert(n == 1 || n == 2 || n == 4 || n == 8);
    return sums[0] != sums[0];
  }

#define ETUDE_LANEWISE(f)                                              \
  [[gnu::always_inline]] friend Lanes f(const Lanes& x) {              \
    return of([&](std::size_t l) { return T(scalar_math::f(x[l])); }); \
  }
#define ETUDE_UNARY(fn, f, dx) ETUDE_LANEWISE(f)
#define ETUDE_BINARY(fn, f, da, db)                                          \
  [[gnu::always_inline]] friend Lanes f(const Lanes& a, const Lanes& b) {    \
    return of([&](std::size_t l) { return T(scalar_math::f(a[l], b[l])); }); \
  }
#define ETUDE_ROUNDING(fn, f) ETUDE_LANEWISE(f)
#include "etude/base/scalars/scalar_functions.inc"
  // Further functions used in partials.
  ETUDE_LANEWISE(digamma)
  ETUDE_LANEWISE(sign_of)
#undef ETUDE_LANEWISE

 private:
  using Vector __attribute__((vector_size(n * sizeof(T)))) = T;
  struct Raw {
    Vector at;
  };
  [[gnu::always_inline]] explicit Lanes(const Raw& raw) : at_(raw.at) {}
  // The sum of x and x with lanes l and l ^ distance exchanged. No lambda: its call might not be
  // inlined, and would then return a vector by this file's calling convention.
  template <std::size_t distance, std::size_t... I>
  [[gnu::always_inline]] static Lanes folded(const Lanes& x, std::index_sequence<I...>) {
    return Lanes(Raw{x.at_ + Vector{x.at_[I ^ distance]...}});
  }
  Vector at_;
};

template <class T>
inline constexpr bool kIsLanes = false;
template <class T, std::size_t n>
inline constexpr bool kIsLanes<Lanes<T, n>> = true;

// The vector type for T, and its number of lanes: a single T if the machine has no vectors of T.
template <class T>
struct LanesOf {
  using type = T;
  static constexpr std::size_t kCount = 1;
};
template <class T>
requires(std::is_same_v<T, float> || std::is_same_v<T, double>) struct LanesOf<T> {
  static constexpr std::size_t kCount = kLaneBytes / sizeof(T);
  using type = Lanes<T, kCount>;
};

}  // namespace internal
}  // namespace etude
