// SPDX-License-Identifier: Apache-2.0
// Arithmetic on one contiguous row, of which softmax, log-sum-exp and cross entropy are made. Sums
// have the fixed tree of 64 partials (reduce.h). Not for columns.
#pragma once

#include <cstdint>

namespace etude::kernels::cpu {

// T: float (vectors, the same bits on every instruction set) or double.
template <class T>
struct RowMath {
  // The largest element, NaN if there is one; minus infinity of none.
  T (*max)(const T* x, int64_t n);
  // Sum of exp(x - shift); the terms are written to `terms`, which may be x, unless it is null.
  T (*exp_sum)(T* terms, const T* x, int64_t n, T shift);
  T (*log)(T x);
  // y = x * factor.
  void (*scale)(T* y, const T* x, int64_t n, T factor);
  // y = (x - first) - second.
  void (*subtract)(T* y, const T* x, int64_t n, T first, T second);
  // Sum of q.
  T (*sum)(const T* q, int64_t n);
  // Sum of q * (rest - (x - shift)).
  T (*weigh)(const T* q, const T* x, int64_t n, T shift, T rest);
  // Sum of x * q.
  T (*dot)(const T* x, const T* q, int64_t n);
  // y = x * (q - shift).
  void (*weigh_difference)(T* y, const T* x, const T* q, int64_t n, T shift);
  // y = a * x - b * q.
  void (*blend)(T* y, const T* x, const T* q, int64_t n, T a, T b);
};

// For float: the loops of the best instruction set of this machine.
template <class T>
const RowMath<T>& row_math();
template <>
const RowMath<float>& row_math<float>();
template <>
const RowMath<double>& row_math<double>();

}  // namespace etude::kernels::cpu
