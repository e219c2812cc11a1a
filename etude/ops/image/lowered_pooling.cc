// SPDX-License-Identifier: Apache-2.0
// Pooling over one and three axes, and over regions of unequal size. All are poolings over two axes
// of arrays that are seen with other axes: first each plane, then along the depth, which is the
// same as all at once, since maxima are maxima of maxima, the first of them included, and the
// number of elements of a window inside the image is a product over its axes.
#include <algorithm>
#include <cmath>

#include "etude/base/check.h"
#include "etude/base/philox.h"
#include "etude/core/context/size_decision.h"
#include "etude/core/internal/call.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/image/windows.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;
enum class Kind2d { kMax, kMean };

// One pooling of x [n, h, w, c].
Tensor pool_of(Kind2d kind, const Tensor& x, const WindowAxis& down, const WindowAxis& across) {
  const Op& pool = kind == Kind2d::kMax ? op<"max_pool2d">() : op<"avg_pool2d">();
  return run(pool, {&x},
             {Ints{down.size, across.size}, Ints{down.stride, across.stride}, "valid",
              Ints{down.before, down.after, across.before, across.after}});
}

std::vector<WindowAxis> windows_of(const Attrs& attrs, const Shape& x, std::size_t axes) {
  const Ints size = sizes_attr(attrs, "window", Ints(axes, 1));
  std::vector<WindowAxis> window =
      resolve_windows(attrs, x, size, sizes_attr(attrs, "strides", size));
  for (const WindowAxis& axis : window) {
    ETUDE_REQUIRE(axis.input > 0 && axis.before < axis.size && axis.after < axis.size,
                  "operand 'x' has shape {} and explicit_padding {} is not smaller than the window "
                  "{}: a result would see no pixel",
                  x.to_string(), std::max(axis.before, axis.after), axis.size);
  }
  return window;
}

template <Kind2d kKind>
Values lower_pool1d(Operands in, const Attrs& attrs) {
  const Shape& x = in[0].shape();
  ETUDE_REQUIRE(x.rank() == 3, "operand 'x' has shape {}, but must be [n, width, channels]",
                x.to_string());
  const std::vector<WindowAxis> window = windows_of(attrs, x, 1);
  const Tensor y = pool_of(kKind, reshaped(in[0], {x[0], 1, x[1], x[2]}), {}, window[0]);
  return {reshaped(y, {x[0], window[0].output, x[2]})};
}

template <Kind2d kKind>
Values lower_pool3d(Operands in, const Attrs& attrs) {
  const Shape& x = in[0].shape();
  ETUDE_REQUIRE(x.rank() == 5,
                "operand 'x' has shape {}, but must be [n, depth, height, width, channels]",
                x.to_string());
  const std::vector<WindowAxis> window = windows_of(attrs, x, 3);
  const Tensor planes =
      pool_of(kKind, reshape(in[0], {x[0] * x[1], x[2], x[3], x[4]}), window[1], window[2]);
  // Left to reshape (-1), so that one graph serves all sizes; reshape cannot infer a size without
  // elements.
  const int64_t plane = x.count() > 0 ? -1 : window[1].output * window[2].output;
  const Tensor y = pool_of(kKind, reshape(planes, {x[0], x[1], plane, x[4]}), window[0], {});
  return {reshape(y, {x[0], window[0].output, window[1].output, window[2].output, x[4]})};
}

std::vector<Sample> samples1d() {
  return {
      {{"[2,6,3]"}, {{"window", Ints{2}}}},
      {{"[1,5,2]"}, {{"window", Ints{3}}, {"strides", Ints{2}}, {"padding", std::string("same")}}}};
}
std::vector<ErrorCase> errors1d() {
  return {{{"float32[4,3]"}, "must be [n, width, channels]", {{"window", Ints{2}}}},
          {{"float32[1,4,3]"}, "no result is left", {{"window", Ints{5}}}},
          {{"float32[1,4,3]"}, "window has 2 numbers", {{"window", Ints{2, 2}}}},
          {{"float32[1,4,3]"},
           "is not smaller than the window 2",
           {{"window", Ints{2}}, {"explicit_padding", Ints{2, 0}}}}};
}
std::vector<Sample> samples3d() {
  return {
      {{"[1,4,6,4,2]"}, {{"window", Ints{2}}}},
      {{"[1,4,4,4,1]"},
       {{"window", Ints{2, 3, 2}}, {"strides", Ints{1, 2, 2}}, {"padding", std::string("same")}}}};
}
std::vector<ErrorCase> errors3d() {
  return {
      {{"float32[1,4,4,1]"}, "must be [n, depth, height, width, channels]", {{"window", Ints{2}}}},
      {{"float32[1,1,4,4,1]"}, "no result is left", {{"window", Ints{2}}}},
      {{"float32[1,4,4,4,1]"}, "window has 2 numbers", {{"window", Ints{2, 2}}}}};
}

