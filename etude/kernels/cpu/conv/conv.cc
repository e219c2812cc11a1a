// SPDX-License-Identifier: Apache-2.0
// float32 convolutions as products over overlapping views: the pixels under one row of the filter
// are adjacent in memory, so a row of results is a product whose left operand is the image itself,
// with a step of one stride from row to row. Nothing is copied but images that need padding. The
// shapes of winograd.h and depthwise.h go there.
#include "etude/kernels/cpu/conv/conv.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/call_estimates.h"
#include "etude/kernels/cpu/conv/depthwise.h"
#include "etude/kernels/cpu/conv/partial_sums.h"
#include "etude/kernels/cpu/conv/winograd.h"
#include "etude/kernels/cpu/halves.h"
#include "etude/kernels/cpu/product/packed_product.h"
#include "etude/kernels/cpu/product/tile_product.h"
#include "etude/kernels/cpu/thread_scratch.h"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kLeastDepth = 256;   // of the products of a filter gradient
constexpr int64_t kNearFloats = 4096;  // of a filter that stays in the first cache with the image
constexpr int64_t kLeastRows = 8;      // of a block: its rows of padding are copied with it

enum Purpose { kPadded = 10, kFlipped, kPartials, kHalves, kPanels, kStrips };

// With few outputs a vector holds a strip: the outputs of several neighbouring results. Then the
// filter has columns for each of them, and its rows are as long as the pixels of a strip: ((count -
// 1) sw + kw) c; each result reads kw c of them.
struct Strips {
  int64_t count = 1;  // results in a strip; 1: there are no strips
  int64_t depth = 0;

  int64_t columns(const ConvPlan& p) const { return count * p.o; }
  // Of a filter with such rows.
  int64_t size(const ConvPlan& p) const { return p.kh * depth * columns(p); }
};

// The strips that save most, if they save a fifth. By shapes alone, as sums depend on it.
Strips make_strips(const ConvPlan& p) {
  constexpr int64_t kVector = 16;
  Strips best{1, p.kw * p.group_inputs()};
  if (p.groups != 1 || p.dw != 1) return best;
  for (int64_t count = 2; count * p.o <= kVector && count <= p.ow; ++count) {
    const int64_t depth = ((count - 1) * p.sw + p.kw) * p.c;
    const bool saves = depth * best.count < best.depth * count;
    if (saves && 5 * depth <= 4 * count * p.kw * p.c) best = {count, depth};
  }
  return best;
}

// A correlation of an image, padded with zeros, with a filter.
struct Correlation {
  ConvPlan p;
  bool copies = false;  // the image is padded into scratch memory
  int64_t padded_w = 0;
  int64_t rows = 0;     // of results in one block
  int64_t blocks = 0;   // in one image
  TileProduct product;  // of one row of results
  std::vector<int64_t> a_offset, b_offset;
  Strips strips;
  TileProduct strip_product;  // of the strips of one row of results
  std::vector<int64_t> strip_b_offset;
  std::vector<uint16_t> strip_columns;
  bool packs = false;  // the filter, whose rows are longer than a tile, into panels

  int64_t row_step() const { return (copies ? padded_w : p.w) * p.c; }
  // Rows of the padded image that `count` rows of results read.
  int64_t rows_read(int64_t count) const { return (count - 1) * p.sh + (p.kh - 1) * p.dh + 1; }
  double flops() const {
    return 2.0 * static_cast<double>(p.oh * p.ow) * static_cast<double>(p.filter());
  }
};

// How a filter that is packed is read: panel after panel, each [kh kw c, 32].
void set_panels(Correlation& c) {
  c.packs = c.p.groups == 1 && c.p.o > kPackedColumns;
  if (c.p.filter() > kNearFloats) c.product.reads = TileReads::kAhead;
  if (!c.packs) return;
  for (int64_t& offset : c.b_offset) offset = offset / c.p.o * kPackedColumns;
  c.product.b_depth = kPackedColumns;
}

