// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/product/matmul.h"

#include <algorithm>
#include <new>
#include <utility>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/call_estimates.h"
#include "etude/kernels/cpu/elementwise/small_calls.h"
#include "etude/kernels/cpu/index/transpose.h"
#include "etude/kernels/cpu/onednn/onednn.h"
#include "etude/kernels/cpu/product/packed_product.h"
#include "etude/kernels/cpu/product/tile_product.h"
#include "etude/kernels/cpu/thread_scratch.h"

namespace etude::kernels::cpu {
namespace {

constexpr double kSmallFlops = 2.0 * 96 * 96 * 96;
constexpr int64_t kLong = 384;
constexpr int64_t kManyBatches = 16;

enum Purpose { kPanel = 0, kTurned = 3 };  // 1 is matmul_generic's, which calls this

struct MatmulParams : KernelParams {
  OneTile tile;  // if the whole product is one
  MatmulPlan plan;
  DType dtype = kFloat32;
};

double flops(const MatmulPlan& p) {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
}

// Whether a product is summed where its operands lie: there the fixed cost of oneDNN shows, or
// memory is the limit.
bool is_small(const MatmulPlan& p) {
  return flops(p) <= kSmallFlops || p.m == 1 || p.n == 1 || p.k <= 4;
}

// So many rows of a product whose y lies as it is read.
TileProduct rows_of(const MatmulPlan& p, int64_t rows) {
  TileProduct t;
  t.rows = rows;
  t.columns = p.n;
  t.depth = p.k;
  t.a_row = p.transpose_x ? 1 : p.k;
  t.a_depth = p.transpose_x ? p.m : 1;
  t.b_depth = p.n;
  t.out_row = p.n;
  return t;
}
bool reads_y_in_place(const MatmulPlan& p) { return !p.transpose_y || p.n == 1; }

// Rows [begin, end) of one product.
void small_rows(const MatmulPlan& p, float* out, const float* x, const float* y, int64_t begin,
                int64_t end) {
  TileProduct t = rows_of(p, end - begin);
  x += begin * t.a_row;
  out += begin * p.n;
  if (reads_y_in_place(p)) return tile_product(t, out, x, y);
  float* packed = thread_scratch<float, kPanel>(p.k * kPackedColumns);
  t.b_depth = kPackedColumns;
  for (int64_t j = 0; j < p.n; j += kPackedColumns) {
    t.columns = std::min(kPackedColumns, p.n - j);
    pack_columns(packed, y + j * p.k, 1, p.k, p.k, t.columns);
    tile_product(t, out + j, x, packed);
  }
}

// A block of one product by oneDNN.
void large_block(const MatmulPlan& p, float* out, const float* x, const float* y, int64_t row,
                 int64_t rows, int64_t column, int64_t columns) {
  onednn::Gemm g;
  g.m = rows;
  g.n = columns;
  g.k = p.k;
  g.transpose_a = p.transpose_x;
  g.transpose_b = p.transpose_y;
  g.a_row = p.transpose_x ? p.m : p.k;
  g.b_row = p.transpose_y ? p.k : p.n;
  g.out_row = p.n;
  onednn::gemm(g, out + row * p.n + column, x + row * (p.transpose_x ? 1 : p.k),
               y + column * (p.transpose_y ? p.k : 1));
}

// How many rows or columns, of so many flops each, one chunk takes: a multiple of `unit`.
int64_t lines_per_chunk(double flops_of_one, int64_t unit) {
  const auto lines = static_cast<int64_t>(kChunkFlops / (flops_of_one + 1));
  return std::max<int64_t>(1, (lines + unit - 1) / unit) * unit;
}

struct Blocks {
  int64_t rows, columns;  // of one block
};

// Blocks of nearly the same size, about 192 on a side, so that packing stays a small part of the
// work, and a multiple of the eight that oneDNN's kernels take.
Blocks large_blocks(const MatmulPlan& p) {
  constexpr int64_t kSide = kLong / 2, kUnit = 8;
  const auto part = [](int64_t size) {
    const int64_t parts = (size + kSide / 2) / kSide;
    return (size + parts * kUnit - 1) / (parts * kUnit) * kUnit;
  };
  Blocks b{p.m, p.n};
  if (p.m >= 2 * kSide)
    b.rows = part(p.m);
  else if (p.n >= 2 * kSide)
    b.columns = part(p.n);
  return b;
}

void run_small(const MatmulPlan& p, float* out, const float* x, const float* y) {
  const double work = flops(p);
  const int64_t per_chunk = std::max<int64_t>(1, static_cast<int64_t>(kChunkFlops / (work + 1)));
  const int64_t whole = p.batches * p.m;
  const int64_t least = std::max<int64_t>(
      1, static_cast<int64_t>(kChunkFlops / (work / static_cast<double>(p.m) + 1)));
  const double us = work * static_cast<double>(p.batches) / kFlopsPerUs;
  if (p.batches > 1 || least >= whole) {
    const int64_t chunks = (p.batches + per_chunk - 1) / per_chunk;
    return parallel_for(chunks, us, [&](int64_t chunk) {
      const int64_t end = std::min(p.batches, (chunk + 1) * per_chunk);
      for (int64_t b = chunk * per_chunk; b < end; ++b) {
        small_rows(p, out + b * p.m * p.n, x + p.x_offset(b), y + p.y_offset(b), 0, p.m);
      }
    });
  }
  const int64_t rows = (least + 11) / 12 * 12;
  parallel_for((p.m + rows - 1) / rows, us, [&](int64_t chunk) {
    small_rows(p, out, x, y, chunk * rows, std::min(p.m, (chunk + 1) * rows));
  });
}

void run_blocks(const MatmulPlan& p, float* out, const float* x, const float* y) {
  const Blocks b = large_blocks(p);
  const int64_t down = (p.m + b.rows - 1) / b.rows, across = (p.n + b.columns - 1) / b.columns;
  const double us = flops(p) * static_cast<double>(p.batches) / kFlopsPerUs;
  parallel_for(p.batches * down * across, us, [&](int64_t chunk) {
    const int64_t batch = chunk / (down * across), block = chunk % (down * across);
    const int64_t row = block / across * b.rows, column = block % across * b.columns;
    large_block(p, out + batch * p.m * p.n, x + p.x_offset(batch), y + p.y_offset(batch), row,
                std::min(b.rows, p.m - row), column, std::min(b.columns, p.n - column));
  });
}

// Both sides of a result are long, and any split makes oneDNN pack an operand again and again; or
// it packs a transposed one with rows of 4 KiB, which share cache sets.
bool is_long(const MatmulPlan& p) {
  const int64_t least = std::min(p.m, p.n), most = std::max(p.m, p.n);
  const bool transposed = p.transpose_x || p.transpose_y;
  return least >= kLong || (transposed && least >= 256 && most >= 1024 && p.k >= 512);
}

void run_packed(const MatmulPlan& p, float* out, const float* x, const float* y) {
  PackedProduct g;
  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.a_row = p.transpose_x ? 1 : p.k;
  g.a_depth = p.transpose_x ? p.m : 1;
  g.b_depth = p.transpose_y ? 1 : p.n;
  g.b_column = p.transpose_y ? p.k : 1;
  g.out_row = p.n;
  const auto one = [&](int64_t b) {
    packed_product(g, out + b * p.m * p.n, x + p.x_offset(b), y + p.y_offset(b));
  };
  // Many products go to the threads whole; of few ones each is split.
  if (p.batches >= kManyBatches) {
    return parallel_for(p.batches, flops(p) * static_cast<double>(p.batches) / kFlopsPerUs, one);
  }
  for (int64_t b = 0; b < p.batches; ++b) one(b);
}

// Few rows x with a transposed y: y is read in place, as the left operand of the transposed
// product, so that only x and the result, which are smaller, are transposed.
bool is_turned(const MatmulPlan& p) {
  constexpr int64_t kLeastDepth = 256;  // of columns that are worth turning
  return p.transpose_y && !p.transpose_x && p.m <= kPackedColumns && p.n >= 4 * p.m &&
         p.k >= kLeastDepth;
}

// Rows [begin, end) of the turned product, whose right operand is the panel of x.
void turned_rows(const MatmulPlan& p, float* out, const float* panel, const float* y, int64_t begin,
                 int64_t end) {
  constexpr int64_t kRows = 48;
  float block[kRows * kPackedColumns];
  TileProduct t;
  t.columns = p.m;
  t.depth = p.k;
  t.a_row = p.k;
  t.b_depth = t.out_row = kPackedColumns;
  t.reads = TileReads::kAhead;
  for (int64_t row = begin; row < end; row += kRows) {
    t.rows = std::min(kRows, end - row);
    tile_product(t, block, y + row * p.k, panel);
    transpose_matrix(out + row, p.n, block, kPackedColumns, t.rows, p.m);
  }
}

void run_turned(const MatmulPlan& p, float* out, const float* x, const float* y) {
  const int64_t rows = lines_per_chunk(flops(p) / static_cast<double>(p.n), kPackedRows);
  float* panel = thread_scratch<float, kTurned>(p.k * kPackedColumns);
  for (int64_t b = 0; b < p.batches; ++b) {
    float* result = out + b * p.m * p.n;
    const float* matrix = y + p.y_offset(b);
    pack_columns(panel, x + p.x_offset(b), 1, p.k, p.k, p.m);
    parallel_for((p.n + rows - 1) / rows, flops(p) / kFlopsPerUs, [&](int64_t chunk) {
      turned_rows(p, result, panel, matrix, chunk * rows, std::min(p.n, (chunk + 1) * rows));
    });
  }
}

// Few rows x with a row-major y: the tiles read y in place, since a panel would be read too few
// times to be worth the copy. Narrower tiles read and write so little of each row of y and of the
// result that oneDNN's copies cost less; so too where is_shallow().
bool is_few(const MatmulPlan& p) {
  constexpr int64_t kFew = 32;  // with more rows oneDNN is as fast
  return has_wide_tiles() && !p.transpose_y && p.m <= kFew;
}

// Columns [begin, end) of one product, in blocks of depths: all tiles of some columns read x from
// the second cache, where the first tile has brought it. Shorter blocks if rows of y share cache
// sets.
void few_columns(const MatmulPlan& p, float* out, const float* x, const float* y, int64_t begin,
                 int64_t end) {
  constexpr int64_t kPage = 1024;  // floats
  const int64_t depth = p.n % kPage == 0 ? kPage / 4 : kPage;
  const int64_t blocks = (p.k + depth - 1) / depth;
  TileProduct t = rows_of(p, p.m);
  t.columns = end - begin;
  t.start_row = p.n;
  t.reads = TileReads::kAhead;
  out += begin;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t from = i * p.k / blocks;
    t.depth = (i + 1) * p.k / blocks - from;
    t.start = i > 0 ? out : nullptr;
    tile_product(t, out, x + from * t.a_depth, y + from * p.n + begin);
  }
}

// Calls body(batch, begin, end) for parts of the `size` rows or columns of each product, of a chunk
// of work and a multiple of `unit`.
template <class Body>
void for_parts(const MatmulPlan& p, int64_t size, int64_t unit, Body body) {
  const int64_t part = lines_per_chunk(flops(p) / static_cast<double>(size), unit);
  const int64_t parts = (size + part - 1) / part;
  const double us = flops(p) * static_cast<double>(p.batches) / kFlopsPerUs;
  parallel_for(p.batches * parts, us, [&](int64_t chunk) {
    const int64_t begin = chunk % parts * part;
    body(chunk / parts, begin, std::min(size, begin + part));
  });
}

void run_few(const MatmulPlan& p, float* out, const float* x, const float* y) {
  constexpr int64_t kColumns = 32;  // of a tile
  for_parts(p, p.n, kColumns, [&](int64_t batch, int64_t begin, int64_t end) {
    few_columns(p, out + batch * p.m * p.n, x + p.x_offset(batch), y + p.y_offset(batch), begin,
                end);
  });
}

// So little depth that writing the results takes much of the time, as for the gradient of a weight
// by a small batch.
bool is_shallow(const MatmulPlan& p) {
  constexpr int64_t kDeepest = 64;
  constexpr int64_t kLargest = int64_t{1} << 20;  // of more results oneDNN is a tenth faster
  return has_wide_tiles() && !p.transpose_y && p.k <= kDeepest && p.m * p.n <= kLargest;
}

void run_shallow(const MatmulPlan& p, float* out, const float* x, const float* y) {
  for_parts(p, p.m, kBroadRows, [&](int64_t batch, int64_t begin, int64_t end) {
    TileProduct t = rows_of(p, end - begin);
    t.broad = true;
    tile_product(t, out + (batch * p.m + begin) * p.n, x + p.x_offset(batch) + begin * t.a_row,
                 y + p.y_offset(batch));
  });
}

bool run_one_tile(const KernelCall& call) {
  static_cast<const MatmulParams*>(call.params)
      ->tile.run(static_cast<float*>(call.out[0]), static_cast<const float*>(call.in[0]),
                 static_cast<const float*>(call.in[1]));
  return true;
}

bool run_one_small(const KernelCall& call) {
  const MatmulPlan& p = static_cast<const MatmulParams*>(call.params)->plan;
  small_rows(p, static_cast<float*>(call.out[0]), static_cast<const float*>(call.in[0]),
             static_cast<const float*>(call.in[1]), 0, p.m);
  return true;
}

bool run_matmul(const KernelCall& call) try {
  const auto& p = *static_cast<const MatmulParams*>(call.params);
  if (p.dtype == kFloat32) {
    matmul_float32(p.plan, static_cast<float*>(call.out[0]), static_cast<const float*>(call.in[0]),
                   static_cast<const float*>(call.in[1]));
  } else {
    matmul_generic(p.plan, p.dtype, call.out[0], call.in[0], call.in[1]);
  }
  return true;
} catch (const std::bad_alloc&) {
  return report_fault(ErrorCode::kResourceExhausted, "the host has no memory left for this call");
}

// Steps of the leading axes of `shape` in a result with `rank` of them.
void set_steps(const Shape& shape, int rank, std::array<int64_t, kMaxRank>& steps) {
  if (shape.rank() < 3) return;
  int64_t step = shape[shape.rank() - 1] * shape[shape.rank() - 2];
  for (int axis = shape.rank() - 3; axis >= 0; --axis) {
    const int at = axis + rank - (shape.rank() - 2);
    steps[static_cast<std::size_t>(at)] = shape[axis] == 1 ? 0 : step;
    step *= shape[axis];
  }
}

}  // namespace

