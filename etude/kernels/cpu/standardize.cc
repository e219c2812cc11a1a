// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/standardize.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <type_traits>
#include <vector>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/floating.h"
#include "etude/kernels/cpu/thread_scratch.h"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kChunkElements = 1 << 12;  // two operands of a chunk fit the first cache
constexpr int64_t kLeastRows = 8;            // so that statistics of chunks stay few
constexpr int64_t kMostSums = 32;            // partial sums of the gradients of scale and offset
constexpr double kElementsPerUs = 2e3;       // of one pass on one thread, roughly

enum Purpose { kFirst = 50, kSecond };

struct StandardizeParams : KernelParams {
  int64_t rows = 0, n = 0, chunk_rows = 1, chunks = 0;
  double epsilon = 0;

  int64_t begin(int64_t chunk) const { return chunk * chunk_rows; }
  int64_t count(int64_t chunk) const { return std::min(chunk_rows, rows - begin(chunk)); }
};

// Rows of an operand or result as C. Half types are converted on the way.
template <class T, class C, int kPurpose>
const C* read_rows(const T* from, int64_t count) {
  if constexpr (std::is_same_v<T, C>) {
    return from;
  } else {
    C* to = thread_scratch<C, kPurpose>(count);
    std::transform(from, from + count, to, [](T v) { return static_cast<C>(v); });
    return to;
  }
}
template <class T, class C>
std::vector<C> read_all(const void* from, int64_t n, C absent) {
  if (from == nullptr) return std::vector<C>(static_cast<std::size_t>(n), absent);
  const T* p = static_cast<const T*>(from);
  std::vector<C> out(static_cast<std::size_t>(n));
  std::transform(p, p + n, out.begin(), [](T v) { return static_cast<C>(v); });
  return out;
}
// Where a loop writes `count` results: to their place, or to memory that write_rows rounds from.
template <class T, class C>
C* target_rows(T* to, int64_t count) {
  if constexpr (std::is_same_v<T, C>) {
    return to;
  } else {
    return thread_scratch<C, kFirst>(count);
  }
}
template <class T, class C>
void write_rows(T* to, const C* from, int64_t count) {
  if constexpr (!std::is_same_v<T, C>) {
    std::transform(from, from + count, to, [](C v) { return T(v); });
  }
}

template <class T, class C>
void write_all(T* to, const std::vector<C>& from) {
  std::transform(from.begin(), from.end(), to, [](C v) { return T(v); });
}

template <class F>
void for_chunks(const StandardizeParams& p, double passes, const F& f) {
  parallel_for(p.chunks, passes * static_cast<double>(p.rows * p.n) / kElementsPerUs, f);
}
// A second pass begins where the first one ended: that part is still in the caches.
template <class F>
void for_chunks_back(const StandardizeParams& p, double passes, const F& f) {
  for_chunks(p, passes, [&](int64_t chunk) { f(p.chunks - 1 - chunk); });
}

// Per column, in double. `sum` and `product` are of the cotangents, about the mean of all.
struct Columns {
  std::vector<double> mean, variance, sum, product;
};

// The statistics of chunks joined in their order (Chan, Golub, LeVeque 1983). `parts` holds
// `kinds` arrays of n per chunk: mean, squares, then perhaps sum and product.
template <class C>
Columns join(const StandardizeParams& p, const std::vector<C>& parts, int64_t kinds) {
  const auto n = static_cast<std::size_t>(p.n);
  Columns all;
  all.mean.assign(n, 0), all.variance.assign(n, 0);
  double rows = 0;
  for (int64_t c = 0; c < p.chunks; ++c) {
    const C* part = parts.data() + c * kinds * p.n;
    const auto more = static_cast<double>(p.count(c));
    const double share = more / (rows + more), weight = rows * share;
    for (std::size_t j = 0; j < n; ++j) {
      const double away = part[j] - all.mean[j];
      all.mean[j] += away * share;
      all.variance[j] += part[n + j] + away * away * weight;
    }
    rows += more;
  }
  for (double& v : all.variance) v /= rows;
  if (rows == 0) all.mean = all.variance;  // NaN, as the mean of nothing is
  if (kinds == 2) return all;
  all.sum.assign(n, 0), all.product.assign(n, 0);
  for (int64_t c = 0; c < p.chunks; ++c) {
    const C* part = parts.data() + c * kinds * p.n;
    for (std::size_t j = 0; j < n; ++j) {
      all.sum[j] += part[2 * n + j];
      all.product[j] += part[3 * n + j] + part[2 * n + j] * (part[j] - all.mean[j]);
    }
  }
  return all;
}

