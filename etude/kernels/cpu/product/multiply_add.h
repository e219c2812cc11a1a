// SPDX-License-Identifier: Apache-2.0
// a * b + c for the element types of products without a float32 kernel: integers wrap, complex
// numbers multiply without operator*'s special cases of infinities.
#pragma once

#include <complex>
#include <type_traits>

#include "etude/core/dtype.h"

namespace etude::kernels::cpu {

template <class T>
T multiply_add(T a, T b, T c) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::common_type_t<T, unsigned>;  // int would overflow
    return static_cast<T>(Wide{c} + Wide{a} * Wide{b});
  } else {
    return a * b + c;
  }
}
template <class R>
std::complex<R> multiply_add(std::complex<R> a, std::complex<R> b, std::complex<R> c) {
  return {c.real() + (a.real() * b.real() - a.imag() * b.imag()),
          c.imag() + (a.real() * b.imag() + a.imag() * b.real())};
}

// Calls f.operator()<T>() with the type in which sums of products of float64, complex or integer
// values are computed: unsigned for integers, which have the same low bits as signed integers.
template <class F>
void visit_wrapping(DType dtype, F&& f) {
  switch (dtype) {
    case kFloat64:
      return f.template operator()<double>();
    case kComplex64:
      return f.template operator()<std::complex<float>>();
    case kComplex128:
      return f.template operator()<std::complex<double>>();
    default:
      break;
  }
  switch (itemsize(dtype)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    default:
      return f.template operator()<uint64_t>();
  }
}

}  // namespace etude::kernels::cpu
