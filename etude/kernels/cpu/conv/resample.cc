// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/conv/resample.h"

#include <algorithm>
#include <limits>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/axis_view.h"
#include "etude/kernels/cpu/floating.h"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kStrip = 128;  // neighbours that share a row of weights

struct ResampleParams : KernelParams {
  AxisView view;  // of the operand
  Taps taps;
};

template <class T, class C>
bool run_resample(const KernelCall& call) {
  const auto& p = *static_cast<const ResampleParams*>(call.params);
  const int64_t inner = p.view.inner, strips = (inner + kStrip - 1) / kStrip;
  const double work = static_cast<double>(p.taps.weights.size()) * static_cast<double>(inner);
  parallel_for(
      p.view.outer * strips, static_cast<double>(p.view.outer) * work * 3e-4, [&](int64_t task) {
        const int64_t first = task % strips * kStrip, width = std::min(kStrip, inner - first);
        const T* x =
            static_cast<const T*>(call.in[0]) + task / strips * p.view.size * inner + first;
        T* y = static_cast<T*>(call.out[0]) + task / strips * p.taps.rows * inner + first;
        for (int64_t row = 0; row < p.taps.rows; ++row) {
          const auto r = static_cast<std::size_t>(row);
          C sums[kStrip] = {};
          const T* from = x + p.taps.start[r] * inner;
          for (int64_t w = p.taps.offset[r]; w < p.taps.offset[r + 1]; ++w, from += inner) {
            const C weight = static_cast<C>(p.taps.weights[static_cast<std::size_t>(w)]);
            for (int64_t c = 0; c < width; ++c) sums[c] += weight * static_cast<C>(from[c]);
          }
          for (int64_t c = 0; c < width; ++c) y[row * inner + c] = T(sums[c]);
        }
      });
  return true;
}

}  // namespace

Taps transposed(const Taps& taps) {
  const auto columns = static_cast<std::size_t>(taps.columns);
  std::vector<int64_t> first(columns, std::numeric_limits<int64_t>::max()), last(columns, -1);
  const auto each = [&](const auto& f) {
    for (int64_t row = 0; row < taps.rows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      for (int64_t w = taps.offset[r]; w < taps.offset[r + 1]; ++w) {
        f(row, static_cast<std::size_t>(taps.start[r] + w - taps.offset[r]),
          taps.weights[static_cast<std::size_t>(w)]);
      }
    }
  };
  each([&](int64_t row, std::size_t column, double) {
    first[column] = std::min(first[column], row);
    last[column] = row;
  });
  Taps out{.rows = taps.columns, .columns = taps.rows, .offset = {0}};
  for (std::size_t c = 0; c < columns; ++c) {
    const int64_t count = last[c] < 0 ? 0 : last[c] - first[c] + 1;
    out.start.push_back(count > 0 ? first[c] : 0);
    out.offset.push_back(out.offset.back() + count);
  }
  out.weights.assign(static_cast<std::size_t>(out.offset.back()), 0.0);
  each([&](int64_t row, std::size_t column, double weight) {
    out.weights[static_cast<std::size_t>(out.offset[column] + row - out.start[column])] = weight;
  });
  return out;
}

void prepare_resample(const PrepareCall& call, int axis, Taps taps) {
  auto p = etude::internal::make_ref<ResampleParams>();
  p->view = axis_view(call.shape(0), axis);
  p->taps = std::move(taps);
  visit_floating(call.dtype(0), [&]<class T, class C>() { call.set(run_resample<T, C>, p); });
}

}  // namespace etude::kernels::cpu
