// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/index/sorting.h"

#include <algorithm>
#include <atomic>
#include <complex>
#include <numeric>
#include <type_traits>
#include <vector>

#include "etude/base/check.h"
#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/axis_view.h"
#include "etude/kernels/cpu/scratch.h"
#include "etude/kernels/cpu/wide.h"

namespace etude::kernels::cpu {
namespace {

struct AxisParams : KernelParams {
  AxisView view;
  bool descending = false;
  int64_t k = 0;
};

// Element types that have an order.
template <class T>
inline constexpr bool kOrdered = !std::is_same_v<T, bool> && !internal::kIsComplex<T>;

// One element with its position, compared so that std::sort is stable.
template <class T>
struct Entry {
  using Key = internal::Wide<T>;
  Key key;
  int64_t at;
};

template <class K>
bool is_nan(K x) {
  return x != x;
}

// Numbers in order, then NaN; equal ones by position.
template <class T, bool kDescending>
bool comes_first(const Entry<T>& x, const Entry<T>& y) {
  if (is_nan(x.key) || is_nan(y.key)) {
    return is_nan(x.key) == is_nan(y.key) ? x.at < y.at : is_nan(y.key);
  }
  if (x.key == y.key) return x.at < y.at;
  return kDescending ? x.key > y.key : x.key < y.key;
}

// Sorts the first k of each row and calls write(row entries, outer * inner index).
template <class T, bool kDescending, class F>
bool sort_rows(const AxisView& v, const void* in, int64_t k, const F& write) {
  const int64_t rows = v.outer * v.inner;
  const int64_t step = std::max<int64_t>(1, (int64_t{1} << 11) / std::max<int64_t>(1, v.size));
  std::atomic<bool> fine{true};
  const double us = static_cast<double>(rows * v.size) * 0.03;
  parallel_for((rows + step - 1) / step, us, [&](int64_t chunk) {
    Scratch scratch(v.size * static_cast<int64_t>(sizeof(Entry<T>)));
    auto* entries = reinterpret_cast<Entry<T>*>(scratch.data());
    if (entries == nullptr) {
      fine = false;
      return;
    }
    for (int64_t row = chunk * step; row < std::min(rows, (chunk + 1) * step); ++row) {
      const int64_t outer = row / v.inner, inner = row % v.inner;
      const T* x = static_cast<const T*>(in) + outer * v.size * v.inner + inner;
      for (int64_t i = 0; i < v.size; ++i)
        entries[i] = {static_cast<typename Entry<T>::Key>(x[i * v.inner]), i};
      if (k < v.size)
        std::partial_sort(entries, entries + k, entries + v.size, comes_first<T, kDescending>);
      else
        std::sort(entries, entries + v.size, comes_first<T, kDescending>);
      write(entries, outer * k * v.inner + inner);
    }
  });
  return fine ? true : Scratch::report();
}

template <class T, bool kDescending>
bool run_sort(const KernelCall& call) {
  const AxisView& v = static_cast<const AxisParams*>(call.params)->view;
  return sort_rows<T, kDescending>(v, call.in[0], v.size, [&](const Entry<T>* e, int64_t base) {
    T* out = static_cast<T*>(call.out[0]) + base;
    for (int64_t i = 0; i < v.size; ++i) out[i * v.inner] = T(e[i].key);
  });
}

template <class T, bool kDescending>
bool run_argsort(const KernelCall& call) {
  const AxisView& v = static_cast<const AxisParams*>(call.params)->view;
  return sort_rows<T, kDescending>(v, call.in[0], v.size, [&](const Entry<T>* e, int64_t base) {
    int64_t* out = static_cast<int64_t*>(call.out[0]) + base;
    for (int64_t i = 0; i < v.size; ++i) out[i * v.inner] = e[i].at;
  });
}

template <class T>
bool run_average_ties(const KernelCall& call) {
  using Acc = internal::Wide<T>;
  const AxisView& v = static_cast<const AxisParams*>(call.params)->view;
  const int64_t rows = v.outer * v.inner;
  const int64_t step = std::max<int64_t>(1, (int64_t{1} << 14) / std::max<int64_t>(1, v.size));
  const double us = static_cast<double>(rows * v.size) * 2e-3;
  parallel_for((rows + step - 1) / step, us, [&](int64_t chunk) {
    for (int64_t row = chunk * step; row < std::min(rows, (chunk + 1) * step); ++row) {
      const int64_t base = row / v.inner * v.size * v.inner + row % v.inner;
      const T* x = static_cast<const T*>(call.in[0]) + base;
      const T* keys = static_cast<const T*>(call.in[1]) + base;
      T* out = static_cast<T*>(call.out[0]) + base;
      for (int64_t first = 0, end = 0; first < v.size; first = end) {
        const Acc key = static_cast<Acc>(keys[first * v.inner]);
        Acc sum = static_cast<Acc>(x[first * v.inner]);
        for (end = first + 1; end < v.size && static_cast<Acc>(keys[end * v.inner]) == key; ++end)
          sum += static_cast<Acc>(x[end * v.inner]);
        const T mean = T(sum / static_cast<Acc>(end - first));
        for (int64_t i = first; i < end; ++i) out[i * v.inner] = mean;
      }
    }
  });
  return true;
}

template <class T>
bool run_top_k(const KernelCall& call) {
  const auto& p = *static_cast<const AxisParams*>(call.params);
  const AxisView& v = p.view;
  return sort_rows<T, true>(v, call.in[0], p.k, [&](const Entry<T>* e, int64_t base) {
    T* values = static_cast<T*>(call.out[0]) + base;
    int64_t* places = static_cast<int64_t*>(call.out[1]) + base;
    for (int64_t i = 0; i < p.k; ++i) {
      values[i * v.inner] = T(e[i].key);
      places[i * v.inner] = e[i].at;
    }
  });
}

// The better of two positions, the first one if they are equal; NaN wins.
template <class K, bool kLargest>
bool beats(K x, K best) {
  if (is_nan(best)) return false;
  return is_nan(x) || (kLargest ? x > best : x < best);
}

template <class T, bool kLargest>
bool run_arg_extreme(const KernelCall& call) {
  using K = internal::Wide<T>;
  const AxisView& v = static_cast<const AxisParams*>(call.params)->view;
  constexpr int64_t kStrip = 256;
  const int64_t strips = (v.inner + kStrip - 1) / kStrip, tasks = v.outer * strips;
  const int64_t work = v.size * std::min(kStrip, v.inner);
  const int64_t step = std::max<int64_t>(1, (int64_t{1} << 14) / std::max<int64_t>(1, work));
  parallel_for(
      (tasks + step - 1) / step, static_cast<double>(tasks * work) * 1e-3, [&](int64_t chunk) {
        for (int64_t task = chunk * step; task < std::min(tasks, (chunk + 1) * step); ++task) {
          const int64_t outer = task / strips, first = task % strips * kStrip;
          const int64_t width = std::min(kStrip, v.inner - first);
          const T* x = static_cast<const T*>(call.in[0]) + outer * v.size * v.inner + first;
          int64_t* out = static_cast<int64_t*>(call.out[0]) + outer * v.inner + first;
          for (int64_t j = 0; j < width; ++j) {
            K best = static_cast<K>(x[j]);
            int64_t at = 0;
            for (int64_t i = 1; i < v.size; ++i) {
              const K value = static_cast<K>(x[i * v.inner + j]);
              if (!beats<K, kLargest>(value, best)) continue;
              best = value;
              at = i;
            }
            out[j] = at;
          }
        }
      });
  return true;
}

struct SearchParams : KernelParams {
  int64_t size = 0, count = 0;
  bool behind = false;
};

template <class T>
bool run_search(const KernelCall& call) {
  const auto& p = *static_cast<const SearchParams*>(call.params);
  const T* sorted = static_cast<const T*>(call.in[0]);
  const T* x = static_cast<const T*>(call.in[1]);
  int64_t* y = static_cast<int64_t*>(call.out[0]);
  const auto is_before = [](const T& left, const T& right) {
    const auto a = static_cast<internal::Wide<T>>(left), b = static_cast<internal::Wide<T>>(right);
    return a < b || (is_nan(b) && !is_nan(a));
  };
  constexpr int64_t kBlock = 1024;
  const double us = static_cast<double>(p.count) / 20;
  parallel_for((p.count + kBlock - 1) / kBlock, us, [&](int64_t c) {
    for (int64_t i = c * kBlock; i < std::min(p.count, (c + 1) * kBlock); ++i) {
      const T* found = p.behind ? std::upper_bound(sorted, sorted + p.size, x[i], is_before)
                                : std::lower_bound(sorted, sorted + p.size, x[i], is_before);
      y[i] = found - sorted;
    }
  });
  return true;
}

etude::internal::RefPtr<AxisParams> params_of(const PrepareCall& call, int axis) {
  auto p = etude::internal::make_ref<AxisParams>();
  p->view = axis_view(call.shape(0), axis);
  return p;
}

}  // namespace

void prepare_sort(const PrepareCall& call, int axis, bool descending) {
  const auto p = params_of(call, axis);
  visit_dtype(call.dtype(0), [&]<class T>() {
    if constexpr (kOrdered<T>) call.set(descending ? run_sort<T, true> : run_sort<T, false>, p);
  });
}

void prepare_argsort(const PrepareCall& call, int axis, bool descending) {
  const auto p = params_of(call, axis);
  visit_dtype(call.dtype(0), [&]<class T>() {
    if constexpr (kOrdered<T>)
      call.set(descending ? run_argsort<T, true> : run_argsort<T, false>, p);
  });
}

void prepare_average_ties(const PrepareCall& call, int axis) {
  auto p = etude::internal::make_ref<AxisParams>();
  p->view = axis_view(call.shape(0), axis);
  visit_dtype(call.dtype(0), [&]<class T>() {
    if constexpr (kOrdered<T> && !std::is_integral_v<T>) call.set(run_average_ties<T>, p);
  });
}

void prepare_top_k(const PrepareCall& call, int axis, int64_t k) {
  const auto p = params_of(call, axis);
  p->k = k;
  visit_dtype(call.dtype(0), [&]<class T>() {
    if constexpr (kOrdered<T>) call.set(run_top_k<T>, p);
  });
}

void prepare_arg_extreme(const PrepareCall& call, int axis, bool largest) {
  const auto p = params_of(call, std::max(axis, 0));
  if (axis < 0) p->view = {1, call.shape(0).count(), 1};
  visit_dtype(call.dtype(0), [&]<class T>() {
    if constexpr (kOrdered<T>)
      call.set(largest ? run_arg_extreme<T, true> : run_arg_extreme<T, false>, p);
  });
}

void prepare_search(const PrepareCall& call, bool behind) {
  auto p = etude::internal::make_ref<SearchParams>();
  p->size = call.types[0]->count();
  p->count = call.types[1]->count();
  p->behind = behind;
  visit_dtype(call.dtype(0), [&]<class T>() {
    if constexpr (kOrdered<T>) call.set(run_search<T>, p);
  });
}

}  // namespace etude::kernels::cpu
