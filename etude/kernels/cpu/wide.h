// SPDX-License-Identifier: Apache-2.0
// The accumulator types of sums and products, and their arithmetic. Used by reductions and scans.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include "etude/core/dtype.h"

namespace etude::kernels::cpu::internal {

using etude::internal::kIsComplex;
using etude::internal::kIsHalf;

// Sums and products of narrow integers widen; half types accumulate in float32.
template <class T>
using Wide = std::conditional_t<
    kIsHalf<T>, float,
    std::conditional_t<std::is_integral_v<T> && sizeof(T) < 4,
                       std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>, T>>;

// Integer arithmetic wraps; signed types use unsigned arithmetic for it.
template <class T>
T add(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(x) + static_cast<U>(y));
  } else {
    return x + y;
  }
}

template <class T>
T multiply(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(x) * static_cast<U>(y));
  } else if constexpr (kIsComplex<T>) {
    return T(x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real());
  } else {
    return x * y;
  }
}

}  // namespace etude::kernels::cpu::internal