// Rows of one filter row, or pixel by pixel where they are not adjacent, are one segment each.
void set_segments(Correlation& c) {
  const ConvPlan& p = c.p;
  const bool whole_rows = p.dw == 1 && p.groups == 1;
  const int64_t across = whole_rows ? 1 : p.kw;
  for (int64_t i = 0; i < p.kh; ++i) {
    for (int64_t j = 0; j < across; ++j) {
      c.a_offset.push_back(i * p.dh * c.row_step() + j * p.dw * p.c);
      c.b_offset.push_back((i * p.kw + j) * p.group_inputs() * p.o);
    }
  }
  TileProduct& t = c.product;
  t.rows = p.ow;
  t.columns = p.group_outputs();
  t.depth = whole_rows ? p.kw * p.c : p.group_inputs();
  t.a_row = p.sw * p.c;
  t.b_depth = t.out_row = p.o;
  t.segments = p.kh * across;
  t.a_offset = c.a_offset.data();
  t.b_offset = c.b_offset.data();
}

// A result does not read all pixels of its strip. Unread pixels must not reach its sum: 0 times
// infinity is NaN.
void set_strips(Correlation& c) {
  const ConvPlan& p = c.p;
  if (!has_wide_tiles()) return;
  c.strips = make_strips(p);
  if (c.strips.count == 1) return;
  for (int64_t d = 0; d < c.strips.depth; ++d) {
    uint32_t columns = 0;
    for (int64_t q = 0; q < c.strips.count; ++q) {
      const int64_t at = d - q * p.sw * p.c;
      if (at >= 0 && at < p.kw * p.c) columns |= ((1u << p.o) - 1) << (q * p.o);
    }
    c.strip_columns.push_back(static_cast<uint16_t>(columns));
  }
  TileProduct& t = c.strip_product;
  t = c.product;
  t.rows = p.ow / c.strips.count;
  t.columns = t.b_depth = t.out_row = c.strips.columns(p);
  t.depth = c.strips.depth;
  t.a_row = c.strips.count * p.sw * p.c;
  for (int64_t i = 0; i < p.kh; ++i) c.strip_b_offset.push_back(i * t.depth * t.columns);
  t.b_offset = c.strip_b_offset.data();
  t.columns_of = c.strip_columns.data();
  t.reads = TileReads::kMasked;
}

// The filter with a column for each result of a strip, then the bias in the same form.
void pack_strips(const Correlation& c, float* to, const float* filter, const float* bias) {
  const ConvPlan& p = c.p;
  const int64_t columns = c.strips.columns(p), row = p.kw * p.c;
  std::fill_n(to, c.strips.size(p), 0.0f);
  for (int64_t q = 0; q < c.strips.count; ++q) {
    for (int64_t i = 0; i < p.kh; ++i) {
      for (int64_t d = 0; d < row; ++d) {
        std::copy_n(filter + (i * row + d) * p.o, p.o,
                    to + (i * c.strips.depth + q * p.sw * p.c + d) * columns + q * p.o);
      }
    }
    if (bias != nullptr) std::copy_n(bias, p.o, to + c.strips.size(p) + q * p.o);
  }
}

void set_geometry(Correlation& c) {
  const ConvPlan& p = c.p;
  const int64_t read_h = c.rows_read(p.oh), read_w = (p.ow - 1) * p.sw + (p.kw - 1) * p.dw + 1;
  c.copies = p.top != 0 || p.left != 0 || read_h > p.h || read_w > p.w;
  c.padded_w = read_w;
  const double row_flops = c.flops() / static_cast<double>(std::max<int64_t>(1, p.oh));
  const auto rows = static_cast<int64_t>(kChunkFlops / (row_flops + 1));
  c.rows = std::min(std::max(rows, kLeastRows), p.oh);
  c.blocks = (p.oh + c.rows - 1) / c.rows;
}

// Rows [first, first + count) of the padded image.
void pad_rows(const Correlation& c, float* to, const float* image, int64_t first, int64_t count) {
  const ConvPlan& p = c.p;
  const int64_t width = c.padded_w * p.c;
  const int64_t begin = std::clamp<int64_t>(p.left, 0, c.padded_w);
  const int64_t end = std::clamp<int64_t>(p.left + p.w, begin, c.padded_w);
  for (int64_t r = 0; r < count; ++r, to += width) {
    const int64_t y = first + r - p.top;
    if (y < 0 || y >= p.h) {
      std::fill_n(to, width, 0.0f);
      continue;
    }
    const float* row = image + (y * p.w - p.left) * p.c;
    std::fill(to, to + begin * p.c, 0.0f);
    std::copy(row + begin * p.c, row + end * p.c, to + begin * p.c);
    std::fill(to + end * p.c, to + width, 0.0f);
  }
}

