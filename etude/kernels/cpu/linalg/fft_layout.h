// SPDX-License-Identifier: Apache-2.0
// Converts complex numbers of kWidth rows into separate real and imaginary parts, as passes need
// them, and back. float is converted in square blocks of vectors. Part of fft.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "etude/kernels/cpu/linalg/fft_plan.h"

namespace etude::kernels::cpu::fourier {

// Calls body(k, c) for elements [0, n) of w rows. It visits one cache line of each row at a time,
// since rows of a power of two bytes map to the same few lines of the cache.
template <class T, class F>
void by_lines(int64_t n, int64_t w, const F& body) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(Complex<T>));
  for (int64_t begin = 0; begin < n; begin += kLine) {
    const int64_t end = std::min(n, begin + kLine);
    for (int64_t c = 0; c < w; ++c) {
      for (int64_t k = begin; k < end; ++k) body(k, c);
    }
  }
}

// A square of floats, as rows.
struct Square {
  using Row = float __attribute__((vector_size(16)));
  Square transposed() const {
    const Row a = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5),
              b = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7),
              c = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5),
              d = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
    return {{__builtin_shufflevector(a, c, 0, 1, 4, 5), __builtin_shufflevector(a, c, 2, 3, 6, 7),
             __builtin_shufflevector(b, d, 0, 1, 4, 5), __builtin_shufflevector(b, d, 2, 3, 6, 7)}};
  }
  Row row[4];
};

// Calls body(k, c) for elements k, k + 1 of rows c .. c + 3, from element `first` on. If their
// number is odd, the last element is omitted.
template <class F>
void by_squares(int64_t first, int64_t n, const F& body) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(Complex<float>));
  for (int64_t begin = first; begin < n - 1; begin += kLine) {
    const int64_t end = std::min(n - 1, begin + kLine);
    for (int64_t c = 0; c < kWidth; c += 4) {
      for (int64_t k = begin; k < end; k += 2) body(k, c);
    }
  }
}

// Copies elements [0, n) of w rows that begin at in + start[c] into parts [n, w]; and back, times a
// factor.
template <class T>
void rows_to_parts(const Complex<T>* in, const int64_t* start, int64_t w, int64_t n, Parts<T> x) {
  const auto one = [&](int64_t k, int64_t c) {
    const Complex<T> z = in[start[c] + k];
    x.re[k * w + c] = z.real(), x.im[k * w + c] = z.imag();
  };
  if (!std::is_same_v<T, float> || w != kWidth) return by_lines<T>(n, w, one);
  if constexpr (std::is_same_v<T, float>) {
    by_squares(take_rows(in, start, n, x), n, [&](int64_t k, int64_t c) {
      Square rows;
      for (int64_t r = 0; r < 4; ++r) std::memcpy(&rows.row[r], in + start[c + r] + k, 16);
      const Square columns = rows.transposed();
      for (int64_t j = 0; j < 2; ++j) {
        std::memcpy(x.re + (k + j) * kWidth + c, &columns.row[2 * j], 16);
        std::memcpy(x.im + (k + j) * kWidth + c, &columns.row[2 * j + 1], 16);
      }
    });
  }
  for (int64_t c = 0; n % 2 == 1 && c < w; ++c) one(n - 1, c);
}
template <class T>
void parts_to_rows(Parts<T> x, T scale, const int64_t* start, int64_t w, int64_t n,
                   Complex<T>* out) {
  const auto one = [&](int64_t k, int64_t c) {
    out[start[c] + k] = {x.re[k * w + c] * scale, x.im[k * w + c] * scale};
  };
  if (!std::is_same_v<T, float> || w != kWidth) return by_lines<T>(n, w, one);
  if constexpr (std::is_same_v<T, float>) {
    by_squares(give_rows(x, scale, start, n, out), n, [&](int64_t k, int64_t c) {
      Square columns;
      for (int64_t j = 0; j < 2; ++j) {
        std::memcpy(&columns.row[2 * j], x.re + (k + j) * kWidth + c, 16);
        std::memcpy(&columns.row[2 * j + 1], x.im + (k + j) * kWidth + c, 16);
      }
      for (Square::Row& column : columns.row) column *= scale;
      const Square rows = columns.transposed();
      for (int64_t r = 0; r < 4; ++r)
        std::memcpy(reinterpret_cast<float*>(out + start[c + r] + k), &rows.row[r], 16);
    });
  }
  for (int64_t c = 0; n % 2 == 1 && c < w; ++c) one(n - 1, c);
}

}  // namespace etude::kernels::cpu::fourier
