// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/reduce/standardize.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/floating.h"
#include "etude/kernels/cpu/halves.h"
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

  void set_shape(int64_t rows_, int64_t n_) {
    rows = rows_, n = n_;
    chunk_rows = std::max(kChunkElements / std::max<int64_t>(1, n), kLeastRows);
    chunks = (rows + chunk_rows - 1) / chunk_rows;
  }
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
    widen_row(to, from, count);
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
    narrow_row(to, from, count);
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

template <class T, class C>
Columns column_moments(const StandardizeParams& p, const T* x) {
  std::vector<C> parts(static_cast<std::size_t>(p.chunks * 2 * p.n));
  for_chunks(p, 1, [&](int64_t c) {
    C* part = parts.data() + c * 2 * p.n;
    standardize_math<C>().moments(read_rows<T, C, kFirst>(x + p.begin(c) * p.n, p.count(c) * p.n),
                                  p.count(c), p.n, part, part + p.n);
  });
  return join(p, parts, 2);
}

template <class T, class C>
Columns column_products(const StandardizeParams& p, const T* x, const T* ct) {
  std::vector<C> parts(static_cast<std::size_t>(p.chunks * 4 * p.n));
  for_chunks(p, 2, [&](int64_t c) {
    const int64_t at = p.begin(c) * p.n, count = p.count(c) * p.n;
    C* part = parts.data() + c * 4 * p.n;
    standardize_math<C>().products(read_rows<T, C, kFirst>(x + at, count),
                                   read_rows<T, C, kSecond>(ct + at, count), p.count(c), p.n, part,
                                   part + p.n, part + 2 * p.n, part + 3 * p.n);
  });
  return join(p, parts, 4);
}

// y = (x - mean) * factor + offset, each per column.
template <class C>
struct Affine {
  std::vector<C> mean, factor, offset;
};

template <class T, class C>
void apply_columns(const StandardizeParams& p, T* y, const T* x, const Affine<C>& f) {
  for_chunks_back(p, 1, [&](int64_t c) {
    const int64_t at = p.begin(c) * p.n, count = p.count(c) * p.n;
    const C* from = read_rows<T, C, kSecond>(x + at, count);
    C* to = target_rows<T, C>(y + at, count);
    standardize_math<C>().apply(to, from, p.count(c), p.n, f.mean.data(), f.factor.data(),
                                f.offset.data());
    write_rows(y + at, to, count);
  });
}

// dx = a * ct - (b + c * (x - mean)), each per column.
template <class C>
struct Slopes {
  std::vector<C> mean, a, b, c;
};

template <class T, class C>
void apply_slopes(const StandardizeParams& p, T* dx, const T* x, const T* ct, const Slopes<C>& f) {
  for_chunks_back(p, 2, [&](int64_t chunk) {
    const int64_t at = p.begin(chunk) * p.n, count = p.count(chunk) * p.n;
    const C* from = read_rows<T, C, kFirst>(x + at, count);
    const C* with = read_rows<T, C, kSecond>(ct + at, count);
    C* to = target_rows<T, C>(dx + at, count);
    standardize_math<C>().gradient(to, from, with, p.count(chunk), p.n, f.mean.data(), f.a.data(),
                                   f.b.data(), f.c.data());
    write_rows(dx + at, to, count);
  });
}

// y from the statistics, rounded as they are results in C: another call has the same bits.
template <class T, class C>
void apply_statistics(const StandardizeParams& p, const KernelCall& call, std::vector<C> mean,
                      const std::vector<C>& variance) {
  std::vector<C> factor = read_all<T, C>(call.in[1], p.n, 1);
  for (std::size_t j = 0; j < factor.size(); ++j) {
    factor[j] = static_cast<C>(factor[j] / std::sqrt(variance[j] + p.epsilon));
  }
  apply_columns<T, C>(p, static_cast<T*>(call.out[0]), static_cast<const T*>(call.in[0]),
                      {std::move(mean), std::move(factor), read_all<T, C>(call.in[2], p.n, 0)});
}

template <class T, class C>
void columns_forward(const StandardizeParams& p, const KernelCall& call) {
  const Columns all = column_moments<T, C>(p, static_cast<const T*>(call.in[0]));
  const std::vector<C> mean(all.mean.begin(), all.mean.end());
  const std::vector<C> variance(all.variance.begin(), all.variance.end());
  write_all(static_cast<T*>(call.out[1]), mean);
  write_all(static_cast<T*>(call.out[2]), variance);
  apply_statistics<T, C>(p, call, mean, variance);
}

template <class C>
void columns_by(const StandardizeParams& p, const KernelCall& call) {
  apply_statistics<C, C>(p, call, read_all<C, C>(call.in[3], p.n, 0),
                         read_all<C, C>(call.in[4], p.n, 0));
}

