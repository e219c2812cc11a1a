// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/conv/depthwise.h"

#include <algorithm>
#include <vector>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/conv/partial_sums.h"
#include "etude/kernels/cpu/product/tile_product.h"
#include "etude/kernels/cpu/thread_scratch.h"

#define ISA_NAMESPACE etude::kernels::cpu
#define ISA_PRELUDE "etude/kernels/cpu/simd/vec.inc"
#define ISA_SOURCE "etude/kernels/cpu/conv/depthwise.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu {
namespace {

enum Purpose { kPartials = 60 };

struct Loops {
  void (*pixels)(const DepthwisePixels&, float*, const float*, const float*, const float*);
  void (*products)(float*, const float*, int64_t, const float*, int64_t, int64_t, int64_t);
};
const Loops& loops() {
  static const Loops chosen{ETUDE_OF_BEST_ISA(cpu, depthwise_pixels),
                            ETUDE_OF_BEST_ISA(cpu, depthwise_products)};
  return chosen;
}

// Which results at first, first + step, .. along an axis read tap `tap`, and where: result number k
// of them reads place `at` + k * `by`, for begin <= k < end.
struct Reach {
  int64_t tap, at, by, begin, end;
};
// The `count` results that read the same taps.
struct Residue {
  int64_t first, step, count;
  std::vector<Reach> taps;
  int64_t begin = 0, end = 0;  // the results that read all taps
};

// An axis of a convolution or, if `is_gradient`, of its input gradient, with `size` input pixels
// and `results` output pixels.
struct Axis {
  int64_t size, results, window, stride, dilation, before;
  bool is_gradient;
};

Residue residue_of(const Axis& a, int64_t first, int64_t step) {
  Residue out{first, step, (a.results - first + step - 1) / step, {}};
  out.end = out.count;
  for (int64_t tap = 0; tap < a.window; ++tap) {
    Reach reach{tap, 0, 1, 0, 0};
    if (a.is_gradient) {
      const int64_t from = first + a.before - tap * a.dilation;
      if ((from % a.stride + a.stride) % a.stride != 0) continue;
      reach.at = from / a.stride;
    } else {
      reach.at = tap * a.dilation - a.before;
      reach.by = a.stride;
    }
    const auto first_at_or_above = [&](int64_t place) {
      const int64_t away = place - reach.at;
      return away <= 0 ? 0 : (away + reach.by - 1) / reach.by;
    };
    reach.begin = std::min(first_at_or_above(0), out.count);
    reach.end = std::clamp(first_at_or_above(a.size), reach.begin, out.count);
    out.begin = std::max(out.begin, reach.begin);
    out.end = std::min(out.end, reach.end);
    out.taps.push_back(reach);
  }
  out.begin = std::min(out.begin, out.count);
  out.end = std::max(out.end, out.begin);
  return out;
}

std::vector<Residue> residues_of(const Axis& a) {
  std::vector<Residue> out;
  const int64_t step = a.is_gradient ? a.stride : 1;
  for (int64_t first = 0; first < std::min(step, a.results); ++first) {
    out.push_back(residue_of(a, first, step));
  }
  return out;
}

// All that a row of results needs, and the offsets of the taps that its pixels see.
struct RowWork {
  int64_t channels, width, window;
  std::vector<Residue> down, across;
};

// Pixels [begin, end) of a residue, where row tap number i reads row rows[i] of the image.
void add_offsets(const RowWork& w, const Residue& across, const std::vector<Reach>& down,
                 int64_t row, int64_t pixel, std::vector<int64_t>& in,
                 std::vector<int64_t>& filter) {
  in.clear(), filter.clear();
  for (const Reach& i : down) {
    if (row < i.begin || row >= i.end) continue;
    for (const Reach& j : across.taps) {
      if (pixel < j.begin || pixel >= j.end) continue;
      in.push_back(((i.at + row * i.by) * w.width + j.at + pixel * j.by) * w.channels);
      filter.push_back((i.tap * w.window + j.tap) * w.channels);
    }
  }
}

void make_row(const RowWork& w, float* out, const float* image, const float* filter,
              const float* bias, const std::vector<Reach>& down, int64_t row) {
  std::vector<int64_t> in, taps;
  for (const Residue& across : w.across) {
    const auto run = [&](int64_t pixel, int64_t count) {
      add_offsets(w, across, down, row, pixel, in, taps);
      DepthwisePixels p;
      p.count = count, p.channels = w.channels;
      p.out_step = across.step * w.channels;
      p.in_step = (across.taps.empty() ? 0 : across.taps[0].by) * w.channels;
      p.taps = static_cast<int64_t>(in.size());
      p.in_offset = in.data(), p.filter_offset = taps.data();
      loops().pixels(p, out + (across.first + pixel * across.step) * w.channels, image, filter,
                     bias);
    };
    for (int64_t pixel = 0; pixel < across.begin; ++pixel) run(pixel, 1);
    if (across.end > across.begin) run(across.begin, across.end - across.begin);
    for (int64_t pixel = across.end; pixel < across.count; ++pixel) run(pixel, 1);
  }
}

Axis down_of(const ConvPlan& p, bool is_gradient) {
  return {is_gradient ? p.oh : p.h, is_gradient ? p.h : p.oh, p.kh, p.sh, p.dh, p.top, is_gradient};
}
Axis across_of(const ConvPlan& p, bool is_gradient) {
  return {
      is_gradient ? p.ow : p.w, is_gradient ? p.w : p.ow, p.kw, p.sw, p.dw, p.left, is_gradient};
}

double flops_of(const ConvPlan& p) {
  return 2.0 * static_cast<double>(p.n * p.oh * p.ow) * static_cast<double>(p.filter());
}

// Results from an image and the filter: the convolution, or its input gradient.
void make_results(const ConvPlan& p, bool is_gradient, float* out, const float* in,
                  const float* filter, const float* bias) {
  const Axis down = down_of(p, is_gradient), across = across_of(p, is_gradient);
  const RowWork w{p.c, across.size, p.kw, residues_of(down), residues_of(across)};
  const int64_t rows = p.n * down.results, row_size = across.results * p.c;
  const double each = flops_of(p) / static_cast<double>(rows);
  const int64_t per_chunk = std::max<int64_t>(1, static_cast<int64_t>(kChunkFlops / (each + 1)));
  parallel_for((rows + per_chunk - 1) / per_chunk, flops_of(p) / kFlopsPerUs, [&](int64_t chunk) {
    const int64_t end = std::min(rows, (chunk + 1) * per_chunk);
    for (int64_t r = chunk * per_chunk; r < end; ++r) {
      const int64_t image = r / down.results, row = r % down.results;
      const auto step = static_cast<int64_t>(w.down.size());
      make_row(w, out + r * row_size, in + image * down.size * across.size * p.c, filter, bias,
               w.down[static_cast<std::size_t>(row % step)].taps, row / step);
    }
  });
}

void make_filter_gradient(const ConvPlan& p, float* out, const float* x, const float* ct) {
  const Residue down = residue_of(down_of(p, false), 0, 1);
  const Residue across = residue_of(across_of(p, false), 0, 1);
  const int64_t rows = p.n * p.oh, size = p.filter();
  const int64_t most = most_partials(flops_of(p), size);
  const int64_t per_chunk = (rows + most - 1) / most, chunks = (rows + per_chunk - 1) / per_chunk;
  float* partials = thread_scratch<float, kPartials>(chunks * size);
  parallel_for(chunks, flops_of(p) / kFlopsPerUs, [&](int64_t chunk) {
    float* sum = partials + chunk * size;
    std::fill_n(sum, size, 0.0f);
    const int64_t end = std::min(rows, (chunk + 1) * per_chunk);
    for (int64_t r = chunk * per_chunk; r < end; ++r) {
      const int64_t image = r / p.oh, row = r % p.oh;
      const float* to = ct + r * p.ow * p.c;
      for (const Reach& i : down.taps) {
        if (row < i.begin || row >= i.end) continue;
        const float* from = x + image * p.image() + (i.at + row * i.by) * p.w * p.c;
        for (const Reach& j : across.taps) {
          if (j.begin == j.end) continue;
          loops().products(sum + (i.tap * p.kw + j.tap) * p.c, from + (j.at + j.begin * j.by) * p.c,
                           j.by * p.c, to + j.begin * p.c, p.c, j.end - j.begin, p.c);
        }
      }
    }
  });
  add_partials(partials, chunks, size);
  std::copy_n(partials, size, out);
}

}  // namespace

void depthwise(const ConvPlan& p, ConvPass pass, float* out, const float* a, const float* b,
               const float* bias) {
  if (pass == ConvPass::kFilterGradient) return make_filter_gradient(p, out, a, b);
  make_results(p, pass == ConvPass::kInputGradient, out, a, b, bias);
}

}  // namespace etude::kernels::cpu
