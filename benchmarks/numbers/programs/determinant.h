// SPDX-License-Identifier: Apache-2.0
// log |det A| of a matrix of 30 x 30, by elimination with partial pivoting: branches and swaps that
// depend on the numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "benchmarks/numbers/programs/random.h"

namespace etude::bench::numbers {

struct Determinant {
  static constexpr std::size_t kSize = 30;
  std::vector<double> parameters = Random(11).uniforms(kSize * kSize, -1, 1);  // row by row

  template <class T>
  T operator()(std::vector<T> a) const {
    using std::fabs, std::log;
    std::vector<std::size_t> order(kSize);
    eliminate(a, order);
    T sum(0);
    for (std::size_t i = 0; i < kSize; ++i) sum += log(fabs(a[i * kSize + i]));
    return sum;
  }

  // The inverse, transposed (Petersen and Pedersen, The Matrix Cookbook, equation 57): with
  // P A = L U it is U^-1 L^-1 P, all columns at once.
  std::vector<double> hand() const {
    std::vector<double> a = parameters, inverse(kSize * kSize), out(kSize * kSize);
    std::vector<std::size_t> order(kSize);
    eliminate(a, order);
    for (std::size_t i = 0; i < kSize; ++i) inverse[i * kSize + order[i]] = 1;
    for (std::size_t row = 1; row < kSize; ++row) {
      for (std::size_t k = 0; k < row; ++k) subtract(inverse, row, a[row * kSize + k], k);
    }
    for (std::size_t row = kSize; row-- > 0;) {
      for (std::size_t k = row + 1; k < kSize; ++k) {
        subtract(inverse, row, a[row * kSize + k], k);
      }
      const double scale = 1 / a[row * kSize + row];
      for (std::size_t i = 0; i < kSize; ++i) inverse[row * kSize + i] *= scale;
    }
    for (std::size_t row = 0; row < kSize; ++row) {
      for (std::size_t i = 0; i < kSize; ++i) out[row * kSize + i] = inverse[i * kSize + row];
    }
    return out;
  }

 private:
  // Leaves U on and above the diagonal of a, and the factors of L below; order[i] is the row of A
  // that has become row i.
  template <class T>
  static void eliminate(std::vector<T>& a, std::vector<std::size_t>& order) {
    using std::fabs;
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t k = 0; k < kSize; ++k) {
      std::size_t pivot = k;
      for (std::size_t row = k + 1; row < kSize; ++row) {
        if (fabs(a[row * kSize + k]) > fabs(a[pivot * kSize + k])) pivot = row;
      }
      if (pivot != k) {
        std::swap(order[k], order[pivot]);
        std::swap_ranges(&a[k * kSize], &a[k * kSize] + kSize, &a[pivot * kSize]);
      }
      for (std::size_t row = k + 1; row < kSize; ++row) {
        const T factor = a[row * kSize + k] / a[k * kSize + k];
        a[row * kSize + k] = factor;
        for (std::size_t i = k + 1; i < kSize; ++i) a[row * kSize + i] -= factor * a[k * kSize + i];
      }
    }
  }
  static void subtract(std::vector<double>& m, std::size_t row, double factor, std::size_t from) {
    for (std::size_t i = 0; i < kSize; ++i) m[row * kSize + i] -= factor * m[from * kSize + i];
  }
};

}  // namespace etude::bench::numbers