template <class T, class C>
void columns_backward(const StandardizeParams& p, const KernelCall& call) {
  const T *x = static_cast<const T*>(call.in[0]), *ct = static_cast<const T*>(call.in[2]);
  const Columns all = column_products<T, C>(p, x, ct);
  const auto rows = static_cast<double>(p.rows);
  Slopes<C> f = {{all.mean.begin(), all.mean.end()}, read_all<T, C>(call.in[1], p.n, 1), {}, {}};
  f.b.resize(f.a.size()), f.c.resize(f.a.size());
  for (std::size_t j = 0; j < f.a.size(); ++j) {
    const double r = 1 / std::sqrt(all.variance[j] + p.epsilon), factor = f.a[j] * r;
    f.a[j] = static_cast<C>(factor);
    f.b[j] = static_cast<C>(factor * all.sum[j] / rows);
    f.c[j] = static_cast<C>(factor * r * r * all.product[j] / rows);
    static_cast<T*>(call.out[1])[j] = T(static_cast<C>(r * all.product[j]));
    static_cast<T*>(call.out[2])[j] = T(static_cast<C>(all.sum[j]));
  }
  apply_slopes<T, C>(p, static_cast<T*>(call.out[0]), x, ct, f);
}

template <class T, class C>
void rows_forward(const StandardizeParams& p, const KernelCall& call) {
  const StandardizeMath<C>& math = standardize_math<C>();
  const std::vector<C> scale = read_all<T, C>(call.in[1], p.n, 1);
  const std::vector<C> offset = read_all<T, C>(call.in[2], p.n, 0);
  const C* scales = call.in[1] != nullptr ? scale.data() : nullptr;
  const C* offsets = call.in[2] != nullptr ? offset.data() : nullptr;
  for_chunks(p, 2, [&](int64_t c) {
    const int64_t begin = p.begin(c), rows = p.count(c), count = rows * p.n;
    T* y = static_cast<T*>(call.out[0]) + begin * p.n;
    const T* x = static_cast<const T*>(call.in[0]) + begin * p.n;
    const C* from = read_rows<T, C, kSecond>(x, count);
    C* to = target_rows<T, C>(y, count);
    for (int64_t r = 0; r < rows; ++r) {
      C mean, variance;
      math.row(to + r * p.n, from + r * p.n, p.n, scales, offsets, static_cast<C>(p.epsilon), &mean,
               &variance);
      static_cast<T*>(call.out[1])[begin + r] = T(mean);
      static_cast<T*>(call.out[2])[begin + r] = T(variance);
    }
    write_rows(y, to, count);
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
    const int64_t end = (s + 1) * p.rows / sums;
    for (int64_t begin = s * p.rows / sums; begin < end; begin += p.chunk_rows) {
      const int64_t rows = std::min(p.chunk_rows, end - begin), count = rows * p.n;
      T* dx = static_cast<T*>(call.out[0]) + begin * p.n;
      const T* in = static_cast<const T*>(call.in[0]) + begin * p.n;
      const C* x = read_rows<T, C, kFirst>(in, count);
      const C* ct =
          read_rows<T, C, kSecond>(static_cast<const T*>(call.in[2]) + begin * p.n, count);
      C* to = target_rows<T, C>(dx, count);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = r * p.n;
        math.row_gradient(to + at, x + at, ct + at, p.n, scales, static_cast<C>(p.epsilon),
                          to_scale, to_scale + p.n);
      }
      write_rows(dx, to, count);
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

// Examples of [rows, n], each with statistics over groups of adjacent columns.
struct GroupParams : StandardizeParams {
  int64_t examples = 0, groups = 1;

  // Of adjacent examples, whose work is done by one thread: a few large ones are split inside.
  int64_t blocks() const {
    constexpr int64_t kSmall = 1 << 16;
    const bool splits = examples < 16 && rows * n > kSmall;
    return splits ? 1 : std::min(kMostSums, examples);
  }
};

// Calls f(block, example) for all examples, in order within a block.
template <class F>
void for_examples(const GroupParams& p, double passes, const F& f) {
  const int64_t blocks = p.blocks();
  const auto run_block = [&](int64_t block) {
    const int64_t end = (block + 1) * p.examples / blocks;
    for (int64_t e = block * p.examples / blocks; e < end; ++e) f(block, e);
  };
  if (blocks == 1) return run_block(0);
  const auto elements = static_cast<double>(p.examples * p.rows * p.n);
  parallel_for(blocks, passes * elements / kElementsPerUs, run_block);
}

// Calls f(first, end) for the columns of each group.
template <class F>
void for_groups(const GroupParams& p, const F& f) {
  const auto size = static_cast<std::size_t>(p.n / p.groups);
  for (std::size_t at = 0; at < static_cast<std::size_t>(p.n); at += size) f(at, at + size);
}

// Sets all columns of a group to its mean and variance; sums of products are about that mean then.
void join_groups(const GroupParams& p, Columns& all) {
  for_groups(p, [&](std::size_t first, std::size_t end) {
    const auto size = static_cast<double>(end - first);
    double mean = 0, variance = 0;
    for (std::size_t j = first; j < end; ++j) mean += all.mean[j];
    mean /= size;
    for (std::size_t j = first; j < end; ++j) {
      const double away = all.mean[j] - mean;
      variance += all.variance[j] + away * away;
      if (!all.product.empty()) all.product[j] += all.sum[j] * away;
    }
    std::fill(all.mean.begin() + static_cast<std::ptrdiff_t>(first),
              all.mean.begin() + static_cast<std::ptrdiff_t>(end), mean);
    std::fill(all.variance.begin() + static_cast<std::ptrdiff_t>(first),
              all.variance.begin() + static_cast<std::ptrdiff_t>(end), variance / size);
  });
}

template <class T, class C>
void groups_forward(const GroupParams& p, const KernelCall& call) {
  const std::vector<C> scale = read_all<T, C>(call.in[1], p.n, 1);
  const std::vector<C> offset = read_all<T, C>(call.in[2], p.n, 0);
  for_examples(p, 2, [&](int64_t, int64_t e) {
    const T* x = static_cast<const T*>(call.in[0]) + e * p.rows * p.n;
    Columns all = column_moments<T, C>(p, x);
    join_groups(p, all);
    Affine<C> f = {{all.mean.begin(), all.mean.end()}, scale, offset};
    for (std::size_t j = 0; j < scale.size(); ++j) {
      f.factor[j] = static_cast<C>(scale[j] / std::sqrt(all.variance[j] + p.epsilon));
    }
    apply_columns<T, C>(p, static_cast<T*>(call.out[0]) + e * p.rows * p.n, x, f);
  });
}

// The partial derivatives of one example; adds to the gradients of scale and offset.
template <class C>
Slopes<C> group_slopes(const GroupParams& p, const Columns& all, const std::vector<C>& scale,
                       double* to_scale, double* to_offset) {
  Slopes<C> f = {{all.mean.begin(), all.mean.end()}, scale, scale, scale};
  for_groups(p, [&](std::size_t first, std::size_t end) {
    const double r = 1 / std::sqrt(all.variance[first] + p.epsilon);
    const double count = static_cast<double>(p.rows) * static_cast<double>(end - first);
    double sum = 0, product = 0;
    for (std::size_t j = first; j < end; ++j) {
      sum += scale[j] * all.sum[j];
      product += scale[j] * all.product[j];
      to_scale[j] += r * all.product[j];
      to_offset[j] += all.sum[j];
    }
    for (std::size_t j = first; j < end; ++j) {
      f.a[j] = static_cast<C>(scale[j] * r);
      f.b[j] = static_cast<C>(r * sum / count);
      f.c[j] = static_cast<C>(r * r * r * product / count);
    }
  });
  return f;
}

template <class T, class C>
void groups_backward(const GroupParams& p, const KernelCall& call) {
  const std::vector<C> scale = read_all<T, C>(call.in[1], p.n, 1);
  std::vector<double> sums(static_cast<std::size_t>(p.blocks() * 2 * p.n));
  for_examples(p, 4, [&](int64_t block, int64_t e) {
    const int64_t at = e * p.rows * p.n;
    const T *x = static_cast<const T*>(call.in[0]) + at,
            *ct = static_cast<const T*>(call.in[2]) + at;
    Columns all = column_products<T, C>(p, x, ct);
    join_groups(p, all);
    double* to_scale = sums.data() + block * 2 * p.n;
    apply_slopes<T, C>(p, static_cast<T*>(call.out[0]) + at, x, ct,
                       group_slopes<C>(p, all, scale, to_scale, to_scale + p.n));
  });
  for (int64_t j = 0; j < 2 * p.n; ++j) {
    double total = 0;
    for (int64_t block = 0; block < p.blocks(); ++block) {
      total += sums[static_cast<std::size_t>(block * 2 * p.n + j)];
    }
    static_cast<T*>(call.out[j < p.n ? 1 : 2])[j % p.n] = T(static_cast<C>(total));
  }
}

template <auto kBody, class Params = StandardizeParams>
bool run(const KernelCall& call) try {
  kBody(*static_cast<const Params*>(call.params), call);
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
  p->set_shape(call.shape(0)[0], call.shape(0)[1]);
  p->epsilon = call.attrs.real("epsilon");
  return p;
}

void set(const PrepareCall& call, Choice choice) {
  call.set(call.attrs.flag("columns") ? choice.columns : choice.rows, params(call));
}

internal::RefPtr<GroupParams> group_params(const PrepareCall& call) {
  auto p = internal::make_ref<GroupParams>();
  p->set_shape(call.shape(0)[1], call.shape(0)[2]);
  p->examples = call.shape(0)[0];
  p->groups = call.attrs.integer("groups");
  p->epsilon = call.attrs.real("epsilon");
  return p;
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

void prepare_standardize_groups(const PrepareCall& call) {
  visit_floating(call.dtype(0), [&]<class T, class C>() {
    call.set(run<groups_forward<T, C>, GroupParams>, group_params(call));
  });
}

void prepare_standardize_groups_gradient(const PrepareCall& call) {
  visit_floating(call.dtype(0), [&]<class T, class C>() {
    call.set(run<groups_backward<T, C>, GroupParams>, group_params(call));
  });
}

}  // namespace etude::kernels::cpu