MatmulPlan plan_matmul(const Shape& x, const Shape& y, bool transpose_x, bool transpose_y) {
  MatmulPlan p;
  const int xr = x.rank(), yr = y.rank();
  p.transpose_x = transpose_x && xr > 1;
  p.transpose_y = transpose_y && yr > 1;
  p.m = xr == 1 ? 1 : x[p.transpose_x ? xr - 1 : xr - 2];
  p.k = xr == 1 ? x[0] : x[p.transpose_x ? xr - 2 : xr - 1];
  p.n = yr == 1 ? 1 : y[p.transpose_y ? yr - 2 : yr - 1];
  p.rank = std::max({xr, yr, 2}) - 2;
  set_steps(x, p.rank, p.x_steps);
  set_steps(y, p.rank, p.y_steps);
  for (int axis = 0; axis < p.rank; ++axis) {
    const int xa = axis - p.rank + xr - 2, ya = axis - p.rank + yr - 2;
    const int64_t xs = xa < 0 ? 1 : x[xa], ys = ya < 0 ? 1 : y[ya];
    p.sizes[static_cast<std::size_t>(axis)] = xs == 1 ? ys : xs;
    p.batches *= p.sizes[static_cast<std::size_t>(axis)];
  }
  // One matrix y for all of x: the batches of x are rows.
  if (yr <= 2 && !p.transpose_x) {
    p.m *= p.batches;
    p.batches = 1;
    p.rank = 0;
  }
  // A column times a matrix is a row of the transposed product, whose elements lie the same way.
  if (p.n == 1 && p.transpose_x && p.m > 1) {
    std::swap(p.m, p.n);
    std::swap(p.x_steps, p.y_steps);
    p.transpose_x = p.transpose_y = false;
    p.swapped = true;
  } else if (p.m == 1 && p.transpose_y && p.n > 1) {
    std::swap(p.m, p.n);
    std::swap(p.x_steps, p.y_steps);
    p.transpose_x = p.transpose_y = false;
    p.swapped = true;
  }
  return p;
}

