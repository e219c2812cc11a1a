// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/index/copy.h"

#include <algorithm>
#include <cstring>

#include "etude/core/internal/convert.h"
#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/elementwise/broadcast.h"
#include "etude/kernels/cpu/elementwise/small_calls.h"
#include "etude/kernels/cpu/halves.h"
#include "etude/kernels/cpu/index/transpose.h"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kChunkBytes = int64_t{256} << 10;
constexpr double kBytesPerMicrosecond = 6000;
constexpr int64_t kTile = 32;

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

void copy_run(const CopyPlan& plan, char* out, const char* in) {
  const int64_t chunks = (plan.run + kChunkBytes - 1) / kChunkBytes;
  parallel_for(chunks, static_cast<double>(plan.run) / kBytesPerMicrosecond, [&](int64_t c) {
    const int64_t begin = c * kChunkBytes, end = std::min(plan.run, begin + kChunkBytes);
    std::memcpy(out + begin, in + begin, static_cast<std::size_t>(end - begin));
  });
}

// Lines along the last axis, cut into pieces of at most a chunk.
template <std::size_t kRun>
void copy_lines(const CopyPlan& plan, char* out, const char* in) {
  const int last = plan.rank - 1;
  const int64_t n = plan.sizes[at(last)], to = plan.to[at(last)], from = plan.from[at(last)];
  const int64_t piece = std::min(n, std::max<int64_t>(1, kChunkBytes / plan.run));
  const int64_t pieces = (n + piece - 1) / piece, lines = outer_count(plan, last);
  const int64_t per_chunk = std::max<int64_t>(1, kChunkBytes / (piece * plan.run));
  const int64_t units = lines * pieces, chunks = (units + per_chunk - 1) / per_chunk;
  const double cost = static_cast<double>(lines * n * plan.run) / kBytesPerMicrosecond;
  parallel_for(chunks, cost, [&](int64_t c) {
    const int64_t begin = c * per_chunk, end = std::min(units, begin + per_chunk);
    Odometer line(plan, last, begin / pieces);
    int64_t p = begin % pieces;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = p * piece, count = std::min(piece, n - first);
      copy_line<kRun>(out + line.to + first * to, in + line.from + first * from, count, to, from,
                      plan.run);
      if (++p == pieces) {
        p = 0;
        line.next();
      }
    }
  });
}

// The axis that is contiguous in `in` where the last one is contiguous in `out`; -1: there is none.
int transposed_axis(const CopyPlan& plan) {
  const int last = plan.rank - 1;
  if (plan.rank < 2 || plan.run > 16 || plan.to[at(last)] != plan.run) return -1;
  if (std::abs(plan.from[at(last)]) == plan.run) return -1;
  for (int axis = 0; axis < last; ++axis) {
    if (plan.from[at(axis)] == plan.run && plan.sizes[at(axis)] > 1) return axis;
  }
  return -1;
}

// One tile: rows lie row_to bytes apart in `out`, columns column_from bytes apart in `in`.
template <std::size_t kRun>
void copy_square(char* out, int64_t row_to, const char* in, int64_t column_from, int64_t rows,
                 int64_t columns) {
  constexpr auto kBytes = static_cast<int64_t>(kRun);
  if constexpr (kRun == sizeof(float)) {
    transpose_matrix(reinterpret_cast<float*>(out), row_to / kBytes,
                     reinterpret_cast<const float*>(in), column_from / kBytes, columns, rows);
  } else {
    for (int64_t r = 0; r < rows; ++r, out += row_to, in += kBytes) {
      copy_line<kRun>(out, in, columns, kBytes, column_from, kBytes);
    }
  }
}

// Square tiles over (q, last), so that both sides move whole cache lines.
template <std::size_t kRun>
void copy_tiles(const CopyPlan& plan, int q, char* out, const char* in) {
  const int last = plan.rank - 1;
  CopyPlan outer;  // the axes around the two
  for (int axis = 0; axis < last; ++axis) {
    if (axis == q) continue;
    const std::size_t a = at(outer.rank);
    outer.rank = outer.rank + 1;
    outer.sizes[a] = plan.sizes[at(axis)];
    outer.from[a] = plan.from[at(axis)];
    outer.to[a] = plan.to[at(axis)];
  }
  const int64_t rows = plan.sizes[at(q)], columns = plan.sizes[at(last)];
  const int64_t row_to = plan.to[at(q)], column_from = plan.from[at(last)];
  constexpr auto kBytes = static_cast<int64_t>(kRun);
  const int64_t strips = (rows + kTile - 1) / kTile;
  const int64_t units = outer_count(outer, outer.rank) * strips;
  const int64_t per_chunk = std::max<int64_t>(1, kChunkBytes / (kTile * columns * kBytes));
  const double cost =
      static_cast<double>(units * kTile * columns * kBytes) / (kBytesPerMicrosecond / 2);
  parallel_for((units + per_chunk - 1) / per_chunk, cost, [&](int64_t c) {
    const int64_t end = std::min(units, (c + 1) * per_chunk);
    for (int64_t unit = c * per_chunk; unit < end; ++unit) {
      const Odometer place(outer, outer.rank, unit / strips);
      const int64_t r0 = unit % strips * kTile, r1 = std::min(rows, r0 + kTile);
      for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
        const int64_t c1 = std::min(columns, c0 + kTile);
        copy_square<kRun>(out + place.to + r0 * row_to + c0 * kBytes, row_to,
                          in + place.from + r0 * kBytes + c0 * column_from, column_from, r1 - r0,
                          c1 - c0);
      }
    }
  });
}

