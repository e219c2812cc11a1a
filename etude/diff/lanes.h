// SPDX-License-Identifier: Apache-2.0
// Numbers side by side in one vector of the machine. Used by scan_sum.h for steps that do not wait
// for each other; not a type of users.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "etude/diff/scalar_math.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

#if defined(__AVX__)
inline constexpr std::size_t kLaneBytes = 32;
#else
inline constexpr std::size_t kLaneBytes = 16;
#endif
// Arithmetic is that of the machine's vectors; functions are called for each lane, so that they
// give what they give elsewhere.
template <class T, std::size_t n>
class Lanes {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);

 public:
  // Not initialised.
  Lanes() = default;
  explicit Lanes(T all) : at_(all - Vector{}) {}  // + would turn -0 into 0
  static Lanes load(const T* from) {
    Lanes out;
    __builtin_memcpy(&out.at_, from, sizeof out.at_);
    return out;
  }
  void store(T* to) const { __builtin_memcpy(to, &at_, sizeof at_); }
  // The lanes f(0), f(1), ...
  template <class F>
  [[gnu::always_inline]] static Lanes of(const F& f) {
    Lanes out;
    for (std::size_t l = 0; l < n; ++l) out.at_[l] = f(l);
    return out;
  }
  T operator[](std::size_t lane) const { return at_[lane]; }

  friend Lanes operator+(const Lanes& a, const Lanes& b) { return Lanes(Raw{a.at_ + b.at_}); }
  friend Lanes operator-(const Lanes& a, const Lanes& b) { return Lanes(Raw{a.at_ - b.at_}); }
  friend Lanes operator*(const Lanes& a, const Lanes& b) { return Lanes(Raw{a.at_ * b.at_}); }
  friend Lanes operator/(const Lanes& a, const Lanes& b) { return Lanes(Raw{a.at_ / b.at_}); }
  friend Lanes operator-(const Lanes& a) { return Lanes(Raw{-a.at_}); }
  Lanes& operator+=(const Lanes& b) { return *this = *this + b; }

  // Row r of the square becomes its column r; n is 2 or 4.
  [[gnu::always_inline]] static void transpose(Lanes (&square)[n]) {
    static_assert(n == 2 || n == 4);
    const auto pick = [&square]<int... lane>(int a, int b, std::integer_sequence<int, lane...>) {
      return __builtin_shufflevector(square[a].at_, square[b].at_, lane...);
    };
    if constexpr (n == 2) {
      const Vector low = pick(0, 1, std::integer_sequence<int, 0, 2>());
      square[1].at_ = pick(0, 1, std::integer_sequence<int, 1, 3>());
      square[0].at_ = low;
    } else {
      const std::integer_sequence<int, 0, 4, 2, 6> even;
      const std::integer_sequence<int, 1, 5, 3, 7> odd;
      const Lanes pairs[4] = {Lanes(Raw{pick(0, 1, even)}), Lanes(Raw{pick(0, 1, odd)}),
                              Lanes(Raw{pick(2, 3, even)}), Lanes(Raw{pick(2, 3, odd)})};
      for (int half = 0; half < 2; ++half) {
        const Vector a = pairs[half].at_, b = pairs[half + 2].at_;
        square[half].at_ = __builtin_shufflevector(a, b, 0, 1, 4, 5);
        square[half + 2].at_ = __builtin_shufflevector(a, b, 2, 3, 6, 7);
      }
    }
  }
  // In each lane `yes` unless the condition is 0 there, else `no`.
  friend Lanes choose(const Lanes& condition, const Lanes& yes, const Lanes& no) {
    return Lanes(Raw{condition.at_ != Vector{} ? yes.at_ : no.at_});
  }

#define ETUDE_UNARY(f, dx)                                             \
  friend Lanes f(const Lanes& x) {                                     \
    return of([&](std::size_t l) { return T(scalar_math::f(x[l])); }); \
  }
#define ETUDE_BINARY(f, da, db)
#define ETUDE_ROUNDING(f) ETUDE_UNARY(f, 0)
#include "etude/diff/math_rules.inc"
  // What slopes are written in besides.
  ETUDE_UNARY(digamma, 0)
  ETUDE_UNARY(sign_of, 0)
#undef ETUDE_UNARY
#undef ETUDE_BINARY
#undef ETUDE_ROUNDING

 private:
  using Vector __attribute__((vector_size(n * sizeof(T)))) = T;
  struct Raw {
    Vector at;
  };
  explicit Lanes(const Raw& raw) : at_(raw.at) {}
  Vector at_;
};

template <class T>
inline constexpr bool kIsLanes = false;
template <class T, std::size_t n>
inline constexpr bool kIsLanes<Lanes<T, n>> = true;

// As many numbers of T as are taken at once: one where the machine has no vectors of them.
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
