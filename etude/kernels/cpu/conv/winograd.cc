// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/conv/winograd.h"

#include <algorithm>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/conv/partial_sums.h"
#include "etude/kernels/cpu/product/tile_product.h"
#include "etude/kernels/cpu/thread_scratch.h"

namespace etude::kernels::cpu {
namespace {

// Where the pixels of small grids lie: distances, in elements, between the rows and columns of one
// and between grids, and which rows and columns there are.
struct Grid {
  int64_t row, column, tile, begin = 0;
  int64_t first_row = 0, last_row = 4, first_column = 0, last_column = 4;

  bool has(int64_t i, int64_t j) const {
    return i >= first_row && i < last_row && j >= first_column && j < last_column;
  }
};

// Which of two grids lacks pixels: those read are 0, those written are passed over.
enum class Clip { kNone, kFrom, kTo };

// For `tiles` grids and `channels` adjacent channels of each.
using Transform = void (*)(float* to, const Grid& to_grid, const float* from, const Grid& from_grid,
                           int64_t tiles, int64_t channels);

struct BorderTransform {
  Transform inside, border;
};

struct Transforms {
  BorderTransform input, cotangent, output;
  Transform filter, filter_gradient;
};

}  // namespace
}  // namespace etude::kernels::cpu

#define ISA_NAMESPACE etude::kernels::cpu
#define ISA_PRELUDE "etude/kernels/cpu/simd/vec.inc"
#define ISA_SOURCE "etude/kernels/cpu/conv/winograd.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kPlaces = 16;
constexpr int64_t kLine = 16;  // of the cache, in floats
constexpr int64_t kLeastChannels = 16;
constexpr int64_t kLeastSide = 4;
// Of one image, or transforming the filter is not repaid: if that stays in the second cache, or
// not.
constexpr int64_t kLeastTiles = 16, kMoreTiles = 48;
constexpr int64_t kNearFilter = 1 << 14;   // pairs of channels
constexpr int64_t kMostFilter = 1 << 18;   // each thread keeps 16 MiB for transforming it
constexpr int64_t kBlockFloats = 1 << 17;  // of transformed tiles, for the second cache
constexpr int64_t kLeastBlock = 64;        // tiles that share one reading of the filter

enum Purpose { kFilter = 30, kInputs, kOutputs, kSums };

const Transforms& transforms() {
  static const internal::Isa isa = internal::best_isa();
  return ETUDE_OF_ISA(isa, cpu, kTransforms);
}

// The tiles of all images, numbered row by row, image after image.
struct Tiling {
  int64_t images, rows, columns;
  explicit Tiling(const ConvPlan& p) : images(p.n), rows((p.oh + 1) / 2), columns((p.ow + 1) / 2) {}
  int64_t count() const { return images * rows * columns; }
};

// Images whose tiles are windows of `side` by `side` pixels, two pixels from each other; the first
// begins `top` and `left` outside.
struct Windows {
  int64_t h, w, c, side, top = 0, left = 0;

  bool row_inside(int64_t i) const { return 2 * i >= top && 2 * i - top + side <= h; }
  // The columns of tiles that lie inside are [first_inside, last_inside).
  int64_t first_inside() const { return (left + 1) / 2; }
  int64_t last_inside() const { return w + left < side ? 0 : (w + left - side) / 2 + 1; }
};

// Calls body(tile, grid, count, inside) for runs of the tiles [first, end), numbered from 0: where
// their windows lie, and whether all of these is inside of the image.
template <class Body>
void for_tiles(const Tiling& t, const Windows& a, int64_t first, int64_t end, const Body& body) {
  int64_t column = first % t.columns, row = first / t.columns % t.rows;
  int64_t image = first / t.columns / t.rows;
  for (int64_t tile = 0; tile < end - first;) {
    const int64_t y = 2 * row - a.top, x = 2 * column - a.left;
    Grid grid = {a.w * a.c, a.c, 2 * a.c, ((image * a.h + y) * a.w + x) * a.c};
    const int64_t last = std::min({column + end - first - tile, t.columns, a.last_inside()});
    const bool inside = a.row_inside(row) && column >= a.first_inside() && column < last;
    if (!inside) {
      grid.first_row = -y, grid.last_row = a.h - y;
      grid.first_column = -x, grid.last_column = a.w - x;
    }
    const int64_t count = inside ? last - column : 1;
    body(tile, grid, count, inside);
    tile += count;
    column += count;
    if (column < t.columns) continue;
    column = 0;
    if (++row < t.rows) continue;
    row = 0;
    ++image;
  }
}

