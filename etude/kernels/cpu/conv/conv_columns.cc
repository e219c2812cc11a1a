// SPDX-License-Identifier: Apache-2.0
// The input gradient of float32 convolutions with few channels, or with strides: the terms of a row
// of the cotangent for all taps are one product, wide enough for full vectors, and are added to the
// image tap by tap.
#include <algorithm>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/conv/conv.h"
#include "etude/kernels/cpu/product/tile_product.h"
#include "etude/kernels/cpu/simd/math_table.h"
#include "etude/kernels/cpu/thread_scratch.h"

namespace etude::kernels::cpu {
namespace {

// The destinations of the products of one row of results, [results, rows, runs, length]: each
// product is added to `length` adjacent floats of the image.
struct ColumnRuns {
  int64_t results = 0, rows = 0, runs = 0, length = 0;
  int64_t from_result = 0, from_row = 0;          // steps of the products
  int64_t to_result = 0, to_row = 0, to_run = 0;  // and of the image
};

}  // namespace
}  // namespace etude::kernels::cpu

#define ISA_NAMESPACE etude::kernels::cpu
#define ISA_PRELUDE "etude/kernels/cpu/simd/vec.inc"
#define ISA_SOURCE "etude/kernels/cpu/conv/conv_columns.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu {
namespace {

void add_runs(const ColumnRuns& runs, float* to, const float* from) {
  static const internal::Isa isa = internal::best_isa();
  ETUDE_OF_ISA(isa, cpu, add_runs)(runs, to, from);
}

enum Purpose { kPadded = 30, kColumns, kTurned };

struct Columns {
  ConvPlan p;
  int64_t taps = 0;  // of one group: kh kw (c / groups)
  int64_t padded_h = 0, padded_w = 0;
  bool copies = false;  // the image is summed up with its padding, in scratch memory
};

Columns make_columns(const ConvPlan& p) {
  Columns q;
  q.p = p;
  q.taps = p.kh * p.kw * p.group_inputs();
  q.padded_h = std::max(p.top + p.h, (p.oh - 1) * p.sh + (p.kh - 1) * p.dh + 1);
  q.padded_w = std::max(p.left + p.w, (p.ow - 1) * p.sw + (p.kw - 1) * p.dw + 1);
  q.copies = q.padded_h != p.h || q.padded_w != p.w;
  return q;
}

// filter [kh, kw, c / groups, o] as [o, kh, kw, c / groups].
void turn_filter(const Columns& q, float* to, const float* filter) {
  for (int64_t o = 0; o < q.p.o; ++o) {
    for (int64_t t = 0; t < q.taps; ++t) *to++ = filter[t * q.p.o + o];
  }
}

// How the products of one row of results for one group, [ow, taps], lie in the padded image.
ColumnRuns runs_of(const Columns& q) {
  const ConvPlan& p = q.p;
  const int64_t inputs = p.group_inputs();
  const bool whole = p.dw == 1 && p.groups == 1;
  return {.results = p.ow,
          .rows = p.kh,
          .runs = whole ? 1 : p.kw,
          .length = whole ? p.kw * inputs : inputs,
          .from_result = q.taps,
          .from_row = p.kw * inputs,
          .to_result = p.sw * p.c,
          .to_row = p.dh * q.padded_w * p.c,
          .to_run = p.dw * p.c};
}

void one_image(const Columns& q, float* out, const float* ct, const float* turned) {
  const ConvPlan& p = q.p;
  const int64_t size = q.padded_h * q.padded_w * p.c;
  float* image = q.copies ? thread_scratch<float, kPadded>(size) : out;
  float* columns = thread_scratch<float, kColumns>(p.ow * q.taps);
  std::fill_n(image, size, 0.0f);
  TileProduct t;
  t.rows = p.ow;
  t.columns = t.b_depth = t.out_row = q.taps;
  t.depth = p.group_outputs();
  t.a_row = p.o;
  const ColumnRuns runs = runs_of(q);
  for (int64_t row = 0; row < p.oh; ++row) {
    for (int64_t g = 0; g < p.groups; ++g) {
      const int64_t o = g * p.group_outputs();
      tile_product(t, columns, ct + row * p.ow * p.o + o, turned + o * q.taps);
      add_runs(runs, image + row * p.sh * q.padded_w * p.c + g * p.group_inputs(), columns);
    }
  }
  if (!q.copies) return;
  for (int64_t row = 0; row < p.h; ++row) {
    std::copy_n(image + ((p.top + row) * q.padded_w + p.left) * p.c, p.w * p.c,
                out + row * p.w * p.c);
  }
}

}  // namespace

void conv2d_input_columns(const ConvPlan& p, float* out, const float* ct, const float* filter) {
  const Columns q = make_columns(p);
  float* turned = thread_scratch<float, kTurned>(p.filter());
  turn_filter(q, turned, filter);
  const double each = 2.0 * static_cast<double>(p.oh * p.ow) * static_cast<double>(p.filter());
  const int64_t per_chunk = std::max<int64_t>(1, static_cast<int64_t>(kChunkFlops / (each + 1)));
  parallel_for((p.n + per_chunk - 1) / per_chunk, each * static_cast<double>(p.n) / kFlopsPerUs,
               [&](int64_t chunk) {
                 const int64_t end = std::min(p.n, (chunk + 1) * per_chunk);
                 for (int64_t n = chunk * per_chunk; n < end; ++n) {
                   one_image(q, out + n * p.image(), ct + n * p.result(), turned);
                 }
               });
}

}  // namespace etude::kernels::cpu