// The start of the part of an image that results [row, row + count) read. The same parts of later
// images follow at the step of image_step().
const float* window_rows(const Correlation& c, const float* image, int64_t row, int64_t count,
                         int64_t images = 1) {
  if (!c.copies) return image + row * c.p.sh * c.row_step();
  const int64_t rows = c.rows_read(count), size = rows * c.row_step();
  float* padded = thread_scratch<float, kPadded>(images * size);
  for (int64_t i = 0; i < images; ++i) {
    pad_rows(c, padded + i * size, image + i * c.p.image(), row * c.p.sh, rows);
  }
  return padded;
}
// Of whole images.
int64_t image_step(const Correlation& c) {
  return c.copies ? c.rows_read(c.p.oh) * c.row_step() : c.p.image();
}

// The filter of a correlation. `strips`: the result of pack_strips(), or null.
struct Filter {
  const float *values, *bias, *strips;
};

// `count` rows of results, by strips.
void correlate_strips(const Correlation& c, float* out, const float* window, const Filter& filter,
                      int64_t count) {
  const ConvPlan& p = c.p;
  TileProduct strips = c.strip_product, rest = c.product;
  if (filter.bias != nullptr) strips.start = filter.strips + c.strips.size(p);
  rest.start = filter.bias;
  rest.rows = p.ow % c.strips.count;
  const int64_t done = p.ow - rest.rows;
  for (int64_t r = 0; r < count; ++r, out += p.ow * p.o, window += p.sh * c.row_step()) {
    tile_product(strips, out, window, filter.strips);
    if (rest.rows == 0) continue;
    tile_product(rest, out + done * p.o, window + done * p.sw * p.c, filter.values);
  }
}

void correlate_block(const Correlation& c, float* out, const float* image, const Filter& filter,
                     int64_t row, int64_t count) {
  const ConvPlan& p = c.p;
  const float* window = window_rows(c, image, row, count);
  if (filter.strips != nullptr) {
    return correlate_strips(c, out + row * p.ow * p.o, window, filter, count);
  }
  TileProduct t = c.product;
  const int64_t depth = p.kh * p.kw * p.c;
  const int64_t width = c.packs ? kPackedColumns : p.group_outputs();
  for (int64_t o = 0; o < p.o; o += width) {
    t.columns = std::min(width, p.o - o);
    t.start = filter.bias != nullptr ? filter.bias + o : nullptr;
    const int64_t input = o / p.group_outputs() * p.group_inputs();
    for (int64_t r = 0; r < count; ++r) {
      tile_product(t, out + (row + r) * p.ow * p.o + o, window + r * p.sh * c.row_step() + input,
                   filter.values + (c.packs ? o * depth : o));
    }
  }
}

void correlate(const Correlation& c, float* out, const float* x, const float* filter,
               const float* bias) {
  const ConvPlan& p = c.p;
  if (c.packs) {
    const int64_t depth = p.kh * p.kw * p.c;
    float* panels = thread_scratch<float, kPanels>(depth * (p.o + kPackedColumns));
    pack_columns(panels, filter, p.o, 1, depth, p.o);
    filter = panels;
  }
  Filter operands{filter, bias, nullptr};
  if (c.strips.count > 1) {
    float* strips = thread_scratch<float, kStrips>(c.strips.size(p) + c.strips.columns(p));
    pack_strips(c, strips, filter, bias);
    operands.strips = strips;
  }
  const int64_t blocks = p.n * c.blocks;
  const double each = c.flops() / static_cast<double>(c.blocks);
  const int64_t per_chunk = std::max<int64_t>(1, static_cast<int64_t>(kChunkFlops / (each + 1)));
  parallel_for((blocks + per_chunk - 1) / per_chunk,
               each * static_cast<double>(blocks) / kFlopsPerUs, [&](int64_t chunk) {
                 const int64_t end = std::min(blocks, (chunk + 1) * per_chunk);
                 for (int64_t b = chunk * per_chunk; b < end; ++b) {
                   const int64_t image = b / c.blocks, row = b % c.blocks * c.rows;
                   correlate_block(c, out + image * p.result(), x + image * p.image(), operands,
                                   row, std::min(c.rows, p.oh - row));
                 }
               });
}