struct CopyParams : KernelParams {
  CopyPlan plan;
  int64_t offset = 0;
  int64_t filled = 0, item = 0;  // elements to fill before the copy; bytes of one
  alignas(16) char value[16] = {};
};

bool run_copy(const KernelCall& call) {
  const auto& p = *static_cast<const CopyParams*>(call.params);
  copy(p.plan, call.out[0], static_cast<const char*>(call.in[0]) + p.offset);
  return true;
}

bool run_copy_into(const KernelCall& call) {
  const auto& p = *static_cast<const CopyParams*>(call.params);
  fill(call.out[0], p.value, p.item, p.filled);
  copy(p.plan, static_cast<char*>(call.out[0]) + p.offset, call.in[0]);
  return true;
}

struct ConvertParams : KernelParams {
  int64_t count = 0;
  DType from, to;
};

bool run_convert(const KernelCall& call) {
  const auto& p = *static_cast<const ConvertParams*>(call.params);
  convert_row(call.out[0], p.to, call.in[0], p.from, p.count);
  return true;
}

etude::internal::RefPtr<CopyParams> params_of(const CopyPlan& plan, int64_t offset) {
  auto p = etude::internal::make_ref<CopyParams>();
  p->plan = plan;
  p->offset = plan.run == 0 ? 0 : offset;
  return p;
}

}  // namespace

Strides dense_strides(const Shape& shape) {
  Strides strides{};
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[at(axis)] = stride;
    stride *= shape[axis];
  }
  return strides;
}

Odometer::Odometer(const CopyPlan& plan, int rank, int64_t position) : plan_(plan), rank_(rank) {
  for (int axis = rank - 1; axis >= 0; --axis) {
    const std::size_t a = at(axis);
    index_[a] = position % plan.sizes[a];
    position /= plan.sizes[a];
    from += index_[a] * plan.from[a];
    to += index_[a] * plan.to[a];
  }
}

int64_t outer_count(const CopyPlan& plan, int rank) {
  int64_t count = 1;
  for (int axis = 0; axis < rank; ++axis) count *= plan.sizes[at(axis)];
  return count;
}

CopyPlan merge_axes(std::span<const int64_t> sizes, std::span<const int64_t> from,
                    std::span<const int64_t> to, int64_t item) {
  CopyPlan plan;
  plan.run = item;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return CopyPlan{};
    if (sizes[i] == 1) continue;
    const int64_t f = from[i] * item, t = to[i] * item;
    const std::size_t before = at(plan.rank - 1);
    if (plan.rank > 0 && plan.from[before] == f * sizes[i] && plan.to[before] == t * sizes[i]) {
      plan.sizes[before] *= sizes[i];
      plan.from[before] = f;
      plan.to[before] = t;
      continue;
    }
    const std::size_t a = at(plan.rank);
    plan.rank = plan.rank + 1;
    plan.sizes[a] = sizes[i];
    plan.from[a] = f;
    plan.to[a] = t;
  }
  return plan;
}

CopyPlan plan_copy(std::span<const int64_t> sizes, std::span<const int64_t> from,
                   std::span<const int64_t> to, int64_t item) {
  CopyPlan plan = merge_axes(sizes, from, to, item);
  if (plan.rank > 0) {
    const std::size_t last = at(plan.rank - 1);
    if (plan.from[last] == item && plan.to[last] == item) {
      plan.run = plan.sizes[last] * item;
      plan.rank = plan.rank - 1;
    }
  }
  return plan;
}

void copy(const CopyPlan& plan, void* out, const void* in) {
  if (plan.run == 0) return;
  char* to = static_cast<char*>(out);
  const char* from = static_cast<const char*>(in);
  if (plan.rank == 0) return copy_run(plan, to, from);
  const int q = transposed_axis(plan);
  with_run(plan.run, [&]<std::size_t kRun>() {
    if constexpr (kRun >= 1 && kRun <= 16) {
      if (q >= 0) return copy_tiles<kRun>(plan, q, to, from);
    }
    copy_lines<kRun>(plan, to, from);
  });
}

bool is_copy(KernelFn run) { return run == run_copy; }

void prepare_copy(const PrepareCall& call, const CopyPlan& plan, int64_t offset) {
  call.set(run_copy, params_of(plan, offset));
}

void prepare_copy_into(const PrepareCall& call, const CopyPlan& plan, int64_t offset,
                       double value) {
  const Type& result = *call.out.results[0];
  auto p = params_of(plan, offset);
  p->filled = result.count() == call.types[0]->count() ? 0 : result.count();
  p->item = itemsize(result.dtype());
  etude::internal::convert_elements(p->value, result.dtype(), &value, kFloat64, 1);
  call.set(run_copy_into, p);
}

void prepare_convert(const PrepareCall& call) {
  const DType to = call.out.results[0]->dtype();
  if (call.dtype(0) == to) return call.view(0);
  auto p = etude::internal::make_ref<ConvertParams>();
  p->count = call.out.results[0]->count();
  p->from = call.dtype(0);
  p->to = to;
  call.set(run_convert, p);
}

}  // namespace etude::kernels::cpu
