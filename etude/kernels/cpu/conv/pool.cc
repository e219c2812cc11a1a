// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/conv/pool.h"

#include <algorithm>
#include <complex>
#include <type_traits>

#include "etude/base/check.h"
#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/conv/pool_mean.h"
#include "etude/kernels/cpu/halves.h"
#include "etude/kernels/cpu/thread_scratch.h"

namespace etude::kernels::cpu {
namespace {

constexpr double kElementsPerUs = 1000;
constexpr int64_t kChunkElements = 1 << 15;

enum Purpose { kColumns = 20, kIndices, kShares, kWide, kWideResult };

struct PoolParams : KernelParams {
  PoolPlan plan;
  DType dtype = kFloat32;
};

// The part of a window that lies inside an axis.
struct Part {
  int64_t begin, end;
};
Part part(int64_t i, int64_t stride, int64_t before, int64_t window, int64_t size) {
  const int64_t first = i * stride - before;
  return {std::max<int64_t>(first, 0), std::min(first + window, size)};
}

// Values of T are compared and added as this type.
template <class T>
using Sum = std::conditional_t<internal::kIsHalf<T>, float, T>;

// x as Sum<T>, until this thread asks again.
template <class T>
const Sum<T>* widened(const T* x, int64_t count) {
  if constexpr (std::is_same_v<T, Sum<T>>) {
    return x;
  } else {
    float* wide = thread_scratch<float, kWide>(count);
    widen_row(wide, x, count);
    return wide;
  }
}

// f(to, from) on Sum<T>, for `results` results from `count` elements.
template <class T, class F>
void widely(T* to, int64_t results, const T* from, int64_t count, F&& f) {
  if constexpr (std::is_same_v<T, Sum<T>>) {
    f(to, from);
  } else {
    float* wide = thread_scratch<float, kWideResult>(results);
    f(wide, widened(from, count));
    narrow_row(to, wide, results);
  }
}

// Calls body(image) for all images, in chunks of equal size.
template <class F>
void for_each_image(const PoolPlan& p, F&& body) {
  const int64_t per_chunk = std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, p.image()));
  const double us = static_cast<double>(p.n * p.image()) / kElementsPerUs;
  parallel_for((p.n + per_chunk - 1) / per_chunk, us, [&](int64_t chunk) {
    const int64_t end = std::min(p.n, (chunk + 1) * per_chunk);
    for (int64_t n = chunk * per_chunk; n < end; ++n) body(n);
  });
}

// The first NaN is the largest value. Without branches, so that loops become vectors.
template <class T>
bool exceeds(T x, T best) {
  return (int{x > best} | (int{x != x} & int{best == best})) != 0;
}

// to[i] = the larger of to[i] and from[i], whole rows at a time.
template <class T>
void keep_larger(T* to, const T* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = exceeds(from[i], to[i]) ? from[i] : to[i];
}

// One row of results: first down the columns of the image, then across.
template <class T>
void max_row(const PoolPlan& p, T* y, const T* x, int64_t row) {
  const Part down = part(row, p.sh, p.top, p.kh, p.h);
  const int64_t width = p.w * p.c;
  T* best = thread_scratch<T, kColumns>(width);
  std::copy_n(x + down.begin * width, width, best);
  for (int64_t r = down.begin + 1; r < down.end; ++r) keep_larger(best, x + r * width, width);
  for (int64_t s = 0; s < p.ow; ++s) {
    const Part across = part(s, p.sw, p.left, p.kw, p.w);
    T* to = y + s * p.c;
    const T* first = best + across.begin * p.c;
    if (across.end - across.begin == 1) {
      std::copy_n(first, p.c, to);
      continue;
    }
    for (int64_t c = 0; c < p.c; ++c) {
      to[c] = exceeds(first[p.c + c], first[c]) ? first[p.c + c] : first[c];
    }
    for (int64_t t = across.begin + 2; t < across.end; ++t) keep_larger(to, best + t * p.c, p.c);
  }
}

template <class T>
void run_max(const PoolPlan& p, T* y, const T* x) {
  for_each_image(p, [&](int64_t n) {
    widely(y + n * p.result(), p.result(), x + n * p.image(), p.image(),
           [&](auto* to, const auto* from) {
             for (int64_t row = 0; row < p.oh; ++row) {
               max_row(p, to + row * p.ow * p.c, from, row);
             }
           });
  });
}

// The largest value of each column of rows [down.begin, down.end), and the first row it is in.
template <class T>
void column_maxima(T* __restrict best, int32_t* __restrict where, const T* __restrict x, Part down,
                   int64_t width) {
  std::copy_n(x + down.begin * width, width, best);
  std::fill_n(where, width, static_cast<int32_t>(down.begin));
  for (int64_t r = down.begin + 1; r < down.end; ++r) {
    const T* from = x + r * width;
    const auto row = static_cast<int32_t>(r);
    for (int64_t i = 0; i < width; ++i) {
      // exceeds(x, b) and selection as bits, so that the compiler makes vector instructions.
      const T x = from[i], b = best[i];
      const int32_t above = x > b ? -1 : 0, x_is_nan = x != x ? -1 : 0, b_is_not = b == b ? -1 : 0;
      const int32_t larger = above | (x_is_nan & b_is_not);
      where[i] = (row & larger) | (where[i] & ~larger);
      best[i] = larger != 0 ? x : b;
    }
  }
}