// Without strides, the input gradient is the correlation of the cotangent with the filter turned by
// half a circle and its channels exchanged.
ConvPlan gradient_plan(const ConvPlan& p) {
  ConvPlan q = p;
  q.h = p.oh, q.w = p.ow, q.c = p.o;
  q.oh = p.h, q.ow = p.w, q.o = p.c;
  q.top = (p.kh - 1) * p.dh - p.top;
  q.left = (p.kw - 1) * p.dw - p.left;
  return q;
}

// filter [kh, kw, c / groups, o] as [kh, kw, o / groups, c], turned.
void turn_filter(const ConvPlan& p, float* to, const float* filter) {
  const int64_t inputs = p.group_inputs(), outputs = p.group_outputs(), taps = p.kh * p.kw;
  for (int64_t tap = 0; tap < taps; ++tap) {
    const float* from = filter + (taps - 1 - tap) * inputs * p.o;
    for (int64_t j = 0; j < outputs; ++j) {
      for (int64_t g = 0; g < p.groups; ++g) {
        for (int64_t i = 0; i < inputs; ++i) *to++ = from[i * p.o + g * outputs + j];
      }
    }
  }
}

bool by_columns(const ConvPlan& p) { return p.group_inputs() < 16 || p.sh > 1 || p.sw > 1; }

struct ConvParams : KernelParams {
  ConvPlan plan;
  DType dtype = kFloat32;
  ConvPass pass = ConvPass::kForward;
  bool winograd = false;
  Correlation correlation;  // forward, input gradient
  // Filter gradient: images in one product, 1 unless they are small; partial sums, and how many
  // products add to each.
  int64_t group = 1, chunks = 1, per_chunk = 1;
  // Sums are [kh, o, kw c], as a row of the image is longer than one of outputs.
  bool turned = false;
  // The sums of strips, [kh, depth, count, o], have a term for each pair of a pixel of a strip and
  // a result of it. The gradient of a weight is the sum over its pairs.
  Strips strips;
  std::vector<int64_t> x_rows, ct_rows;
};

// Adds the terms of some rows of results to the filter gradient; `ct` begins at the first of them.
void add_filter_gradient(const ConvParams& q, float* sum, const float* window, const float* ct,
                         int64_t count) {
  const Correlation& c = q.correlation;
  const ConvPlan& p = q.plan;
  TileProduct t;
  t.depth = p.ow;
  t.segments = count;
  t.reads = TileReads::kAhead;
  if (q.turned) {
    t.rows = p.o;
    t.columns = t.out_row = t.start_row = c.product.depth;
    t.a_row = 1;
    t.a_depth = p.o;
    t.b_depth = c.product.a_row;
    t.a_offset = q.ct_rows.data();
    t.b_offset = q.x_rows.data();
    for (std::size_t s = 0; s < c.a_offset.size(); ++s) {
      float* out = sum + c.b_offset[s];
      t.start = out;
      tile_product(t, out, ct, window + c.a_offset[s]);
    }
    return;
  }
  const int64_t strip = q.strips.count;
  t.rows = strip > 1 ? q.strips.depth : c.product.depth;
  t.columns = strip * c.product.columns;
  t.depth = p.ow / strip;
  t.a_row = 1;
  t.a_depth = strip * c.product.a_row;
  t.b_depth = t.out_row = t.start_row = strip * p.o;
  t.a_offset = q.x_rows.data();
  t.b_offset = q.ct_rows.data();
  t.halves = t.rows <= kHalvesRows && t.columns <= kHalvesColumns && count > 1;
  for (std::size_t s = 0; s < c.a_offset.size(); ++s) {
    for (int64_t g = 0; g < p.groups; ++g) {
      const int64_t o = g * p.group_outputs();
      const int64_t at = strip > 1 ? static_cast<int64_t>(s) * t.rows * t.columns : c.b_offset[s];
      float* out = sum + at + o;
      t.start = out;
      tile_product(t, out, window + c.a_offset[s] + g * p.group_inputs(), ct + o);
    }
  }
}

// How many products a filter gradient is the sum of.
int64_t filter_units(const ConvParams& q) {
  return (q.plan.n + q.group - 1) / q.group * q.correlation.blocks;
}

