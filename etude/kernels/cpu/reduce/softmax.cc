// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/reduce/softmax.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <type_traits>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/floating.h"
#include "etude/kernels/cpu/halves.h"
#include "etude/kernels/cpu/reduce/rows.h"
#include "etude/kernels/cpu/scratch.h"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kChunkElements = 1 << 13;
constexpr int64_t kTile = 16;  // rows that are gathered together: one cache line of float32

struct RowsParams : KernelParams {
  int64_t outer = 1, size = 1, inner = 1;
  RowFn fn = RowFn::kSoftmax;
};

// One row; `y` may be x.
template <class C>
void run_row(const RowMath<C>& math, RowFn fn, C* y, const C* x, int64_t n) {
  const C max = math.max(x, n);
  if (fn == RowFn::kSoftmax) {
    const C sum = math.exp_sum(y, x, n, max);
    math.scale(y, y, n, C(1) / sum);
    return;
  }
  const C shift = fn == RowFn::kLogSumExp && std::isinf(max) ? C(0) : max;
  const C log = math.log(math.exp_sum(nullptr, x, n, shift));
  if (fn == RowFn::kLogSoftmax)
    math.subtract(y, x, n, max, log);
  else
    *y = log + shift;
}

// Short rows side by side: as run_row, for each.
void run_aside(RowFn fn, float* tile, int64_t n) {
  const ShortRowMath& math = short_row_math();
  float most[kRowsAside], shift[kRowsAside], sum[kRowsAside], log[kRowsAside];
  float terms[kShortRow * kRowsAside];
  math.max(most, tile, n);
  for (int64_t r = 0; r < kRowsAside; ++r) {
    shift[r] = fn == RowFn::kLogSumExp && std::isinf(most[r]) ? 0 : most[r];
  }
  math.exp_sum(sum, terms, tile, n, shift);
  if (fn == RowFn::kSoftmax) {
    for (float& s : sum) s = 1 / s;
    for (int64_t i = 0; i < n * kRowsAside; ++i) tile[i] = terms[i] * sum[i % kRowsAside];
    return;
  }
  math.log(log, sum);
  if (fn == RowFn::kLogSumExp) {
    for (int64_t r = 0; r < kRowsAside; ++r) tile[r] = log[r] + shift[r];
    return;
  }
  for (int64_t i = 0; i < n * kRowsAside; ++i) {
    tile[i] = (tile[i] - most[i % kRowsAside]) - log[i % kRowsAside];
  }
}

// Whether rows side by side are faster; a row that is not read in place costs twice as much alone.
bool has_short_rows(const RowsParams& p, bool direct) {
  const int64_t rows = p.inner == 1 ? p.outer : p.inner;
  return p.size >= 1 && (direct ? p.size <= kShortRow / 2 && rows >= p.size
                                : p.size <= kShortRow && 2 * rows >= p.size);
}

template <class T>
void run_short(const RowsParams& p, T* out, const T* in) {
  const int64_t n = p.size, results = p.fn == RowFn::kLogSumExp ? 1 : n;
  // Adjacent rows form one block; else a block is an outer index.
  const int64_t blocks = p.inner == 1 ? 1 : p.outer, rows = p.inner == 1 ? p.outer : p.inner;
  const int64_t tiles = (rows + kRowsAside - 1) / kRowsAside;
  const int64_t per_chunk = std::max<int64_t>(1, kChunkElements / (n * kRowsAside));
  const double us = static_cast<double>(p.outer * p.inner * n) * 1e-3;
  parallel_for((blocks * tiles + per_chunk - 1) / per_chunk, us, [&](int64_t chunk) {
    float tile[kShortRow * kRowsAside];
    const int64_t end = std::min(blocks * tiles, (chunk + 1) * per_chunk);
    for (int64_t t = chunk * per_chunk; t < end; ++t) {
      const int64_t block = t / tiles, first = t % tiles * kRowsAside;
      ShortRows at{.rows = std::min(kRowsAside, rows - first),
                   .size = n,
                   .row_step = p.inner == 1 ? n : 1,
                   .step = p.inner};
      at.read(tile, in + block * n * p.inner + first * at.row_step);
      run_aside(p.fn, tile, n);
      at.size = results;
      at.row_step = p.inner == 1 ? results : 1;
      at.write(out + block * results * p.inner + first * at.row_step, tile);
    }
  });
}

// Rows [begin, end) of the inner axes of one outer index, through a buffer.
template <class T, class C>
void run_gathered(const RowsParams& p, C* buffer, T* out, const T* in, int64_t rows) {
  const int64_t n = p.size, stride = p.inner;
  const int64_t results = p.fn == RowFn::kLogSumExp ? 1 : n;
  if (stride == 1) {  // of a half type
    load_row(buffer, in, n);
    run_row(row_math<C>(), p.fn, buffer, buffer, n);
    return store_row(out, buffer, results);
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t r = 0; r < rows; ++r) buffer[r * n + i] = static_cast<C>(in[i * stride + r]);
  }
  for (int64_t r = 0; r < rows; ++r)
    run_row(row_math<C>(), p.fn, buffer + r * n, buffer + r * n, n);
  for (int64_t i = 0; i < results; ++i) {
    for (int64_t r = 0; r < rows; ++r) out[i * stride + r] = T(buffer[r * n + i]);
  }
}

