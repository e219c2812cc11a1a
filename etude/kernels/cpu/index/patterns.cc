// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/index/patterns.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "etude/core/internal/convert.h"
#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/elementwise/broadcast.h"

namespace etude::kernels::cpu {
namespace {

struct RangeParams : KernelParams {
  RangeOptions options;
  int64_t count = 0;
  DType dtype = DType::kFloat32;
};

bool run_range(const KernelCall& k) {
  const auto& p = *static_cast<const RangeParams*>(k.params);
  constexpr int64_t kBlock = 1024;
  const int64_t item = itemsize(p.dtype);
  parallel_for((p.count + kBlock - 1) / kBlock, static_cast<double>(p.count) / 500, [&](int64_t c) {
    double values[kBlock];
    const int64_t begin = c * kBlock, n = std::min(kBlock, p.count - begin);
    for (int64_t i = 0; i < n; ++i)
      values[i] = p.options.start + static_cast<double>(begin + i) * p.options.step;
    if (p.options.has_last && begin + n == p.count && p.count > 1) {
      values[n - 1] = p.options.last;
    }
    etude::internal::convert_elements(static_cast<char*>(k.out[0]) + begin * item, p.dtype, values,
                                      kFloat64, n);
  });
  return true;
}

struct MatrixParams : KernelParams {
  int64_t rows = 0, columns = 0, k = 0;  // of one matrix
  int64_t all_rows = 0;                  // of all matrices; 0 if they have no columns
  DType dtype = DType::kFloat32;
};

bool run_eye(const KernelCall& k) {
  const auto& p = *static_cast<const MatrixParams*>(k.params);
  visit_dtype(p.dtype, [&]<class T>() {
    T* out = static_cast<T*>(k.out[0]);
    std::fill_n(out, p.all_rows * p.columns, T(0));
    for (int64_t i = 0; i < p.all_rows; ++i) {
      const int64_t column = i % p.rows + p.k;
      if (column >= 0 && column < p.columns) out[i * p.columns + column] = T(1);
    }
  });
  return true;
}

struct OneHotParams : KernelParams {
  int64_t outer = 1, depth = 0, inner = 1;
  double on = 1, off = 0;
  DType index_dtype = DType::kInt32, dtype = DType::kFloat32;
};

bool run_one_hot(const KernelCall& k) {
  const auto& p = *static_cast<const OneHotParams*>(k.params);
  const int64_t item = itemsize(p.dtype), count = p.outer * p.inner;
  char on[16] = {}, off[16] = {};
  etude::internal::convert_elements(on, p.dtype, &p.on, kFloat64, 1);
  etude::internal::convert_elements(off, p.dtype, &p.off, kFloat64, 1);
  char* out = static_cast<char*>(k.out[0]);
  fill(out, off, item, count * p.depth);
  std::vector<int64_t> indices(static_cast<std::size_t>(count));
  etude::internal::convert_elements(indices.data(), kInt64, k.in[0], p.index_dtype, count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = indices[static_cast<std::size_t>(i)];
    if (index < 0 || index >= p.depth) continue;
    const int64_t place = (i / p.inner * p.depth + index) * p.inner + i % p.inner;
    std::memcpy(out + place * item, on, static_cast<std::size_t>(item));
  }
  return true;
}

// Row r keeps columns up to r + k (lower) or from r + k on (upper).
template <bool kLower>
bool run_triangle(const KernelCall& call) {
  const auto& p = *static_cast<const MatrixParams*>(call.params);
  constexpr int64_t kRows = 64;
  const int64_t item = itemsize(p.dtype);
  const double cost_us = static_cast<double>(p.all_rows * p.columns * item) / 6000;
  parallel_for((p.all_rows + kRows - 1) / kRows, cost_us, [&](int64_t c) {
    for (int64_t r = c * kRows; r < std::min(p.all_rows, (c + 1) * kRows); ++r) {
      const int64_t edge = std::clamp<int64_t>(r % p.rows + p.k + (kLower ? 1 : 0), 0, p.columns);
      const int64_t begin = kLower ? 0 : edge, end = kLower ? edge : p.columns;
      char* out = static_cast<char*>(call.out[0]) + r * p.columns * item;
      const char* in = static_cast<const char*>(call.in[0]) + r * p.columns * item;
      const auto bytes = [&](int64_t n) { return static_cast<std::size_t>(n * item); };
      std::memset(out, 0, bytes(begin));
      if (out != in) std::memcpy(out + begin * item, in + begin * item, bytes(end - begin));
      std::memset(out + end * item, 0, bytes(p.columns - end));
    }
  });
  return true;
}

// Sizes of matrices, and a diagonal of them.
etude::internal::RefPtr<MatrixParams> matrices(const Type& type, int64_t k) {
  const Shape& shape = type.shape();
  auto p = etude::internal::make_ref<MatrixParams>();
  p->rows = shape[shape.rank() - 2];
  p->columns = shape[shape.rank() - 1];
  p->all_rows = p->columns == 0 ? 0 : type.count() / p->columns;
  p->k = std::clamp<int64_t>(k, -kMaxCount, kMaxCount);
  p->dtype = type.dtype();
  return p;
}

}  // namespace

void prepare_range(const PrepareCall& call, const RangeOptions& options) {
  auto p = etude::internal::make_ref<RangeParams>();
  p->options = options;
  p->count = call.out.results[0]->count();
  p->dtype = call.out.results[0]->dtype();
  call.set(run_range, p);
}

void prepare_eye(const PrepareCall& call, int64_t k) {
  call.set(run_eye, matrices(*call.out.results[0], k));
}

void prepare_one_hot(const PrepareCall& call, int axis, double on, double off) {
  const Shape& indices = call.shape(0);
  auto p = etude::internal::make_ref<OneHotParams>();
  for (int a = 0; a < indices.rank(); ++a) (a < axis ? p->outer : p->inner) *= indices[a];
  p->depth = call.out.results[0]->shape()[axis];
  p->on = on;
  p->off = off;
  p->index_dtype = call.dtype(0);
  p->dtype = call.out.results[0]->dtype();
  call.set(run_one_hot, p);
}

void prepare_triangle(const PrepareCall& call, bool lower, int64_t k) {
  call.out.in_place = 1;
  call.set(lower ? run_triangle<true> : run_triangle<false>, matrices(*call.types[0], k));
}

}  // namespace etude::kernels::cpu