void define_one(Registry& r, std::string_view name, std::string_view doc, DTypeSet dtypes,
                Values (*lower)(Operands, const Attrs&), std::vector<Sample> samples,
                std::vector<ErrorCase> errors) {
  r.define({
      .name = name,
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = doc,
      .operands = {"x"},
      .attrs = window_attrs(),
      .dtypes = dtypes,
      .lower = lower,
      .samples = {.calls = std::move(samples)},
      .errors = std::move(errors),
  });
}

// The starts of regions of `input` pixels, then the end of the last region; after B. Graham,
// "Fractional Max-Pooling" (2014). Sizes are the whole part of the ratio, or larger by 1.
// Pseudo-random: region i begins at ceil(ratio (i + u)) - 1 with one number u, small enough to keep
// the last region inside; else the sizes are shuffled.
Ints region_starts(int64_t input, int64_t output, bool pseudo_random, PhiloxKey key) {
  const auto draw = [&](uint64_t i) { return static_cast<double>(random_bits(key, i)) * 0x1p-32; };
  const int64_t whole = input / output;
  Ints starts{0};
  if (pseudo_random) {
    const double ratio = static_cast<double>(input) / static_cast<double>(output);
    const double first = static_cast<double>(whole + 2) / ratio - 1;
    const double last =
        static_cast<double>(input + 1 - whole) / ratio - static_cast<double>(output - 1);
    const double u = draw(0) * std::min(first, last);
    for (int64_t i = 1; i < output; ++i) {
      const double begin = std::ceil(ratio * (static_cast<double>(i) + u)) - 1;
      starts.push_back(
          std::clamp(static_cast<int64_t>(begin), starts.back() + 1, input - (output - i)));
    }
  } else {
    Ints sizes(static_cast<std::size_t>(output), whole);
    for (int64_t i = 0; i < input % output; ++i) ++sizes[static_cast<std::size_t>(i)];
    for (std::size_t i = sizes.size(); i > 1; --i) {
      std::swap(sizes[i - 1], sizes[static_cast<std::size_t>(draw(i) * static_cast<double>(i))]);
    }
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i) starts.push_back(starts.back() + sizes[i]);
  }
  starts.push_back(input);
  return starts;
}

// The pixels of all regions, each region with as many as the largest, its last one again and
// again.
struct Regions {
  int64_t size = 0;
  Tensor pixels;
};
Regions regions_of(const Ints& starts, bool overlapping, int64_t input) {
  Regions out;
  const std::size_t count = starts.size() - 1;
  const auto end = [&](std::size_t i) {
    return std::min(input, starts[i + 1] + (overlapping ? 1 : 0));
  };
  for (std::size_t i = 0; i < count; ++i) out.size = std::max(out.size, end(i) - starts[i]);
  Ints pixels;
  for (std::size_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < out.size; ++k) pixels.push_back(std::min(starts[i] + k, end(i) - 1));
  }
  out.pixels = Tensor(pixels);
  return out;
}