// Calls body(result, place) for every result of one image: the offset of the first maximum of its
// window in x, in row-major order.
template <class T, class F>
void for_each_maximum(const PoolPlan& p, const T* x, F&& body) {
  const int64_t width = p.w * p.c;
  T* best = thread_scratch<T, kColumns>(width);
  int32_t* where = thread_scratch<int32_t, kIndices>(width);
  for (int64_t row = 0; row < p.oh; ++row) {
    column_maxima(best, where, x, part(row, p.sh, p.top, p.kh, p.h), width);
    for (int64_t s = 0; s < p.ow; ++s) {
      const Part across = part(s, p.sw, p.left, p.kw, p.w);
      for (int64_t c = 0; c < p.c; ++c) {
        int64_t at = across.begin * p.c + c;
        for (int64_t i = at + p.c; i < across.end * p.c; i += p.c) {
          // Of equal columns the one whose maximum comes first, and the left one within a row.
          // Without branches: which one wins cannot be predicted.
          const bool larger = exceeds(best[i], best[at]), smaller = exceeds(best[at], best[i]);
          const bool wins = larger | (!smaller & (where[i] < where[at]));
          at += (i - at) & -static_cast<int64_t>(wins);
        }
        body((row * p.ow + s) * p.c + c, where[at] * width + at);
      }
    }
  }
}

template <class T>
void run_scatter(const PoolPlan& p, T* out, const T* ct, const T* x) {
  for_each_image(p, [&](int64_t n) {
    T* to = out + n * p.image();
    const T* from = ct + n * p.result();
    std::fill_n(to, p.image(), T{});
    for_each_maximum(p, widened(x + n * p.image(), p.image()),
                     [&](int64_t i, int64_t at) { to[at] = static_cast<T>(to[at] + from[i]); });
  });
}

template <class T>
void run_gather(const PoolPlan& p, T* y, const T* g, const T* x) {
  for_each_image(p, [&](int64_t n) {
    for_each_maximum(p, widened(x + n * p.image(), p.image()),
                     [&](int64_t i, int64_t at) { y[n * p.result() + i] = g[n * p.image() + at]; });
  });
}

