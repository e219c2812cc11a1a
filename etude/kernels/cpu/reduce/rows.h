// SPDX-License-Identifier: Apache-2.0
// Arithmetic on one contiguous row: the parts of softmax, log-sum-exp and cross entropy. Sums have
// the fixed tree of 64 partials (reduce.h). Not for columns.
#pragma once

#include <algorithm>
#include <cstdint>

namespace etude::kernels::cpu {

// T: float (vectors, the same bits on every instruction set) or double.
template <class T>
struct RowMath {
  // The largest element, NaN if any is NaN; minus infinity if empty.
  T (*max)(const T* x, int64_t n);
  // Sum of exp(x - shift); writes the terms to `terms`, which may be x, unless it is null.
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

// Short rows are processed kRowsAside at a time, since a single row would leave most of a vector
// empty. They are interleaved: element c of row r is at x[c * kRowsAside + r].
inline constexpr int64_t kRowsAside = 16;
inline constexpr int64_t kShortRow = 32;  // maximum elements of one

// Processes kRowsAside short rows at once, with the same bits as RowMath for each; 1 <= n <=
// kShortRow.
struct ShortRowMath {
  void (*max)(float* most, const float* x, int64_t n);
  // `terms` may be x.
  void (*exp_sum)(float* sums, float* terms, const float* x, int64_t n, const float* shifts);
  void (*log)(float* y, const float* x);
};
const ShortRowMath& short_row_math();

// The memory layout of the short rows of one tile. If there are fewer than kRowsAside, the others
// are read as zeros.
struct ShortRows {
  int64_t rows = 0;                // at most kRowsAside
  int64_t size = 0;                // elements of a row
  int64_t row_step = 0, step = 0;  // from row to row, and from element to element

  template <class T>
  void read(float* tile, const T* x) const {
    if (rows < kRowsAside) std::fill_n(tile, size * kRowsAside, 0.0f);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < size; ++c) {
        tile[c * kRowsAside + r] = static_cast<float>(x[r * row_step + c * step]);
      }
    }
  }
  template <class T>
  void write(T* y, const float* tile) const {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < size; ++c) {
        y[r * row_step + c * step] = T(tile[c * kRowsAside + r]);
      }
    }
  }
};

// For float: the loops of the best instruction set of this machine.
template <class T>
const RowMath<T>& row_math();
template <>
const RowMath<float>& row_math<float>();
template <>
const RowMath<double>& row_math<double>();

}  // namespace etude::kernels::cpu