// The transformed tiles of a block, [places, tiles, channels]. The distance of places is no power
// of two: else all values of a pixel would share a set of the first cache.
struct Places {
  int64_t tiles, channels;
  int64_t place() const { return (tiles * channels + 15) / 16 * 16 + kLine; }
  int64_t size() const { return kPlaces * place(); }
  Grid grid(int64_t tile) const { return {4 * place(), place(), channels, tile * channels}; }
};

void read_tiles(const BorderTransform& transform, const Tiling& t, const Windows& a, float* to,
                const float* x, int64_t first, int64_t end) {
  const Places places{end - first, a.c};
  for_tiles(t, a, first, end, [&](int64_t tile, const Grid& grid, int64_t count, bool inside) {
    (inside ? transform.inside : transform.border)(to, places.grid(tile), x, grid, count, a.c);
  });
}

void write_tiles(const Tiling& t, const Windows& a, float* y, const float* from, int64_t first,
                 int64_t end) {
  const BorderTransform& transform = transforms().output;
  const Places places{end - first, a.c};
  for_tiles(t, a, first, end, [&](int64_t tile, const Grid& grid, int64_t count, bool inside) {
    (inside ? transform.inside : transform.border)(y, grid, from, places.grid(tile), count, a.c);
  });
}

Windows inputs_of(const ConvPlan& p) { return {p.h, p.w, p.c, 4, p.top, p.left}; }
Windows results_of(const ConvPlan& p) { return {p.oh, p.ow, p.o, 2}; }

int64_t block_tiles(const ConvPlan& p) {
  return std::max(kLeastBlock, kBlockFloats / (kPlaces * (p.c + p.o)));
}

double flops_of(const ConvPlan& p, int64_t tiles) {
  return 2.0 * static_cast<double>(kPlaces * tiles) * static_cast<double>(p.c * p.o);
}

// The transformed filter, [places, panels, c, panel].
struct FilterLayout {
  int64_t panel, place;
  explicit FilterLayout(const ConvPlan& p)
      : panel(std::min(p.o, kPackedColumns)),
        place((p.o + panel - 1) / panel * panel * p.c + kLine) {}
};

float* transform_filter(const ConvPlan& p, const float* filter) {
  const FilterLayout layout(p);
  float* to = thread_scratch<float, kFilter>(kPlaces * layout.place);
  const double us = static_cast<double>(kPlaces * layout.place) / 1e3;
  parallel_for((p.c + 15) / 16, us, [&](int64_t chunk) {
    const int64_t begin = chunk * 16, end = std::min(p.c, begin + 16);
    for (int64_t o = 0; o < p.o; o += layout.panel) {
      const Grid to_grid = {4 * layout.place, layout.place, layout.panel,
                            o * p.c + begin * layout.panel};
      const Grid from = {3 * p.c * p.o, p.c * p.o, p.o, begin * p.o + o};
      transforms().filter(to, to_grid, filter, from, end - begin, std::min(layout.panel, p.o - o));
    }
  });
  return to;
}

// Products of `tiles` transformed windows with the filter, at every place. The middle place adds to
// all four results, and takes the bias.
void multiply_places(const ConvPlan& p, float* to, const float* from, const float* filter,
                     const float* bias, int64_t tiles) {
  const FilterLayout layout(p);
  const Places inputs{tiles, p.c}, outputs{tiles, p.o};
  TileProduct product;
  product.rows = tiles;
  product.depth = product.a_row = p.c;
  product.b_depth = layout.panel;
  product.out_row = p.o;
  for (int64_t place = 0; place < kPlaces; ++place) {
    for (int64_t o = 0; o < p.o; o += layout.panel) {
      product.columns = std::min(layout.panel, p.o - o);
      product.start = place == 5 && bias != nullptr ? bias + o : nullptr;
      tile_product(product, to + place * outputs.place() + o, from + place * inputs.place(),
                   filter + place * layout.place + o * p.c);
    }
  }
}

}  // namespace