// y from the statistics, rounded as they are results in C: another call has the same bits.
template <class T, class C>
void apply_columns(const StandardizeParams& p, const KernelCall& call, const std::vector<C>& mean,
                   const std::vector<C>& variance) {
  const T* x = static_cast<const T*>(call.in[0]);
  T* y = static_cast<T*>(call.out[0]);
  std::vector<C> factor = read_all<T, C>(call.in[1], p.n, 1);
  const std::vector<C> offset = read_all<T, C>(call.in[2], p.n, 0);
  for (std::size_t j = 0; j < factor.size(); ++j) {
    factor[j] = static_cast<C>(factor[j] / std::sqrt(variance[j] + p.epsilon));
  }
  for_chunks_back(p, 1, [&](int64_t c) {
    const int64_t at = p.begin(c) * p.n, count = p.count(c) * p.n;
    const C* from = read_rows<T, C, kSecond>(x + at, count);
    C* to = target_rows<T, C>(y + at, count);
    standardize_math<C>().apply(to, from, p.count(c), p.n, mean.data(), factor.data(),
                                offset.data());
    write_rows(y + at, to, count);
  });
}

template <class T, class C>
void columns_forward(const StandardizeParams& p, const KernelCall& call) {
  const StandardizeMath<C>& math = standardize_math<C>();
  const T* x = static_cast<const T*>(call.in[0]);
  std::vector<C> parts(static_cast<std::size_t>(p.chunks * 2 * p.n));
  for_chunks(p, 1, [&](int64_t c) {
    C* part = parts.data() + c * 2 * p.n;
    math.moments(read_rows<T, C, kFirst>(x + p.begin(c) * p.n, p.count(c) * p.n), p.count(c), p.n,
                 part, part + p.n);
  });
  const Columns all = join(p, parts, 2);
  const std::vector<C> mean(all.mean.begin(), all.mean.end());
  const std::vector<C> variance(all.variance.begin(), all.variance.end());
  write_all(static_cast<T*>(call.out[1]), mean);
  write_all(static_cast<T*>(call.out[2]), variance);
  apply_columns<T, C>(p, call, mean, variance);
}

template <class C>
void columns_by(const StandardizeParams& p, const KernelCall& call) {
  apply_columns<C, C>(p, call, read_all<C, C>(call.in[3], p.n, 0),
                      read_all<C, C>(call.in[4], p.n, 0));
}

template <class T, class C>
void columns_backward(const StandardizeParams& p, const KernelCall& call) {
  const StandardizeMath<C>& math = standardize_math<C>();
  const T *x = static_cast<const T*>(call.in[0]), *ct = static_cast<const T*>(call.in[2]);
  T* dx = static_cast<T*>(call.out[0]);
  std::vector<C> parts(static_cast<std::size_t>(p.chunks * 4 * p.n));
  for_chunks(p, 2, [&](int64_t c) {
    const int64_t at = p.begin(c) * p.n, count = p.count(c) * p.n;
    C* part = parts.data() + c * 4 * p.n;
    math.products(read_rows<T, C, kFirst>(x + at, count), read_rows<T, C, kSecond>(ct + at, count),
                  p.count(c), p.n, part, part + p.n, part + 2 * p.n, part + 3 * p.n);
  });
  const Columns all = join(p, parts, 4);
  const auto rows = static_cast<double>(p.rows);
  const std::vector<C> mean(all.mean.begin(), all.mean.end());
  std::vector<C> a = read_all<T, C>(call.in[1], p.n, 1), b(a.size()), c(a.size());
  for (std::size_t j = 0; j < a.size(); ++j) {
    const double r = 1 / std::sqrt(all.variance[j] + p.epsilon), factor = a[j] * r;
    a[j] = static_cast<C>(factor);
    b[j] = static_cast<C>(factor * all.sum[j] / rows);
    c[j] = static_cast<C>(factor * r * r * all.product[j] / rows);
    static_cast<T*>(call.out[1])[j] = T(static_cast<C>(r * all.product[j]));
    static_cast<T*>(call.out[2])[j] = T(static_cast<C>(all.sum[j]));
  }
  for_chunks_back(p, 2, [&](int64_t chunk) {
    const int64_t at = p.begin(chunk) * p.n, count = p.count(chunk) * p.n;
    const C* from = read_rows<T, C, kFirst>(x + at, count);
    const C* with = read_rows<T, C, kSecond>(ct + at, count);
    C* to = target_rows<T, C>(dx + at, count);
    math.gradient(to, from, with, p.count(chunk), p.n, mean.data(), a.data(), b.data(), c.data());
    write_rows(dx + at, to, count);
  });
}

template <class T, class C>
void rows_forward(const StandardizeParams& p, const KernelCall& call) {
  const StandardizeMath<C>& math = standardize_math<C>();
  const std::vector<C> scale = read_all<T, C>(call.in[1], p.n, 1);
  const std::vector<C> offset = read_all<T, C>(call.in[2], p.n, 0);
  const C* scales = call.in[1] != nullptr ? scale.data() : nullptr;
  const C* offsets = call.in[2] != nullptr ? offset.data() : nullptr;
  for_chunks(p, 2, [&](int64_t c) {
    for (int64_t row = p.begin(c); row < p.begin(c) + p.count(c); ++row) {
      T* y = static_cast<T*>(call.out[0]) + row * p.n;
      const C* from = read_rows<T, C, kSecond>(static_cast<const T*>(call.in[0]) + row * p.n, p.n);
      C* to = target_rows<T, C>(y, p.n);
      C mean, variance;
      math.row(to, from, p.n, scales, offsets, static_cast<C>(p.epsilon), &mean, &variance);
      write_rows(y, to, p.n);
      static_cast<T*>(call.out[1])[row] = T(mean);
      static_cast<T*>(call.out[2])[row] = T(variance);
    }
  });
}

