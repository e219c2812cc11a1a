// SPDX-License-Identifier: Apache-2.0
// Half of |A x - b|^2 with a dense A of 1000 x 50, by x.
#pragma once

#include <cstddef>
#include <vector>

#include "benchmarks/numbers/programs/random.h"

namespace etude::bench::numbers {

struct LeastSquares {
  static constexpr std::size_t kRows = 1000, kColumns = 50;
  std::vector<double> matrix = Random(5).uniforms(kRows * kColumns, -1, 1);  // row by row
  std::vector<double> right = Random(6).uniforms(kRows, -1, 1);
  std::vector<double> parameters = Random(7).uniforms(kColumns, -1, 1);

  template <class T>
  T operator()(const std::vector<T>& x) const {
    T loss(0);
    for (std::size_t row = 0; row < kRows; ++row) {
      const T residual = residual_of(row, x);
      loss += residual * residual;
    }
    return 0.5 * loss;
  }
  // A^T (A x - b).
  std::vector<double> hand() const {
    std::vector<double> out(kColumns);
    for (std::size_t row = 0; row < kRows; ++row) {
      const double residual = residual_of(row, parameters);
      const double* a = &matrix[row * kColumns];
      for (std::size_t i = 0; i < kColumns; ++i) out[i] += a[i] * residual;
    }
    return out;
  }

 private:
  template <class T>
  T residual_of(std::size_t row, const std::vector<T>& x) const {
    T sum(-right[row]);
    const double* a = &matrix[row * kColumns];
    for (std::size_t i = 0; i < kColumns; ++i) sum += a[i] * x[i];
    return sum;
  }
};

}  // namespace etude::bench::numbers