// The gradient [kh, kw c / groups, o] from the sums, whether they are turned, of strips or neither.
void take_sums(const ConvParams& q, float* out, const float* sums) {
  const ConvPlan& p = q.plan;
  const int64_t depth = p.kw * p.group_inputs(), columns = q.strips.columns(p);
  const int64_t d_step = q.turned ? 1 : columns, o_step = q.turned ? depth : 1;
  const int64_t result_step = p.sw * p.c * columns + p.o;  // to the next result of a strip
  for (int64_t i = 0; i < p.kh; ++i, sums += q.strips.depth * columns) {
    for (int64_t d = 0; d < depth; ++d) {
      for (int64_t o = 0; o < p.o; ++o, ++out) {
        const float* from = sums + d * d_step + o * o_step;
        *out = from[0];
        for (int64_t r = 1; r < q.strips.count; ++r) *out += from[r * result_step];
      }
    }
  }
}

void filter_gradient(const ConvParams& q, float* out, const float* x, const float* ct) {
  const Correlation& c = q.correlation;
  const ConvPlan& p = q.plan;
  const int64_t size = q.strips.size(p), units = filter_units(q);
  const bool direct = q.chunks == 1 && !q.turned && q.strips.count == 1;
  float* partials = direct ? out : thread_scratch<float, kPartials>(q.chunks * size);
  parallel_for(q.chunks, c.flops() * static_cast<double>(p.n) / kFlopsPerUs, [&](int64_t chunk) {
    float* sum = partials + chunk * size;
    std::fill_n(sum, size, 0.0f);
    const int64_t end = std::min(units, (chunk + 1) * q.per_chunk);
    for (int64_t u = chunk * q.per_chunk; u < end; ++u) {
      const int64_t image = u / c.blocks * q.group, row = u % c.blocks * c.rows;
      const int64_t images = std::min(q.group, p.n - image), count = std::min(c.rows, p.oh - row);
      add_filter_gradient(q, sum, window_rows(c, x + image * p.image(), row, count, images),
                          ct + image * p.result() + row * p.ow * p.o, images * count);
    }
  });
  if (direct) return;
  add_partials(partials, q.chunks, size);
  take_sums(q, out, partials);
}

int64_t result_count(const ConvParams& q) {
  const ConvPlan& p = q.plan;
  switch (q.pass) {
    case ConvPass::kForward:
      return p.n * p.result();
    case ConvPass::kInputGradient:
      return p.n * p.image();
    default:
      return p.filter();
  }
}

void run_float32(const ConvParams& q, float* out, const float* a, const float* b,
                 const float* bias) {
  const ConvPlan& p = q.plan;
  if (p.n * p.result() * p.image() * p.filter() == 0) {  // nothing to sum
    const bool biased = bias != nullptr;
    for (int64_t i = 0, n = result_count(q); i < n; ++i) out[i] = biased ? bias[i % p.o] : 0.0f;
    return;
  }
  if (is_depthwise(p)) return depthwise(p, q.pass, out, a, b, bias);
  if (q.pass == ConvPass::kFilterGradient) {
    return q.winograd ? winograd_filter_gradient(p, out, a, b) : filter_gradient(q, out, a, b);
  }
  if (q.pass == ConvPass::kInputGradient) {
    if (by_columns(p)) return conv2d_input_columns(p, out, a, b);
    float* turned = thread_scratch<float, kFlipped>(p.filter());
    turn_filter(p, turned, b);
    b = turned;
  }
  if (q.winograd) return winograd_correlate(q.correlation.p, out, a, b, bias);
  correlate(q.correlation, out, a, b, bias);
}

// Elements of the operands of a pass.
std::array<int64_t, 3> operand_counts(const ConvParams& q, bool biased) {
  const ConvPlan& p = q.plan;
  const int64_t x = p.n * p.image(), y = p.n * p.result(), f = p.filter();
  switch (q.pass) {
    case ConvPass::kForward:
      return {x, f, biased ? p.o : 0};
    case ConvPass::kInputGradient:
      return {y, f, 0};
    default:
      return {x, y, 0};
  }
}

// Half types compute in float32 and round once.
void run_half(const ConvParams& q, void* out, const void* const* in, bool biased) {
  const std::array<int64_t, 3> counts = operand_counts(q, biased);
  const int64_t results = result_count(q);
  float* buffer = thread_scratch<float, kHalves>(counts[0] + counts[1] + counts[2] + results);
  std::array<float*, 3> at{};
  float* next = buffer;
  for (std::size_t i = 0; i < 3; ++i) {
    if (counts[i] > 0) convert_row(next, kFloat32, in[i], q.dtype, counts[i]);
    at[i] = next;
    next += counts[i];
  }
  run_float32(q, next, at[0], at[1], biased ? at[2] : nullptr);
  convert_row(out, q.dtype, next, kFloat32, results);
}

