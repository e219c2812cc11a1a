// SPDX-License-Identifier: Apache-2.0
// Sizes of images and the places of their pixels: resizing, blocks, crops, grey-scale morphology.
// Images are [.., height, width, channels].
#include <cmath>
#include <numbers>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/conv/resample.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/families.h"
#include "etude/ops/image/windows.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;
using kernels::cpu::Taps;

void require_image(const Shape& shape, std::string_view operand) {
  ETUDE_REQUIRE(shape.rank() >= 3,
                "operand '{}' has shape {}, but an image is [.., height, width, channels]", operand,
                shape.to_string());
}
int64_t height_of(const Shape& shape) { return shape[shape.rank() - 3]; }
int64_t width_of(const Shape& shape) { return shape[shape.rank() - 2]; }
int64_t channels_of(const Shape& shape) { return shape[shape.rank() - 1]; }

// --- weights of resizing ---

double sinc(double x) {
  if (x == 0) return 1;
  return std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

// The cubic of Mitchell and Netravali, 1988; for b = 0 and c = 1/2 the cubic of Keys, 1981.
double cubic(double x, double b, double c) {
  if (x < 1) {
    return ((12 - 9 * b - 6 * c) * x * x * x + (-18 + 12 * b + 6 * c) * x * x + 6 - 2 * b) / 6;
  }
  if (x >= 2) return 0;
  return ((-b - 6 * c) * x * x * x + (6 * b + 30 * c) * x * x + (-12 * b - 48 * c) * x + 8 * b +
          24 * c) /
         6;
}

struct Filter {
  double radius;
  double (*at)(double distance);
};

Filter filter_of(const std::string& method) {
  if (method == "bilinear") return {1, [](double x) { return std::max(0.0, 1 - x); }};
  if (method == "bicubic") return {2, [](double x) { return cubic(x, 0, 0.5); }};
  if (method == "mitchell") return {2, [](double x) { return cubic(x, 1.0 / 3, 1.0 / 3); }};
  if (method == "lanczos3") return {3, [](double x) { return x < 3 ? sinc(x) * sinc(x / 3) : 0; }};
  if (method == "lanczos5") return {5, [](double x) { return x < 5 ? sinc(x) * sinc(x / 5) : 0; }};
  if (method == "gaussian")
    return {1.5, [](double x) { return x < 1.5 ? std::exp(-2 * x * x) : 0; }};
  ETUDE_THROW(
      kInvalidArgument,
      "method is \"{}\", but must be one of nearest, bilinear, bicubic, lanczos3, lanczos5, "
      "gaussian, mitchell, area",
      method);
}

// The position of result i among `in` elements; element k is at k.
double place_of(const std::string& centers, int64_t i, int64_t in, int64_t out) {
  const double x = static_cast<double>(i), n = static_cast<double>(in),
               m = static_cast<double>(out);
  if (centers == "half_pixel") return (x + 0.5) * n / m - 0.5;
  if (centers == "legacy") return x * n / m;
  ETUDE_REQUIRE(centers == "aligned",
                "centers is \"{}\", but must be half_pixel, aligned or legacy", centers);
  return out > 1 ? x * (n - 1) / (m - 1) : 0;
}

// Adds a row of weights of elements from `first` on, made to sum to 1.
void add_row(Taps& taps, int64_t first, std::vector<double> weights) {
  double sum = 0;
  for (const double w : weights) sum += w;
  taps.start.push_back(first);
  for (const double w : weights) taps.weights.push_back(w / sum);
  taps.offset.push_back(static_cast<int64_t>(taps.weights.size()));
}

int64_t clamped(double x, int64_t size) {
  return std::clamp<int64_t>(static_cast<int64_t>(x), 0, size - 1);
}

int64_t nearest(const std::string& centers, int64_t i, int64_t in, int64_t out) {
  const double at = place_of(centers, i, in, out);
  if (centers == "half_pixel") return clamped(std::floor(at + 0.5), in);
  return clamped(centers == "aligned" ? std::round(at) : std::floor(at), in);
}

// Means over the pixels that each result covers.
void add_area(Taps& taps, int64_t i, int64_t in, int64_t out) {
  const double step = static_cast<double>(in) / static_cast<double>(out);
  const double begin = static_cast<double>(i) * step, end = begin + step;
  const int64_t first = clamped(std::floor(begin), in), last = clamped(std::ceil(end) - 1, in);
  std::vector<double> weights;
  for (int64_t k = first; k <= last; ++k) {
    const double low = std::max(begin, static_cast<double>(k));
    weights.push_back(std::min(end, static_cast<double>(k + 1)) - low);
  }
  add_row(taps, first, std::move(weights));
}

Taps resize_taps(const Attrs& attrs, int64_t in, int64_t out) {
  Taps taps{.rows = out, .columns = in, .offset = {0}};
  const std::string &method = attrs.text("method"), &centers = attrs.text("centers");
  for (int64_t i = 0; i < out; ++i) {
    if (method == "nearest") {
      add_row(taps, nearest(centers, i, in, out), {1});
      continue;
    }
    if (method == "area") {
      add_area(taps, i, in, out);
      continue;
    }
    const Filter filter = filter_of(method);
    const double ratio = static_cast<double>(in) / static_cast<double>(out);
    const double scale = attrs.flag("antialias") ? std::max(1.0, ratio) : 1;
    // Filters end at the image: the weights inside are scaled to sum to 1.
    const double at =
        std::clamp(place_of(centers, i, in, out), -0.5, static_cast<double>(in) - 0.5);
    const int64_t first = clamped(std::ceil(at - filter.radius * scale), in);
    const int64_t last = clamped(std::floor(at + filter.radius * scale), in);
    std::vector<double> weights;
    for (int64_t k = first; k <= last; ++k) {
      weights.push_back(filter.at(std::abs(static_cast<double>(k) - at) / scale));
    }
    add_row(taps, first, std::move(weights));
  }
  return taps;
}

// --- resizing of an axis, and its adjoint ---

Types resize_axis_type(const TypeCall& call) {
  Shape shape = call.shape(0);
  const int axis = axis_of(call.attrs, shape);
  const int64_t size = call.attrs.integer("size");
  ETUDE_REQUIRE(
      size >= 1 && shape[axis] >= 1,
      "axis {} of operand 'x' of shape {} cannot be resized to {}. Both sizes are 1 or more", axis,
      shape.to_string(), size);
  constexpr int64_t kMost = 1 << 16;  // weights of all rows are made when the kernel is prepared
  ETUDE_REQUIRE(size <= kMost && shape[axis] <= kMost,
                "axis {} of operand 'x' of shape {} cannot be resized to {}. Sizes are up to {}",
                axis, shape.to_string(), size, kMost);
  resize_taps(call.attrs, 1, 1);  // refuses texts that it does not know
  shape.set(axis, size);
  return {call.make(call.dtype(0), shape)};
}

void prepare_resize(const PrepareCall& call) {
  const int axis = axis_of(call.attrs, call.shape(0));
  const int64_t own = call.shape(0)[axis], size = call.attrs.integer("size");
  const bool adjoint = call.attrs.flag("adjoint");
  const Taps taps =
      adjoint ? transposed(resize_taps(call.attrs, size, own)) : resize_taps(call.attrs, own, size);
  kernels::cpu::prepare_resample(call, axis, taps);
}

Tensor resize_axis_back(Operands in, int, const Tensor& ct, const Attrs& attrs) {
  const int axis = axis_of(attrs, in[0].shape());
  return run(op<"resize_axis">(), {&ct},
             {axis, in[0].shape()[axis], attrs.value("method"), attrs.value("antialias"),
              attrs.value("centers"), !attrs.flag("adjoint")});
}

Values lower_resize(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  require_image(x.shape(), "x");
  const Ints& size = attrs.ints("size");
  ETUDE_REQUIRE(size.size() == 2, "size has {} numbers, but must be [height, width]", size.size());
  Tensor y = is_floating(x.dtype()) ? x : internal::cast(x, kFloat32);
  for (int64_t i = 0; i < 2; ++i) {
    y = run(op<"resize_axis">(), {&y},
            {int64_t{x.rank() - 3 + i}, size[static_cast<std::size_t>(i)], attrs.value("method"),
             attrs.value("antialias"), attrs.value("centers"), false});
  }
  return {y};
}

// --- filters along an axis ---

Taps filter_taps(const std::vector<double>& weights, int64_t in) {
  const auto taps = static_cast<int64_t>(weights.size());
  Taps out{.rows = in - taps + 1, .columns = in, .offset = {0}};
  for (int64_t i = 0; i < out.rows; ++i) {
    out.start.push_back(i);
    out.weights.insert(out.weights.end(), weights.begin(), weights.end());
    out.offset.push_back(static_cast<int64_t>(out.weights.size()));
  }
  return out;
}

Types filter_axis_type(const TypeCall& call) {
  Shape shape = call.shape(0);
  const int axis = axis_of(call.attrs, shape);
  const auto taps = static_cast<int64_t>(call.attrs.reals("weights").size());
  const int64_t size = call.attrs.flag("adjoint") ? shape[axis] + taps - 1 : shape[axis] - taps + 1;
  ETUDE_REQUIRE(taps >= 1 && size >= 1,
                "operand 'x' has shape {}: axis {} is shorter than a filter of {} weights",
                shape.to_string(), axis, taps);
  shape.set(axis, size);
  return {call.make(call.dtype(0), shape)};
}

void prepare_filter(const PrepareCall& call) {
  const int axis = axis_of(call.attrs, call.shape(0));
  const bool adjoint = call.attrs.flag("adjoint");
  const Shape& whole = adjoint ? call.out.results[0]->shape() : call.shape(0);
  const Taps taps = filter_taps(call.attrs.reals("weights"), whole[axis]);
  kernels::cpu::prepare_resample(call, axis, adjoint ? transposed(taps) : taps);
}

void define_axis_ops(Registry& r) {
  const auto attrs = [](int64_t axis, int64_t size, std::string method, bool adjoint = false) {
    return std::vector<std::pair<std::string_view, AttrValue>>{
        {"axis", axis}, {"size", size}, {"method", std::move(method)}, {"adjoint", adjoint}};
  };
  r.define({
      .name = "resize_axis",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc =
          "x with another size along an axis, each element a weighted sum of those around it; or "
          "the adjoint of that.",
      .operands = {"x"},
      .attrs = {{"axis", AttrKind::kInt},
                {"size", AttrKind::kInt},
                {"method", "bilinear"},
                {"antialias", false},
                {"centers", "half_pixel"},
                {"adjoint", false}},
      .dtypes = kFloating,
      .type = resize_axis_type,
      .kernels = {.cpu = prepare_resize},
      .transpose = resize_axis_back,
      .batch = batching::along_axis,
      .samples = {.calls = {{{"[5]"}, attrs(0, 8, "bilinear")},
                            {{"[2,7,3]"}, attrs(1, 3, "lanczos3")},
                            {{"[2,4]"}, attrs(1, 6, "area", true)},
                            {{"[6,2]"}, attrs(0, 4, "nearest")}},
                  .ulp = 16},
      .errors = {{{"float32[3]"}, "cannot be resized to 0", attrs(0, 0, "bilinear")},
                 {{"float32[3]"}, "method is \"cubic\"", attrs(0, 2, "cubic")}},
  });
  const std::vector<std::pair<std::string_view, AttrValue>> three = {
      {"axis", int64_t{0}}, {"weights", std::vector<double>{0.25, 0.5, 0.25}}};
  auto back = three;
  back.emplace_back("adjoint", true);
  r.define({
      .name = "filter_axis",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "Weighted sums of neighbours along an axis, of which as many are left as have all "
             "neighbours; or the adjoint of that.",
      .operands = {"x"},
      .attrs = {{"axis", AttrKind::kInt}, {"weights", AttrKind::kReals}, {"adjoint", false}},
      .dtypes = kFloating,
      .type = filter_axis_type,
      .kernels = {.cpu = prepare_filter},
      .transpose =
          [](Operands, int, const Tensor& ct, const Attrs& attrs) {
            return run(op<"filter_axis">(), {&ct},
                       {attrs.value("axis"), attrs.value("weights"), !attrs.flag("adjoint")});
          },
      .batch = batching::along_axis,
      .samples = {.calls = {{{"[5,2]"}, three}, {{"[4,2]"}, back}}, .ulp = 16},
      .errors = {{{"float32[2]"}, "axis 0 is shorter than a filter of 3 weights", three}},
  });
}

// --- places of pixels ---

constexpr int64_t kMostBlock = int64_t{1} << 14;  // its product with a size fits an int64_t

int64_t block_of(const Attrs& attrs) {
  const int64_t block = attrs.integer("block");
  ETUDE_REQUIRE(block >= 1, "block is {}, but must be 1 or more", block);
  ETUDE_REQUIRE(block <= kMostBlock, "block is {}, but must be at most {}", block, kMostBlock);
  return block;
}

Shape leading_axes(const Shape& shape) {
  return Shape(shape.sizes().first(static_cast<std::size_t>(shape.rank() - 3)));
}

// Reshapes [.., h, w, c] to [.., inner sizes], puts the last six axes or five in the given order,
// and joins them to three.
Tensor rearranged(const Tensor& x, const Ints& inner, const Ints& order, const Ints& sizes) {
  const Shape ahead = leading_axes(x.shape());
  Ints split = ahead.to_vector(), axes(split.size()), whole = split;
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  split.insert(split.end(), inner.begin(), inner.end());
  for (const int64_t axis : order) axes.push_back(ahead.rank() + axis);
  whole.insert(whole.end(), sizes.begin(), sizes.end());
  return reshape(permute_dims(reshape(x, split), axes), whole);
}

Values lower_depth_to_space(Operands in, const Attrs& attrs) {
  const Shape& x = in[0].shape();
  require_image(x, "x");
  const int64_t b = block_of(attrs), h = height_of(x), w = width_of(x), c = channels_of(x);
  ETUDE_REQUIRE(c % (b * b) == 0,
                "operand 'x' has shape {}: its {} channels do not divide by {} x {} pixels",
                x.to_string(), c, b, b);
  const int64_t d = c / (b * b);
  return {rearranged(in[0], {h, w, b, b, d}, {0, 2, 1, 3, 4}, {h * b, w * b, d})};
}

Values lower_space_to_depth(Operands in, const Attrs& attrs) {
  const Shape& x = in[0].shape();
  require_image(x, "x");
  const int64_t b = block_of(attrs), h = height_of(x), w = width_of(x), c = channels_of(x);
  ETUDE_REQUIRE(h % b == 0 && w % b == 0,
                "operand 'x' has shape {}: {} x {} pixels do not divide into blocks of {} x {}",
                x.to_string(), h, w, b, b);
  ETUDE_REQUIRE(c <= kMaxCount / (b * b),
                "operand 'x' has shape {}: {} channels of {} x {} pixels are too many",
                x.to_string(), c, b, b);
  return {rearranged(in[0], {h / b, b, w / b, b, c}, {0, 2, 1, 3, 4}, {h / b, w / b, b * b * c})};
}

Tensor cropped(const Tensor& x, int64_t top, int64_t left, int64_t height, int64_t width) {
  const Shape& shape = x.shape();
  const bool fits = top >= 0 && left >= 0 && height >= 0 && width >= 0 && top <= height_of(shape) &&
                    height <= height_of(shape) - top && left <= width_of(shape) &&
                    width <= width_of(shape) - left;
  ETUDE_REQUIRE(fits, "{} x {} pixels from row {} and column {} on are not inside x of shape {}",
                height, width, top, left, shape.to_string());
  Ints start(static_cast<std::size_t>(shape.rank()), 0), stop = shape.to_vector();
  const std::size_t at = start.size() - 3;
  start[at] = top, start[at + 1] = left;
  stop[at] = top + height, stop[at + 1] = left + width;
  return slice(x, start, stop);
}

Values lower_crop(Operands in, const Attrs& attrs) {
  require_image(in[0].shape(), "x");
  return {cropped(in[0], attrs.integer("top"), attrs.integer("left"), attrs.integer("height"),
                  attrs.integer("width"))};
}

Values lower_central_crop(Operands in, const Attrs& attrs) {
  const Shape& x = in[0].shape();
  require_image(x, "x");
  const double fraction = attrs.real("fraction");
  ETUDE_REQUIRE(fraction > 0 && fraction <= 1, "fraction is {}, but must be in (0, 1]", fraction);
  const auto kept = [&](int64_t size) {
    return size - 2 * static_cast<int64_t>((static_cast<double>(size) * (1 - fraction)) / 2);
  };
  const int64_t h = kept(height_of(x)), w = kept(width_of(x));
  return {cropped(in[0], (height_of(x) - h) / 2, (width_of(x) - w) / 2, h, w)};
}

template <int axis>
Values lower_flip(Operands in, const Attrs&) {
  require_image(in[0].shape(), "x");
  return {flip(in[0], {.axis = axis})};
}

// --- morphology ---

// The largest sum of x and the filter in each window.
Tensor dilated(const Tensor& x, const Tensor& filter, const Attrs& attrs) {
  const Shape &xs = x.shape(), &fs = filter.shape();
  ETUDE_REQUIRE(xs.rank() == 4,
                "operand 'x' has shape {}, but must be [n, height, width, channels]",
                xs.to_string());
  ETUDE_REQUIRE(fs.rank() == 3 && fs[0] >= 1 && fs[1] >= 1 && fs[2] == xs[3],
                "operand 'x' has shape {} and operand 'filter' has shape {}, but must be [height, "
                "width, {}]",
                xs.to_string(), fs.to_string(), xs[3]);
  constexpr int64_t kMost = 1 << 14;  // each element of the filter becomes several calls
  ETUDE_REQUIRE(
      fs[0] <= kMost / fs[1],
      "operand 'filter' has shape {}: {} x {} elements for each channel, but must have at "
      "most {}. Apply several smaller filters one after the other",
      fs.to_string(), fs[0], fs[1], kMost);
  const Window2d window = resolve_window(attrs, xs, {fs[0], fs[1]}, pair_attr(attrs, "strides"));
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  const Tensor padded =
      pad(x, {0, 0, window[0].before, window[0].after, window[1].before, window[1].after, 0, 0},
          {.value = kLowest});
  std::vector<Tensor> sums;
  for (int64_t i = 0; i < fs[0]; ++i) {
    for (int64_t j = 0; j < fs[1]; ++j) {
      const int64_t top = i * window[0].dilation, left = j * window[1].dilation;
      const Ints start = {0, top, left, 0},
                 stop = {xs[0], top + (window[0].output - 1) * window[0].stride + 1,
                         left + (window[1].output - 1) * window[1].stride + 1, xs[3]};
      const Tensor part =
          slice(padded, start, stop, {.step = Ints{1, window[0].stride, window[1].stride, 1}});
      sums.push_back(part + reshape(slice(filter, {i, j}, {i + 1, j + 1}), {fs[2]}));
    }
  }
  return max(internal::stack(sums), {.axis = 0});
}

Values lower_dilation(Operands in, const Attrs& attrs) { return {dilated(in[0], in[1], attrs)}; }
Values lower_erosion(Operands in, const Attrs& attrs) {
  ETUDE_REQUIRE(in[1].rank() == 3,
                "operand 'filter' has shape {}, but must be [height, width, channels]",
                in[1].shape().to_string());
  return {-dilated(-in[0], flip(in[1], {.axis = Ints{0, 1}}), attrs)};
}

OpDef morphology(std::string_view name, std::string_view doc, LowerRule lower) {
  const std::vector<std::pair<std::string_view, AttrValue>> wide = {{"strides", Ints{1, 2}},
                                                                    {"dilations", Ints{2, 1}}};
  const std::vector<std::pair<std::string_view, AttrValue>> same = {
      {"padding", std::string("same")}};
  return {
      .name = name,
      .space = kImageSpace,
      .kind = Kind::kComposition,
      .doc = doc,
      .operands = {"x", "filter"},
      .attrs = {{"strides", Ints{1}},
                {"padding", "valid"},
                {"explicit_padding", AttrKind::kInts, none},
                {"dilations", Ints{1}}},
      .dtypes = kFloating,
      .lower = lower,
      .samples = {.calls = {{{"[1,7,7,5]", "[3,3,5]"}, same}, {{"[1,5,6,1]", "[2,1,1]"}, wide}}},
      .errors = {{{"float32[4,4,2]", "float32[2,2,2]"}, "but must be [n, height, width, channels]"},
                 {{"float32[1,4,4,2]", "float32[2,2,3]"}, "but must be [height, width, 2]"},
                 {{"float32[1,2,2,1]", "float32[3,5462,1]"},
                  "3 x 5462 elements for each channel, but must have at most 16384"}},
  };
}

void define_places(Registry& r) {
  const std::vector<ErrorCase> image_error = {
      {{"float32[2,3]"},
       "operand 'x' has shape [2,3], but an image is [.., height, width, channels]"}};
  const std::vector<AttrDef> block = {{"block", AttrKind::kInt}};
  r.define({
      .name = "depth_to_space",
      .space = kImageSpace,
      .kind = Kind::kComposition,
      .doc = "x [.., h, w, block block c] -> [.., block h, block w, c]: the channels of a pixel "
             "become a block of pixels, row by row.",
      .operands = {"x"},
      .attrs = block,
      .lower = lower_depth_to_space,
      .samples = {.calls = {{{"[2,2,3,8]"}, {{"block", int64_t{2}}}},
                            {{"[1,1,9]"}, {{"block", int64_t{3}}}}}},
      .errors = {{{"float32[1,2,2,3]"},
                  "its 3 channels do not divide by 2 x 2 pixels",
                  {{"block", int64_t{2}}}},
                 {{"float32[2,3]"}, "an image is", {{"block", int64_t{2}}}},
                 {{"float32[1,2,2,3]"}, "block is 0", {{"block", int64_t{0}}}},
                 {{"float32[1,2,2,3]"},
                  "block is 4294967296, but must be at most 16384",
                  {{"block", int64_t{1} << 32}}}},
  });
  r.define({
      .name = "space_to_depth",
      .space = kImageSpace,
      .kind = Kind::kComposition,
      .doc = "The inverse of depth_to_space: x [.., block h, block w, c] -> [.., h, w, block block "
             "c].",
      .operands = {"x"},
      .attrs = block,
      .lower = lower_space_to_depth,
      .samples = {.calls = {{{"[2,4,6,2]"}, {{"block", int64_t{2}}}},
                            {{"[6,6,1]"}, {{"block", int64_t{3}}}}}},
      .errors = {{{"float32[1,3,4,1]"},
                  "3 x 4 pixels do not divide into blocks of 2 x 2",
                  {{"block", int64_t{2}}}}},
  });
  r.define({
      .name = "crop",
      .space = kImageSpace,
      .kind = Kind::kComposition,
      .doc =
          "The height x width pixels of x [.., h, w, c] that begin at row `top` and column `left`.",
      .operands = {"x"},
      .attrs = {{"top", AttrKind::kInt},
                {"left", AttrKind::kInt},
                {"height", AttrKind::kInt},
                {"width", AttrKind::kInt}},
      .lower = lower_crop,
      .samples = {.calls = {{{"[2,4,5,3]"},
                             {{"top", int64_t{1}},
                              {"left", int64_t{2}},
                              {"height", int64_t{3}},
                              {"width", int64_t{2}}}}}},
      .errors = {{{"float32[1,2,2,1]"},
                  "2 x 2 pixels from row 1 and column 0 on are not inside x of shape [1,2,2,1]",
                  {{"top", int64_t{1}},
                   {"left", int64_t{0}},
                   {"height", int64_t{2}},
                   {"width", int64_t{2}}}}},
  });
  r.define({
      .name = "central_crop",
      .space = kImageSpace,
      .kind = Kind::kComposition,
      .doc = "The middle of x [.., h, w, c]: `fraction` of its height and width, with equal "
             "numbers of pixels cut on both sides.",
      .operands = {"x"},
      .attrs = {{"fraction", AttrKind::kReal}},
      .lower = lower_central_crop,
      .samples = {.calls = {{{"[2,4,6,3]"}, {{"fraction", 0.5}}},
                            {{"[5,5,1]"}, {{"fraction", 1.0}}}}},
      .errors = {{{"float32[1,2,2,1]"},
                  "fraction is 0, but must be in (0, 1]",
                  {{"fraction", 0.0}}}},
  });
  const auto define_flip = [&](std::string_view name, std::string_view doc, LowerRule lower) {
    r.define({.name = name,
              .space = kImageSpace,
              .kind = Kind::kComposition,
              .doc = doc,
              .operands = {"x"},
              .lower = lower,
              .samples = {.calls = {{{"[2,3,4,2]"}}, {{"[2,3,1]"}}}},
              .errors = image_error});
  };
  define_flip("flip_left_right", "x [.., h, w, c] mirrored from left to right.", lower_flip<-2>);
  define_flip("flip_up_down", "x [.., h, w, c] mirrored from top to bottom.", lower_flip<-3>);
}

void define_resize(Registry& r) {
  const auto sized = [](int64_t h, int64_t w, std::string method, bool antialias = false,
                        std::string centers = "half_pixel") {
    return std::vector<std::pair<std::string_view, AttrValue>>{{"size", Ints{h, w}},
                                                               {"method", std::move(method)},
                                                               {"antialias", antialias},
                                                               {"centers", std::move(centers)}};
  };
  r.define({
      .name = "resize",
      .space = kImageSpace,
      .kind = Kind::kComposition,
      .doc = "x [.., h, w, c] resampled to size [height, width]. Methods: nearest, bilinear, "
             "bicubic (Keys, a = -1/2), lanczos3, lanczos5, gaussian (deviation 1/2), mitchell, "
             "and area, the mean of the area that a pixel covers. `antialias` widens the filter if "
             "the result is smaller. centers: pixel i is at i + 1/2 (half_pixel), at i (legacy), "
             "or corner pixels coincide (aligned). Weights outside of the image are left out, and "
             "the other weights are scaled to the sum 1. Integers become float32.",
      .operands = {"x"},
      .attrs = {{"size", AttrKind::kInts},
                {"method", "bilinear"},
                {"antialias", false},
                {"centers", "half_pixel"}},
      .dtypes = kReal,
      .lower = lower_resize,
      .samples = {.calls = {{{"[1,3,4,2]"}, sized(5, 3, "bilinear")},
                            {{"[1,6,5,1]"}, sized(3, 2, "bicubic", true)},
                            {{"[4,4,2]"}, sized(2, 7, "nearest", false, "legacy")},
                            {{"[4,3,1]"}, sized(3, 5, "mitchell", false, "aligned")}},
                  .ulp = 16},
      .errors = {{{"float32[2,3]"},
                  "an image is [.., height, width, channels]",
                  sized(2, 2, "area")},
                 {{"float32[1,2,3,1]"}, "size has 1 numbers", {{"size", Ints{2}}}},
                 {{"float32[1,2,3,1]"}, "Sizes are up to 65536", sized(70000, 2, "area")},
                 {{"float32[1,2,3,1]"},
                  "method is \"cubic\", but must be one of nearest",
                  sized(2, 2, "cubic")},
                 {{"float32[1,2,3,1]"},
                  "centers is \"middle\"",
                  sized(2, 2, "bilinear", false, "middle")}},
  });
}

}  // namespace

void define_image(Registry& r) {
  define_axis_ops(r);
  define_resize(r);
  define_places(r);
  r.define(morphology(
      "dilation2d",
      "The largest sum of x [n, h, w, c] and filter [height, width, c] in each window. Pixels "
      "outside of the image are ignored. strides, padding and dilations are as in nn.conv2d.",
      lower_dilation));
  r.define(morphology("erosion2d",
                      "The least difference of x and the mirrored filter in each window: "
                      "-dilation2d(-x, flip(filter)).",
                      lower_erosion));
}

}  // namespace etude::ops