template <class T, class C>
bool run_rows(const KernelCall& call) {
  const auto& p = *static_cast<const RowsParams*>(call.params);
  const T* in = static_cast<const T*>(call.in[0]);
  T* out = static_cast<T*>(call.out[0]);
  const bool direct = std::is_same_v<T, C> && p.inner == 1;
  if constexpr (std::is_same_v<C, float>) {
    if (has_short_rows(p, direct)) return run_short(p, out, in), true;
  }
  const int64_t n = p.size, results = p.fn == RowFn::kLogSumExp ? 1 : n;
  // A task is a tile of rows that lie side by side.
  const int64_t tile = p.inner == 1 ? 1 : kTile;
  const int64_t tiles = (p.inner + tile - 1) / tile, tasks = p.outer * tiles;
  const int64_t per_chunk = std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, n * tile));
  std::atomic<bool> fine{true};
  const double us = static_cast<double>(p.outer * p.inner * n) * (direct ? 1e-3 : 3e-3);
  parallel_for((tasks + per_chunk - 1) / per_chunk, us, [&](int64_t chunk) {
    Scratch scratch(direct ? 0 : tile * n * static_cast<int64_t>(sizeof(C)));
    C* buffer = reinterpret_cast<C*>(scratch.data());
    if (buffer == nullptr) {
      fine = false;
      return;
    }
    for (int64_t task = chunk * per_chunk; task < std::min(tasks, (chunk + 1) * per_chunk);
         ++task) {
      const int64_t outer = task / tiles, first = task % tiles * tile;
      const int64_t rows = std::min(tile, p.inner - first);
      T* to = out + outer * results * p.inner + first;
      const T* from = in + outer * n * p.inner + first;
      if constexpr (std::is_same_v<T, C>) {
        if (direct) {
          run_row(row_math<C>(), p.fn, to, from, n);
          continue;
        }
      }
      run_gathered<T, C>(p, buffer, to, from, rows);
    }
  });
  return fine ? true : Scratch::report();
}

template <class C>
void gradient_row(C* dx, const C* y, const C* ct, int64_t n) {
  const RowMath<C>& math = row_math<C>();
  math.weigh_difference(dx, y, ct, n, math.dot(y, ct, n));
}

template <class T, class C>
bool run_gradient(const KernelCall& call) {
  const auto& p = *static_cast<const RowsParams*>(call.params);
  const T *y = static_cast<const T*>(call.in[0]), *ct = static_cast<const T*>(call.in[1]);
  T* out = static_cast<T*>(call.out[0]);
  const int64_t n = p.size, rows = p.outer * p.inner;
  const bool direct = std::is_same_v<T, C> && p.inner == 1;
  const int64_t per_chunk = std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, n));
  std::atomic<bool> fine{true};
  parallel_for((rows + per_chunk - 1) / per_chunk, static_cast<double>(rows * n) * 1e-3,
               [&](int64_t chunk) {
                 Scratch scratch(direct ? 0 : 2 * n * static_cast<int64_t>(sizeof(C)));
                 C* buffer = reinterpret_cast<C*>(scratch.data());
                 if (buffer == nullptr) {
                   fine = false;
                   return;
                 }
                 for (int64_t row = chunk * per_chunk;
                      row < std::min(rows, (chunk + 1) * per_chunk); ++row) {
                   const int64_t at = row / p.inner * n * p.inner + row % p.inner;
                   if constexpr (std::is_same_v<T, C>) {
                     if (direct) {
                       gradient_row(out + at, y + at, ct + at, n);
                       continue;
                     }
                   }
                   if (p.inner == 1) {  // of a half type
                     load_row(buffer, y + at, n);
                     load_row(buffer + n, ct + at, n);
                     gradient_row(buffer, buffer, buffer + n, n);
                     store_row(out + at, buffer, n);
                     continue;
                   }
                   for (int64_t i = 0; i < n; ++i) {
                     buffer[i] = static_cast<C>(y[at + i * p.inner]);
                     buffer[n + i] = static_cast<C>(ct[at + i * p.inner]);
                   }
                   gradient_row(buffer, buffer, buffer + n, n);
                   for (int64_t i = 0; i < n; ++i) out[at + i * p.inner] = T(buffer[i]);
                 }
               });
  return fine ? true : Scratch::report();
}

etude::internal::RefPtr<RowsParams> rows_along(const Shape& shape, int axis) {
  auto p = etude::internal::make_ref<RowsParams>();
  for (int i = 0; i < shape.rank(); ++i) {
    if (i < axis)
      p->outer *= shape[i];
    else if (i > axis)
      p->inner *= shape[i];
    else
      p->size = shape[i];
  }
  return p;
}

}  // namespace

void prepare_softmax_gradient(const PrepareCall& call, int axis) {
  const auto p = rows_along(call.shape(0), axis);
  call.out.in_place |= 3;
  visit_floating(call.dtype(0), [&]<class T, class C>() { call.set(run_gradient<T, C>, p); });
}

void prepare_rows(const PrepareCall& call, RowFn fn, int axis) {
  const auto p = rows_along(call.shape(0), axis);
  p->fn = fn;
  visit_floating(call.dtype(0), [&]<class T, class C>() { call.set(run_rows<T, C>, p); });
}

}  // namespace etude::kernels::cpu