bool run_conv(const KernelCall& call) try {
  const auto& q = *static_cast<const ConvParams*>(call.params);
  const bool forward = q.pass == ConvPass::kForward;
  const void* in[] = {call.in[0], call.in[1], forward ? call.in[2] : nullptr};
  if (q.dtype == kFloat32) {
    run_float32(q, static_cast<float*>(call.out[0]), static_cast<const float*>(in[0]),
                static_cast<const float*>(in[1]), static_cast<const float*>(in[2]));
  } else if (q.dtype == kFloat16 || q.dtype == kBFloat16) {
    run_half(q, call.out[0], in, in[2] != nullptr);
  } else {
    conv2d_generic(q.plan, q.pass, q.dtype, call.out[0], in);
  }
  return true;
} catch (const std::bad_alloc&) {
  return report_fault(ErrorCode::kResourceExhausted, "the host has no memory left for this call");
}

void set_filter_gradient(ConvParams& q) {
  const Correlation& c = q.correlation;
  const ConvPlan& p = q.plan;
  // A row of one vector leaves half of the tile's registers unused.
  q.turned = p.o <= 16 && p.groups == 1 && c.product.segments == p.kh && p.kw * p.c > 16;
  const Strips strips = make_strips(p);
  const bool fits = !q.turned && p.ow % strips.count == 0;
  q.strips = fits ? strips : Strips{1, p.kw * p.group_inputs()};
  if (c.blocks == 1) q.group = std::clamp<int64_t>(kLeastDepth / (p.oh * p.ow), 1, p.n);
  const int64_t units = filter_units(q);
  const int64_t most = most_partials(c.flops() * static_cast<double>(p.n), q.strips.size(p));
  q.per_chunk = std::max<int64_t>(1, (units + most - 1) / most);
  q.chunks = std::max<int64_t>(1, (units + q.per_chunk - 1) / q.per_chunk);
  for (int64_t g = 0; g < q.group; ++g) {
    for (int64_t r = 0; r < c.rows; ++r) {
      q.x_rows.push_back(g * image_step(c) + r * p.sh * c.row_step());
      q.ct_rows.push_back(g * p.result() + r * p.ow * p.o);
    }
  }
}

void prepare(const PrepareCall& call, const ConvPlan& plan, ConvPass pass) {
  auto q = internal::make_ref<ConvParams>();
  q->plan = plan;
  q->dtype = call.dtype(0);
  q->pass = pass;
  Correlation& c = q->correlation;
  c.p = plan;
  if (pass == ConvPass::kInputGradient) c.p = gradient_plan(plan);
  q->winograd = has_winograd(c.p);
  if (!q->winograd && !is_depthwise(plan) &&
      c.p.n * c.p.result() * c.p.image() * c.p.filter() != 0) {
    set_geometry(c);
    set_segments(c);
    if (pass == ConvPass::kFilterGradient) {
      set_filter_gradient(*q);
    } else {
      set_panels(c);
      set_strips(c);
    }
  }
  call.set(run_conv, q);
}

}  // namespace

bool estimate_convolution(const Prepared& call, CallTime& time) {
  const auto* q = dynamic_cast<const ConvParams*>(call.owner.get());
  if (q == nullptr) return false;
  const ConvPlan& p = q->plan;
  const double work =
      2.0 * static_cast<double>(p.n * p.oh * p.ow) * static_cast<double>(p.filter());
  const double rate = q->dtype == kFloat32 ? kFlopsPerUsAlone : kFlopsPerUsAlone / 10;
  add_flops(time, work, rate, static_cast<double>(p.n * p.oh));
  return true;
}

void prepare_conv2d(const PrepareCall& call, const ConvPlan& plan) {
  prepare(call, plan, ConvPass::kForward);
}
void prepare_conv2d_input_gradient(const PrepareCall& call, const ConvPlan& plan) {
  prepare(call, plan, ConvPass::kInputGradient);
}
void prepare_conv2d_filter_gradient(const PrepareCall& call, const ConvPlan& plan) {
  prepare(call, plan, ConvPass::kFilterGradient);
}

}  // namespace etude::kernels::cpu
