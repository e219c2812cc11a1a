// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/reduce/scan.h"

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <type_traits>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/axis_view.h"
#include "etude/kernels/cpu/wide.h"

namespace etude::kernels::cpu {
namespace {

using internal::add;
using internal::multiply;
using internal::Wide;

constexpr int64_t kStrip = 256;  // inner elements of one task

struct ScanParams : KernelParams {
  AxisView view;
  ScanOptions options;
  int64_t by = 0;
  int64_t bytes = 0;
};

// Calls body(outer, first inner element, width) for strips that cover the inner axes.
template <class F>
void for_strips(const AxisView& v, const F& body) {
  const int64_t strips = (v.inner + kStrip - 1) / kStrip;
  const int64_t tasks = v.outer * strips,
                work = std::max<int64_t>(1, v.size * std::min(kStrip, v.inner));
  const int64_t per_chunk = std::max<int64_t>(1, (int64_t{1} << 14) / work);
  parallel_for((tasks + per_chunk - 1) / per_chunk, static_cast<double>(tasks * work) * 1e-3,
               [&](int64_t chunk) {
                 for (int64_t task = chunk * per_chunk;
                      task < std::min(tasks, (chunk + 1) * per_chunk); ++task) {
                   const int64_t first = task % strips * kStrip;
                   body(task / strips, first, std::min(kStrip, v.inner - first));
                 }
               });
}

template <class T, Scan kScan>
bool run_scan(const KernelCall& call) {
  using Acc = Wide<T>;
  using Out = std::conditional_t<internal::kIsHalf<T>, T, Acc>;  // half types are not widened
  const auto& p = *static_cast<const ScanParams*>(call.params);
  const AxisView& v = p.view;
  const int64_t results = v.size + (p.options.include_initial ? 1 : 0);
  const bool before = p.options.exclusive || p.options.include_initial;
  for_strips(v, [&](int64_t outer, int64_t first, int64_t width) {
    const T* in = static_cast<const T*>(call.in[0]) + outer * v.size * v.inner + first;
    Out* out = static_cast<Out*>(call.out[0]) + outer * results * v.inner + first;
    std::array<Acc, kStrip> acc;
    std::fill_n(acc.begin(), width, Acc(kScan == Scan::kSum ? 0 : 1));
    const auto place = [&](int64_t i, int64_t n) {
      return (p.options.reverse ? n - 1 - i : i) * v.inner;
    };
    for (int64_t i = 0; i < results; ++i) {
      Out* to = out + place(i, results);
      if (before) {
        for (int64_t j = 0; j < width; ++j) to[j] = Out(acc[static_cast<std::size_t>(j)]);
      }
      if (i == v.size) break;
      const T* from = in + place(i, v.size);
      for (int64_t j = 0; j < width; ++j) {
        Acc& a = acc[static_cast<std::size_t>(j)];
        const Acc x = static_cast<Acc>(from[j]);
        a = kScan == Scan::kSum ? add(a, x) : multiply(a, x);
        if (!before) to[j] = Out(a);
      }
    }
  });
  return true;
}

template <class T>
bool run_linear(const KernelCall& call) {
  using Acc = Wide<T>;
  const auto& p = *static_cast<const ScanParams*>(call.params);
  const AxisView& v = p.view;
  for_strips(v, [&](int64_t outer, int64_t first, int64_t width) {
    const int64_t base = outer * v.size * v.inner + first;
    const T* a = static_cast<const T*>(call.in[0]) + base;
    const T* b = static_cast<const T*>(call.in[1]) + base;
    T* out = static_cast<T*>(call.out[0]) + base;
    std::array<Acc, kStrip> acc;
    std::fill_n(acc.begin(), width, Acc(0));
    for (int64_t i = 0; i < v.size; ++i) {
      const int64_t at = (p.options.reverse ? v.size - 1 - i : i) * v.inner;
      for (int64_t j = 0; j < width; ++j) {
        Acc& r = acc[static_cast<std::size_t>(j)];
        const Acc factor = static_cast<Acc>(a[at + j]), more = static_cast<Acc>(b[at + j]);
        // A factor 0 starts again, whatever came before.
        r = i == 0 || factor == Acc(0) ? more : add(more, multiply(factor, r));
        out[at + j] = T(r);
      }
    }
  });
  return true;
}

bool run_shift(const KernelCall& call) {
  const auto& p = *static_cast<const ScanParams*>(call.params);
  const AxisView& v = p.view;
  const int64_t row = v.size * v.inner * p.bytes;
  const int64_t moved = std::min(std::abs(p.by), v.size) * v.inner * p.bytes;
  for (int64_t outer = 0; outer < v.outer; ++outer) {
    const char* in = static_cast<const char*>(call.in[0]) + outer * row;
    char* out = static_cast<char*>(call.out[0]) + outer * row;
    const auto kept = static_cast<std::size_t>(row - moved);
    std::memcpy(p.by > 0 ? out + moved : out, p.by > 0 ? in : in + moved, kept);
    std::memset(p.by > 0 ? out : out + kept, 0, static_cast<std::size_t>(moved));
  }
  return true;
}

template <class T>
KernelFn scan_of(Scan scan) {
  return scan == Scan::kSum ? run_scan<T, Scan::kSum> : run_scan<T, Scan::kProd>;
}

}  // namespace

void prepare_scan(const PrepareCall& call, Scan scan, const ScanOptions& options) {
  auto p = etude::internal::make_ref<ScanParams>();
  p->view = axis_view(call.shape(0), options.axis);
  p->options = options;
  visit_dtype(call.dtype(0), [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) call.set(scan_of<T>(scan), p);
  });
}

void prepare_linear_scan(const PrepareCall& call, int axis, bool reverse) {
  auto p = etude::internal::make_ref<ScanParams>();
  p->view = axis_view(call.shape(0), axis);
  p->options.reverse = reverse;
  visit_dtype(call.dtype(0), [&]<class T>() {
    if constexpr (!std::is_integral_v<T>) call.set(run_linear<T>, p);
  });
}

void prepare_shift(const PrepareCall& call, int axis, int64_t by) {
  auto p = etude::internal::make_ref<ScanParams>();
  p->view = axis_view(call.shape(0), axis);
  p->by = by;
  p->bytes = itemsize(call.dtype(0));
  call.set(run_shift, p);
}

}  // namespace etude::kernels::cpu