void matmul_float32(const MatmulPlan& p, float* out, const float* x, const float* y) {
  if (p.batches * p.m * p.n == 0) return;
  if (p.swapped) std::swap(x, y);
  if (is_small(p)) return run_small(p, out, x, y);
  if (is_turned(p)) return run_turned(p, out, x, y);
  if (is_few(p)) return run_few(p, out, x, y);
  if (is_shallow(p)) return run_shallow(p, out, x, y);
  is_long(p) ? run_packed(p, out, x, y) : run_blocks(p, out, x, y);
}

// All routes of small products add the terms of an element from the first to the last.
bool describe_product(const Prepared& call, SmallCall& out) {
  constexpr int64_t kDeepest = 32;
  if (call.run != run_one_tile && call.run != run_one_small && call.run != run_matmul) return false;
  const auto& params = *static_cast<const MatmulParams*>(call.state.params);
  const MatmulPlan& p = params.plan;
  if (params.dtype != kFloat32 || p.k < 1 || p.k > kDeepest || !is_small(p)) return false;
  out.kind = SmallCall::Kind::kProduct;
  out.depth = static_cast<uint32_t>(p.k);
  const int64_t x_row = p.transpose_x ? 1 : p.k, y_column = p.transpose_y ? p.k : 1;
  SmallCall::List x, y;
  for (int64_t batch = 0; batch < p.batches; ++batch) {
    for (int64_t i = 0; i < p.m * p.n; ++i) {
      x.push_back(static_cast<uint16_t>(p.x_offset(batch) + i / p.n * x_row));
      y.push_back(static_cast<uint16_t>(p.y_offset(batch) + i % p.n * y_column));
    }
  }
  out.strides = {static_cast<uint32_t>(p.transpose_x ? p.m : 1),
                 static_cast<uint32_t>(p.transpose_y ? 1 : p.n)};
  out.at = {std::move(x), std::move(y)};
  if (p.swapped) {
    std::swap(out.at[0], out.at[1]);
    std::swap(out.strides[0], out.strides[1]);
  }
  return true;
}

bool estimate_product(const Prepared& call, CallTime& time) {
  const auto* p = dynamic_cast<const MatmulParams*>(call.owner.get());
  if (p == nullptr) return false;
  const double work = flops(p->plan) * static_cast<double>(p->plan.batches);
  const double rate = p->dtype == kFloat32 ? kFlopsPerUsAlone : kFlopsPerUsAlone / 10;
  add_flops(time, work, rate, work / kChunkFlops);
  return true;
}

void prepare_matmul(const PrepareCall& call) {
  auto p = internal::make_ref<MatmulParams>();
  p->plan = plan_matmul(call.shape(0), call.shape(1), call.attrs.flag("transpose_x"),
                        call.attrs.flag("transpose_y"));
  p->dtype = call.dtype(0);
  const bool one = p->dtype == kFloat32 && p->plan.batches == 1 && !p->plan.swapped &&
                   p->plan.m * p->plan.n > 0 && flops(p->plan) <= kChunkFlops / 4;
  if (one && reads_y_in_place(p->plan)) p->tile = OneTile(rows_of(p->plan, p->plan.m));
  call.set(p->tile ? run_one_tile : one ? run_one_small : run_matmul, p);
}

}  // namespace etude::kernels::cpu