Values lower_fractional(Operands in, const Attrs& attrs) {
  const Shape& shape = in[0].shape();
  const std::vector<double>& ratio = attrs.reals("ratio");
  ETUDE_REQUIRE(shape.rank() == 4,
                "operand 'x' has shape {}, but must be [n, height, width, channels]",
                shape.to_string());
  ETUDE_REQUIRE(ratio.size() == 4, "ratio has {} numbers, but must have 4: one for each axis of x",
                ratio.size());
  ETUDE_REQUIRE(ratio[0] == 1 && ratio[3] == 1,
                "ratio is {} for the batch and {} for the channels, but both must be 1", ratio[0],
                ratio[3]);
  Tensor y = in[0];
  WindowAxis window[2];
  for (int axis = 1; axis <= 2; ++axis) {
    const int64_t input = shape[axis];
    const double of_axis = ratio[static_cast<std::size_t>(axis)];
    ETUDE_REQUIRE(of_axis >= 1, "ratio is {} for axis {}, but must be at least 1", of_axis, axis);
    constexpr int64_t kMost = 1 << 15;  // a list of all pixels is made while types are inferred
    ETUDE_REQUIRE(input <= kMost,
                  "operand 'x' has shape {}: axis {} has more than {} elements. Split it",
                  shape.to_string(), axis, kMost);
    const auto output = static_cast<int64_t>(static_cast<double>(input) / of_axis);
    ETUDE_REQUIRE(output >= 1, "operand 'x' has shape {}: ratio {} leaves nothing of axis {}",
                  shape.to_string(), of_axis, axis);
    internal::note_decision(input);  // the regions follow from it
    const PhiloxKey key{static_cast<uint64_t>(attrs.integer("seed")), static_cast<uint64_t>(axis)};
    const Ints starts = region_starts(input, output, attrs.flag("pseudo_random"), key);
    const Regions regions = regions_of(starts, attrs.flag("overlapping"), input);
    y = take(y, regions.pixels, {.axis = axis});
    window[axis - 1].size = window[axis - 1].stride = regions.size;
  }
  return {pool_of(Kind2d::kMax, y, window[0], window[1])};
}

void define_fractional(Registry& r) {
  const std::vector<double> ratio{1, 1.5, 1.4, 1};
  r.define({
      .name = "fractional_max_pool2d",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "Largest element of each region of x [n, height, width, channels]. An axis has size / "
             "ratio regions, rounded down. Regions have at most two sizes. `seed` determines their "
             "order: shuffled, or pseudo-random by one number for each axis. Overlapping regions "
             "share their last row and column with the next region. ratio has one number for each "
             "axis of x, 1 for the first and the last axis.",
      .operands = {"x"},
      .attrs = {{"ratio", AttrKind::kReals},
                {"pseudo_random", false},
                {"overlapping", false},
                {"seed", 0}},
      .dtypes = kReal,
      .lower = lower_fractional,
      .samples = {.calls = {{{"[1,7,7,1]"}, {{"ratio", ratio}}},
                            {{"[1,5,5,1]"},
                             {{"ratio", ratio},
                              {"pseudo_random", true},
                              {"overlapping", true},
                              {"seed", int64_t{3}}}}}},
      .errors = {{{"float32[4,4,1]"}, "must be [n, height, width, channels]", {{"ratio", ratio}}},
                 {{"float32[1,4,4,1]"},
                  "ratio has 2 numbers",
                  {{"ratio", std::vector<double>{1, 1}}}},
                 {{"float32[1,4,4,1]"},
                  "ratio is 1 for the batch and 2 for the channels",
                  {{"ratio", std::vector<double>{1, 1, 1, 2}}}},
                 {{"float32[1,4,4,1]"},
                  "ratio is 0.5 for axis 2, but must be at least 1",
                  {{"ratio", std::vector<double>{1, 1, 0.5, 1}}}},
                 {{"float32[1,40000,1,1]"},
                  "axis 1 has more than 32768 elements",
                  {{"ratio", std::vector<double>{1, 1, 1, 1}}}},
                 {{"float32[1,4,4,1]"},
                  "ratio 5 leaves nothing of axis 1",
                  {{"ratio", std::vector<double>{1, 5, 1, 1}}}}},
  });
}

}  // namespace

void define_lowered_pooling(Registry& r) {
  define_one(r, "max_pool1d",
             "Largest element of each window of x [n, width, channels]; as max_pool2d.", kReal,
             lower_pool1d<Kind2d::kMax>, samples1d(), errors1d());
  define_one(r, "max_pool3d",
             "Largest element of each window of x [n, depth, height, width, channels]; as "
             "max_pool2d, with one or three sizes and strides.",
             kReal, lower_pool3d<Kind2d::kMax>, samples3d(), errors3d());
  define_one(r, "avg_pool1d",
             "Mean of each window of x [n, width, channels], over the elements inside; as "
             "avg_pool2d.",
             kFloating, lower_pool1d<Kind2d::kMean>, samples1d(), errors1d());
  define_one(r, "avg_pool3d",
             "Mean of each window of x [n, depth, height, width, channels], over the elements "
             "inside; as avg_pool2d, with one or three sizes and strides.",
             kFloating, lower_pool3d<Kind2d::kMean>, samples3d(), errors3d());
  define_fractional(r);
}

}  // namespace etude::ops
