// SPDX-License-Identifier: Apache-2.0
// The loops of standardize.h in double. The float loops are in simd/rows_simd.cc.
#include <cmath>

#include "etude/kernels/cpu/reduce/standardize.h"

namespace etude::kernels::cpu {
namespace {

using D = double;

void products(const D* x, const D* ct, int64_t rows, int64_t n, D* mean, D* squares, D* sum,
              D* product) {
  for (int64_t j = 0; j < n; ++j) {
    D total = 0, square = 0, ct_total = 0, both = 0;
    for (int64_t r = 0; r < rows; ++r) total += x[r * n + j];
    const D center = total / static_cast<D>(rows);
    for (int64_t r = 0; r < rows; ++r) {
      const D away = x[r * n + j] - center, g = ct != nullptr ? ct[r * n + j] : 0;
      square += away * away;
      ct_total += g;
      both += g * away;
    }
    mean[j] = center;
    squares[j] = square;
    if (ct == nullptr) continue;
    sum[j] = ct_total;
    product[j] = both;
  }
}

void moments(const D* x, int64_t rows, int64_t n, D* mean, D* squares) {
  products(x, nullptr, rows, n, mean, squares, nullptr, nullptr);
}

void apply(D* y, const D* x, int64_t rows, int64_t n, const D* mean, const D* factor,
           const D* offset) {
  for (int64_t i = 0; i < rows * n; ++i) {
    const int64_t j = i % n;
    y[i] = (x[i] - mean[j]) * factor[j] + offset[j];
  }
}

void gradient(D* dx, const D* x, const D* ct, int64_t rows, int64_t n, const D* mean, const D* a,
              const D* b, const D* c) {
  for (int64_t i = 0; i < rows * n; ++i) {
    const int64_t j = i % n;
    dx[i] = a[j] * ct[i] - (b[j] + c[j] * (x[i] - mean[j]));
  }
}

struct RowMoments {
  D mean, variance;
};

RowMoments moments_of(const D* x, int64_t n) {
  D sum = 0, square = 0;
  for (int64_t j = 0; j < n; ++j) sum += x[j];
  const D mean = sum / static_cast<D>(n);
  for (int64_t j = 0; j < n; ++j) square += (x[j] - mean) * (x[j] - mean);
  return {mean, square / static_cast<D>(n)};
}

void row_by(D* y, const D* x, int64_t n, const D* scale, const D* offset, D epsilon, D mean,
            D variance) {
  const D r = 1 / std::sqrt(variance + epsilon);
  for (int64_t j = 0; j < n; ++j) {
    y[j] =
        (x[j] - mean) * r * (scale != nullptr ? scale[j] : 1) + (offset != nullptr ? offset[j] : 0);
  }
}

void row(D* y, const D* x, int64_t n, const D* scale, const D* offset, D epsilon, D* mean,
         D* variance) {
  const RowMoments m = moments_of(x, n);
  row_by(y, x, n, scale, offset, epsilon, m.mean, m.variance);
  *mean = m.mean;
  *variance = m.variance;
}

void row_gradient(D* dx, const D* x, const D* ct, int64_t n, const D* scale, D epsilon, D* to_scale,
                  D* to_offset) {
  const RowMoments m = moments_of(x, n);
  const D r = 1 / std::sqrt(m.variance + epsilon), count = static_cast<D>(n);
  const auto g = [&](int64_t j) { return scale != nullptr ? ct[j] * scale[j] : ct[j]; };
  D sum = 0, product = 0;
  for (int64_t j = 0; j < n; ++j) {
    const D h = (x[j] - m.mean) * r;
    to_scale[j] += ct[j] * h;
    to_offset[j] += ct[j];
    sum += g(j);
    product += g(j) * h;
  }
  for (int64_t j = 0; j < n; ++j) {
    dx[j] = (g(j) - sum / count - (x[j] - m.mean) * r * product / count) * r;
  }
}

constexpr StandardizeMath<double> kDouble = {moments, apply, products,    gradient,
                                             row_by,  row,   row_gradient};

}  // namespace

template <>
const StandardizeMath<double>& standardize_math<double>() {
  return kDouble;
}

}  // namespace etude::kernels::cpu
