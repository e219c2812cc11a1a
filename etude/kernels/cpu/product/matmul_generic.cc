// SPDX-License-Identifier: Apache-2.0
// Products of the dtypes other than float32: plain loops over k in the middle, so that the inner
// loop runs along rows.
#include <algorithm>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/halves.h"
#include "etude/kernels/cpu/product/matmul.h"
#include "etude/kernels/cpu/product/multiply_add.h"
#include "etude/kernels/cpu/thread_scratch.h"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kChunkProducts = 40'000;  // multiply-adds: 20 to 40 us

// Row `row` of one product. T: unsigned for integers, which then wrap.
template <class T>
void generic_row(const MatmulPlan& p, T* out, const T* x, const T* y, int64_t row) {
  const int64_t x_step = p.transpose_x ? p.m : 1;
  x += row * (p.transpose_x ? 1 : p.k);
  out += row * p.n;
  if (p.transpose_y) {
    for (int64_t j = 0; j < p.n; ++j) {
      T sum{};
      for (int64_t k = 0; k < p.k; ++k) sum = multiply_add(x[k * x_step], y[j * p.k + k], sum);
      out[j] = sum;
    }
    return;
  }
  std::fill_n(out, p.n, T{});
  for (int64_t k = 0; k < p.k; ++k) {
    const T a = x[k * x_step];
    const T* b = y + k * p.n;
    for (int64_t j = 0; j < p.n; ++j) out[j] = multiply_add(a, b[j], out[j]);
  }
}

template <class T>
void run_generic(const MatmulPlan& p, void* out, const void* x, const void* y) {
  const int64_t rows = p.batches * p.m;
  const int64_t per_chunk = std::max<int64_t>(1, kChunkProducts / (p.n * p.k + 1));
  const double us = static_cast<double>(rows * p.n * p.k) * 1e-3;
  parallel_for((rows + per_chunk - 1) / per_chunk, us, [&](int64_t chunk) {
    const int64_t end = std::min(rows, (chunk + 1) * per_chunk);
    for (int64_t row = chunk * per_chunk; row < end; ++row) {
      const int64_t batch = row / p.m;
      generic_row(p, static_cast<T*>(out) + batch * p.m * p.n,
                  static_cast<const T*>(x) + p.x_offset(batch),
                  static_cast<const T*>(y) + p.y_offset(batch), row % p.m);
    }
  });
}

// Elements that an operand holds.
int64_t extent(const MatmulPlan& p, const std::array<int64_t, kMaxRank>& steps, int64_t matrix) {
  int64_t count = matrix;
  for (int axis = 0; axis < p.rank; ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    count += (p.sizes[i] - 1) * steps[i];
  }
  return count;
}

// Half types compute in float32 and round once.
void run_half(const MatmulPlan& p, DType dtype, void* out, const void* x, const void* y) {
  const int64_t xs = extent(p, p.x_steps, p.m * p.k), ys = extent(p, p.y_steps, p.k * p.n);
  const int64_t count = p.batches * p.m * p.n;
  float* buffer = thread_scratch<float, 1>(xs + ys + count);
  convert_row(buffer, kFloat32, x, dtype, xs);
  convert_row(buffer + xs, kFloat32, y, dtype, ys);
  MatmulPlan plan = p;
  plan.swapped = false;
  matmul_float32(plan, buffer + xs + ys, buffer, buffer + xs);
  convert_row(out, dtype, buffer + xs + ys, kFloat32, count);
}

}  // namespace

void matmul_generic(const MatmulPlan& p, DType dtype, void* out, const void* x, const void* y) {
  if (p.batches * p.m * p.n == 0) return;
  if (p.swapped) std::swap(x, y);
  if (dtype == kFloat16 || dtype == kBFloat16) return run_half(p, dtype, out, x, y);
  visit_wrapping(dtype, [&]<class T>() { run_generic<T>(p, out, x, y); });
}

}  // namespace etude::kernels::cpu