template <class C>
void rows_by(const StandardizeParams& p, const KernelCall& call) {
  const auto in = [&](std::size_t i) { return static_cast<const C*>(call.in[i]); };
  for_chunks(p, 1, [&](int64_t c) {
    for (int64_t row = p.begin(c); row < p.begin(c) + p.count(c); ++row) {
      standardize_math<C>().row_by(static_cast<C*>(call.out[0]) + row * p.n, in(0) + row * p.n, p.n,
                                   in(1), in(2), static_cast<C>(p.epsilon), in(3)[row], in(4)[row]);
    }
  });
}

template <class T, class C>
void rows_backward(const StandardizeParams& p, const KernelCall& call) {
  const StandardizeMath<C>& math = standardize_math<C>();
  const std::vector<C> scale = read_all<T, C>(call.in[1], p.n, 1);
  const C* scales = call.in[1] != nullptr ? scale.data() : nullptr;
  // Few sums, of chunks that follow from the shape alone.
  const int64_t sums = std::min(kMostSums, p.chunks);
  std::vector<C> parts(static_cast<std::size_t>(sums * 2 * p.n));
  const double us = 4 * static_cast<double>(p.rows * p.n) / kElementsPerUs;
  parallel_for(sums, us, [&](int64_t s) {
    C* to_scale = parts.data() + s * 2 * p.n;
    for (int64_t row = s * p.rows / sums; row < (s + 1) * p.rows / sums; ++row) {
      const int64_t at = row * p.n;
      T* dx = static_cast<T*>(call.out[0]) + at;
      const C* x = read_rows<T, C, kFirst>(static_cast<const T*>(call.in[0]) + at, p.n);
      const C* ct = read_rows<T, C, kSecond>(static_cast<const T*>(call.in[2]) + at, p.n);
      C* to = target_rows<T, C>(dx, p.n);
      math.row_gradient(to, x, ct, p.n, scales, static_cast<C>(p.epsilon), to_scale,
                        to_scale + p.n);
      write_rows(dx, to, p.n);
    }
  });
  for (int64_t j = 0; j < p.n; ++j) {
    C to_scale = 0, to_offset = 0;
    for (int64_t s = 0; s < sums; ++s) {
      to_scale += parts[static_cast<std::size_t>(s * 2 * p.n + j)];
      to_offset += parts[static_cast<std::size_t>((s * 2 + 1) * p.n + j)];
    }
    static_cast<T*>(call.out[1])[j] = T(to_scale);
    static_cast<T*>(call.out[2])[j] = T(to_offset);
  }
}

using Body = void (*)(const StandardizeParams&, const KernelCall&);

template <Body kBody>
bool run(const KernelCall& call) try {
  kBody(*static_cast<const StandardizeParams*>(call.params), call);
  return true;
} catch (const std::bad_alloc&) {
  return report_fault(ErrorCode::kResourceExhausted, "the host has no memory left for this call");
}

// The kernel by rows or by columns.
struct Choice {
  KernelFn rows, columns;
};

internal::RefPtr<StandardizeParams> params(const PrepareCall& call) {
  auto p = internal::make_ref<StandardizeParams>();
  p->rows = call.shape(0)[0];
  p->n = call.shape(0)[1];
  p->epsilon = call.attrs.real("epsilon");
  const int64_t rows = kChunkElements / std::max<int64_t>(1, p->n);
  p->chunk_rows = std::max(rows, kLeastRows);
  p->chunks = (p->rows + p->chunk_rows - 1) / p->chunk_rows;
  return p;
}

void set(const PrepareCall& call, Choice choice) {
  call.set(call.attrs.flag("columns") ? choice.columns : choice.rows, params(call));
}

}  // namespace

void prepare_standardize(const PrepareCall& call) {
  visit_floating(call.dtype(0), [&]<class T, class C>() {
    set(call, {run<rows_forward<T, C>>, run<columns_forward<T, C>>});
  });
}

void prepare_standardize_by(const PrepareCall& call) {
  visit_floating(call.dtype(0), [&]<class T, class C>() {
    if constexpr (std::is_same_v<T, C>) set(call, {run<rows_by<C>>, run<columns_by<C>>});
  });
}

void prepare_standardize_gradient(const PrepareCall& call) {
  visit_floating(call.dtype(0), [&]<class T, class C>() {
    set(call, {run<rows_backward<T, C>>, run<columns_backward<T, C>>});
  });
}

}  // namespace etude::kernels::cpu
