// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/index/along.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "etude/core/internal/convert.h"
#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/elementwise/broadcast.h"
#include "etude/kernels/cpu/scratch.h"

namespace etude::kernels::cpu {
namespace {

std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

// x as [outer, size, inner] and the indices as [outer, count, inner], once they are broadcast.
struct AlongParams : KernelParams {
  int64_t outer = 1, size = 0, count = 0, inner = 1, bytes = 0;
  int axis = 0;
  DType dtype = DType::kFloat32, index_dtype = DType::kInt32;
  BroadcastPlan x, indices;
};

bool read_indices(const AlongParams& p, const void* data, std::vector<int64_t>& out) {
  out.resize(at(p.outer * p.count * p.inner));
  etude::internal::convert_elements(out.data(), kInt64, data, p.index_dtype,
                                    static_cast<int64_t>(out.size()));
  for (int64_t& index : out) {
    if (index < -p.size || index >= p.size) {
      return report_fault(
          ErrorCode::kOutOfRange,
          fmt::format("index {} is out of range for axis {} of size {}", index, p.axis, p.size));
    }
    if (index < 0) index += p.size;
  }
  return true;
}

// f(row of x, row of values, begin, end) over elements of the values of each outer row.
template <class F>
void each_along(const AlongParams& p, bool shares_rows, const F& f) {
  const int64_t row = p.count * p.inner;
  if (p.outer * row == 0) return;
  const int64_t piece = shares_rows ? row : std::min<int64_t>(row, 16384),
                pieces = (row + piece - 1) / piece;
  parallel_for(p.outer * pieces, static_cast<double>(p.outer * row) / 300, [&](int64_t c) {
    const int64_t begin = c % pieces * piece;
    f(c / pieces * p.size * p.inner, c / pieces * row, begin, std::min(row, begin + piece));
  });
}

// An operand broadcast to `count` elements: the operand itself, or its copies in `memory`.
const void* broadcast_in(const BroadcastPlan& plan, const void* data, int64_t item, int64_t count,
                         Scratch& memory) {
  if (plan.is_dense || memory.data() == nullptr) return plan.is_dense ? data : nullptr;
  expand_all(plan, memory.data(), data, item, count);
  return memory.data();
}

bool run_take_along(const KernelCall& k) {
  const auto& p = *static_cast<const AlongParams*>(k.params);
  const int64_t x_count = p.outer * p.size * p.inner, count = p.outer * p.count * p.inner;
  const int64_t x_item = itemsize(p.dtype), item = itemsize(p.index_dtype);
  Scratch x_memory(p.x.is_dense ? 0 : x_count * x_item);
  Scratch memory(p.indices.is_dense ? 0 : count * item);
  const void* all_x = broadcast_in(p.x, k.in[0], x_item, x_count, x_memory);
  const void* all_indices = broadcast_in(p.indices, k.in[1], item, count, memory);
  if (all_x == nullptr || all_indices == nullptr) return Scratch::report();
  std::vector<int64_t> indices;
  if (!read_indices(p, all_indices, indices)) return false;
  visit_dtype(p.dtype, [&]<class T>() {
    const T* x = static_cast<const T*>(all_x);
    T* y = static_cast<T*>(k.out[0]);
    each_along(p, false, [&](int64_t in, int64_t out, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        y[out + i] = x[in + indices[at(out + i)] * p.inner + i % p.inner];
    });
  });
  return true;
}

bool run_spread_along(const KernelCall& k) {
  const auto& p = *static_cast<const AlongParams*>(k.params);
  std::vector<int64_t> indices;
  if (!read_indices(p, k.in[1], indices)) return false;
  std::memset(k.out[0], 0, at(p.bytes));
  visit_dtype(p.dtype, [&]<class T>() {
    const T* v = static_cast<const T*>(k.in[0]);
    T* y = static_cast<T*>(k.out[0]);
    each_along(p, true, [&](int64_t out, int64_t in, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T& to = y[out + indices[at(in + i)] * p.inner + i % p.inner];
        to = static_cast<T>(to + v[in + i]);
      }
    });
  });
  return true;
}

etude::internal::RefPtr<AlongParams> plan_along(const Shape& x, const Type& indices, DType dtype,
                                                int axis) {
  auto p = etude::internal::make_ref<AlongParams>();
  p->axis = axis;
  for (int a = 0; a < p->axis; ++a) p->outer *= x[a];
  for (int a = p->axis + 1; a < x.rank(); ++a) p->inner *= x[a];
  p->size = x[p->axis];
  p->count = indices.shape()[p->axis];
  p->dtype = dtype;
  p->index_dtype = indices.dtype();
  return p;
}

}  // namespace

void prepare_take_along(const PrepareCall& call, int axis) {
  const Shape &x = call.shape(0), &y = call.out.results[0]->shape();
  Shape all_x = y;
  all_x.set(axis, x[axis]);
  auto p = plan_along(all_x, *intern_type(call.dtype(1), y), call.dtype(0), axis);
  p->x = plan_broadcast(x, all_x);
  p->indices = plan_broadcast(call.shape(1), y);
  call.set(run_take_along, p);
}

void prepare_spread_along(const PrepareCall& call, int axis) {
  const Type& y = *call.out.results[0];
  auto p = plan_along(y.shape(), *call.types[1], call.dtype(0), axis);
  p->bytes = y.bytes();
  call.set(run_spread_along, p);
}

}  // namespace etude::kernels::cpu