template <class T>
void add_row(T* __restrict to, const T* __restrict from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

// to[i] = from[i] over the number of elements in its window, for one row of results.
template <class T>
void divide_row(const PoolPlan& p, T* __restrict to, const T* __restrict from, int64_t rows) {
  const auto divide = [&](int64_t begin, int64_t end, int64_t columns) {
    const auto count = static_cast<float>(rows * columns);
    for (int64_t i = begin * p.c; i < end * p.c; ++i) {
      to[i] = static_cast<T>(from[i] / count);
    }
  };
  if (p.left == 0 && (p.ow - 1) * p.sw + p.kw <= p.w) return divide(0, p.ow, p.kw);
  for (int64_t s = 0; s < p.ow; ++s) {
    const Part across = part(s, p.sw, p.left, p.kw, p.w);
    divide(s, s + 1, across.end - across.begin);
  }
}

// One row of results: first down the columns of the image, then across.
template <class T>
void mean_row(const PoolPlan& p, T* y, const T* x, int64_t row) {
  const Part down = part(row, p.sh, p.top, p.kh, p.h);
  const int64_t width = p.w * p.c;
  T* columns = thread_scratch<T, kColumns>(width);
  std::fill_n(columns, width, T{});
  for (int64_t r = down.begin; r < down.end; ++r) add_row(columns, x + r * width, width);
  T* sums = thread_scratch<T, kIndices>(p.ow * p.c);
  for (int64_t s = 0; s < p.ow; ++s) {
    const Part across = part(s, p.sw, p.left, p.kw, p.w);
    std::copy_n(columns + across.begin * p.c, p.c, sums + s * p.c);
    for (int64_t t = across.begin + 1; t < across.end; ++t) {
      add_row(sums + s * p.c, columns + t * p.c, p.c);
    }
  }
  divide_row(p, y, sums, down.end - down.begin);
}

// Whether no window is cut at a border.
bool lies_inside(const PoolPlan& p) {
  return p.top == 0 && p.left == 0 && (p.oh - 1) * p.sh + p.kh <= p.h &&
         (p.ow - 1) * p.sw + p.kw <= p.w;
}

MeanWindows windows_of(const PoolPlan& p) {
  return {.count = p.ow,
          .channels = p.c,
          .kh = p.kh,
          .kw = p.kw,
          .row_step = p.w * p.c,
          .window_step = p.sw * p.c};
}

template <class T>
void mean_image(const PoolPlan& p, T* y, const T* x) {
  if constexpr (std::is_same_v<T, float>) {
    if (lies_inside(p)) {
      const MeanWindows windows = windows_of(p);
      for (int64_t row = 0; row < p.oh; ++row) {
        mean_windows(windows, y + row * p.ow * p.c, x + row * p.sh * windows.row_step);
      }
      return;
    }
  }
  for (int64_t row = 0; row < p.oh; ++row) mean_row(p, y + row * p.ow * p.c, x, row);
}

// The share of row `row` of y for each row of its windows.
template <class T>
const T* spread_row(const PoolPlan& p, const T* y, int64_t row, Part down) {
  T* shares = thread_scratch<T, kShares>(p.ow * p.c);
  divide_row(p, shares, y + row * p.ow * p.c, down.end - down.begin);
  T* wide = thread_scratch<T, kColumns>(p.w * p.c);
  std::fill_n(wide, p.w * p.c, T{});
  for (int64_t s = 0; s < p.ow; ++s) {
    const Part across = part(s, p.sw, p.left, p.kw, p.w);
    for (int64_t t = across.begin; t < across.end; ++t) {
      add_row(wide + t * p.c, shares + s * p.c, p.c);
    }
  }
  return wide;
}

template <class T>
void spread_image(const PoolPlan& p, T* x, const T* y) {
  const int64_t width = p.w * p.c;
  if constexpr (std::is_same_v<T, float>) {
    if (lies_inside(p) && p.sh >= p.kh && p.sw >= p.kw) {
      const MeanWindows windows = windows_of(p);
      const bool covers = p.oh * p.kh == p.h && p.ow * p.kw == p.w;
      if (!covers) std::fill_n(x, p.image(), 0.0f);
      for (int64_t row = 0; row < p.oh; ++row) {
        spread_windows(windows, x + row * p.sh * width, y + row * p.ow * p.c);
      }
      return;
    }
  }
  std::fill_n(x, p.image(), T{});
  for (int64_t row = 0; row < p.oh; ++row) {
    const Part down = part(row, p.sh, p.top, p.kh, p.h);
    const T* wide = spread_row(p, y, row, down);
    for (int64_t r = down.begin; r < down.end; ++r) add_row(x + r * width, wide, width);
  }
}

template <Pool kPool, class T>
void run(const PoolPlan& p, void* out, const void* const* in) {
  T* to = static_cast<T*>(out);
  const T* a = static_cast<const T*>(in[0]);
  if constexpr (kPool == Pool::kMax) return run_max(p, to, a);
  if constexpr (kPool == Pool::kMaxScatter)
    return run_scatter(p, to, a, static_cast<const T*>(in[1]));
  if constexpr (kPool == Pool::kMaxGather)
    return run_gather(p, to, a, static_cast<const T*>(in[1]));
  if constexpr (kPool == Pool::kMean) {
    for_each_image(p, [&](int64_t n) {
      widely(to + n * p.result(), p.result(), a + n * p.image(), p.image(),
             [&](auto* y, const auto* x) { mean_image(p, y, x); });
    });
  }
  if constexpr (kPool == Pool::kMeanSpread) {
    for_each_image(p, [&](int64_t n) {
      widely(to + n * p.image(), p.image(), a + n * p.result(), p.result(),
             [&](auto* x, const auto* y) { spread_image(p, x, y); });
    });
  }
}

template <Pool kPool>
bool run_pool(const KernelCall& call) {
  const auto& q = *static_cast<const PoolParams*>(call.params);
  visit_dtype(q.dtype, [&]<class T>() {
    constexpr bool kWhole = std::is_integral_v<T>,
                   kMean = kPool == Pool::kMean || kPool == Pool::kMeanSpread;
    constexpr bool kNumber = !std::is_same_v<T, bool> && !std::is_same_v<T, std::complex<float>> &&
                             !std::is_same_v<T, std::complex<double>>;
    if constexpr (kNumber && (!kWhole || (!kMean && kPool != Pool::kMaxScatter))) {
      run<kPool, T>(q.plan, call.out[0], call.in);
    }
  });
  return true;
}

}  // namespace

void prepare_pool2d(const PrepareCall& call, const PoolPlan& plan, Pool pool) {
  auto q = internal::make_ref<PoolParams>();
  q->plan = plan;
  q->dtype = call.dtype(0);
  switch (pool) {
    case Pool::kMax:
      return call.set(run_pool<Pool::kMax>, q);
    case Pool::kMaxScatter:
      return call.set(run_pool<Pool::kMaxScatter>, q);
    case Pool::kMaxGather:
      return call.set(run_pool<Pool::kMaxGather>, q);
    case Pool::kMean:
      return call.set(run_pool<Pool::kMean>, q);
    case Pool::kMeanSpread:
      return call.set(run_pool<Pool::kMeanSpread>, q);
  }
}

}  // namespace etude::kernels::cpu