bool has_winograd(const ConvPlan& p) {
  const bool plain =
      p.kh == 3 && p.kw == 3 && p.groups == 1 && p.sh == 1 && p.sw == 1 && p.dh == 1 && p.dw == 1;
  const Tiling t(p);
  return plain && p.n > 0 && std::min(p.c, p.o) >= kLeastChannels && p.c * p.o <= kMostFilter &&
         std::min({p.oh, p.ow, p.h, p.w}) >= kLeastSide &&
         t.rows * t.columns >= (p.c * p.o <= kNearFilter ? kLeastTiles : kMoreTiles);
}

void winograd_correlate(const ConvPlan& p, float* out, const float* x, const float* filter,
                        const float* bias) {
  const Tiling t(p);
  const int64_t count = t.count(), each = block_tiles(p);
  const float* transformed = transform_filter(p, filter);
  parallel_for((count + each - 1) / each, flops_of(p, count) / kFlopsPerUs, [&](int64_t block) {
    const int64_t first = block * each, end = std::min(count, first + each), tiles = end - first;
    float* inputs = thread_scratch<float, kInputs>(Places{tiles, p.c}.size());
    float* outputs = thread_scratch<float, kOutputs>(Places{tiles, p.o}.size());
    read_tiles(transforms().input, t, inputs_of(p), inputs, x, first, end);
    multiply_places(p, outputs, inputs, transformed, bias, tiles);
    write_tiles(t, results_of(p), out, outputs, first, end);
  });
}

namespace {

int64_t sum_place(const ConvPlan& p) { return p.c * p.o + kLine; }

// Adds the terms of tiles [first, end) to sums [places, c, o], or begins the sums.
void add_places(const ConvPlan& p, float* sums, const float* x, const float* ct, int64_t first,
                int64_t end, bool begin) {
  const Tiling t(p);
  const int64_t tiles = end - first;
  const Places x_places{tiles, p.c}, ct_places{tiles, p.o};
  float* inputs = thread_scratch<float, kInputs>(x_places.size());
  float* cotangents = thread_scratch<float, kOutputs>(ct_places.size());
  read_tiles(transforms().input, t, inputs_of(p), inputs, x, first, end);
  read_tiles(transforms().cotangent, t, results_of(p), cotangents, ct, first, end);
  TileProduct product;
  product.rows = p.c;
  product.columns = product.b_depth = product.out_row = product.start_row = p.o;
  product.depth = tiles;
  product.a_row = 1;
  product.a_depth = p.c;
  for (int64_t place = 0; place < kPlaces; ++place) {
    float* sum = sums + place * sum_place(p);
    product.start = begin ? nullptr : sum;
    tile_product(product, sum, inputs + place * x_places.place(),
                 cotangents + place * ct_places.place());
  }
}

}  // namespace

void winograd_filter_gradient(const ConvPlan& p, float* out, const float* x, const float* ct) {
  const int64_t count = Tiling(p).count(), each = block_tiles(p), size = kPlaces * sum_place(p);
  const int64_t blocks = (count + each - 1) / each;
  const int64_t most = most_partials(flops_of(p, count), size);
  const int64_t per_chunk = (blocks + most - 1) / most;
  const int64_t chunks = (blocks + per_chunk - 1) / per_chunk;
  float* partials = thread_scratch<float, kSums>(chunks * size);
  parallel_for(chunks, flops_of(p, count) / kFlopsPerUs, [&](int64_t chunk) {
    const int64_t begin = chunk * per_chunk, end = std::min(blocks, begin + per_chunk);
    for (int64_t block = begin; block < end; ++block) {
      add_places(p, partials + chunk * size, x, ct, block * each,
                 std::min(count, (block + 1) * each), block == begin);
    }
  });
  add_partials(partials, chunks, size);
  const Grid filter = {3 * p.c * p.o, p.c * p.o, p.o};
  transforms().filter_gradient(out, filter, partials, {4 * sum_place(p), sum_place(p), p.o}, p.c,
                               p.o);
}

}  // namespace etude::kernels::cpu
