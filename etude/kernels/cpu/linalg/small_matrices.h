// SPDX-License-Identifier: Apache-2.0
// Decompositions of real matrices that are so small that a call of LAPACK costs more than the work.
// They loop over whole rows, which are contiguous, and compute the same bits on every instruction
// set. Used by linalg.cc and decompositions.cc. For larger and complex matrices see
// lapack/lapack.h.
#pragma once

#include <cstdint>

namespace etude::kernels::cpu {

inline constexpr int64_t kSmallMatrix = 64;  // rows and columns up to which this is faster

// Rows of work memory have a multiple of this many elements.
inline constexpr int64_t kSmallBlock = 16;
constexpr int64_t small_row(int64_t n) { return (n + kSmallBlock - 1) / kSmallBlock * kSmallBlock; }

struct SmallQr {
  int64_t m, n, q_columns;  // q_columns: m or min(m, n)
};

// T: float, double. Matrices are row-major; `work` is aligned to 64 bytes.
template <class T>
struct SmallMath {
  // Computes the lower triangle l of x = l l^T [n, n]; reads the lower half of x. Returns a nonzero
  // value if x is not positive definite. work: [n, small_row(n)].
  int (*cholesky)(T* out, const T* x, int64_t n, T* work);
  // Computes y [n, k] with a y = b, with row pivoting; with `transpose`, a is transposed. Returns a
  // nonzero value if a is singular. work: [n, small_row(n) + small_row(k)].
  int (*solve)(T* y, const T* a, const T* b, int64_t n, int64_t k, bool transpose, T* work);
  // Decomposes x [m, n] = q [m, q_columns] r [q_columns, n] by reflections, with LAPACK's signs.
  // work: small_qr_work.
  void (*qr)(T* q, T* r, const T* x, const SmallQr& size, T* work);
};
template <class T>
const SmallMath<T>& small_math();

constexpr int64_t small_qr_work(const SmallQr& s) {
  const int64_t k = s.m < s.n ? s.m : s.n, row = small_row(s.n > s.q_columns ? s.n : s.q_columns);
  return s.m * small_row(s.n) + s.m * small_row(s.q_columns) + k * small_row(s.m) + small_row(k) +
         row;
}

}  // namespace etude::kernels::cpu
