// SPDX-License-Identifier: Apache-2.0
// Colours of images [.., height, width, channels], and the similarity of two images.
#include <cmath>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

void require_image(const Shape& shape) {
  ETUDE_REQUIRE(shape.rank() >= 3,
                "operand 'x' has shape {}, but an image is [.., height, width, channels]",
                shape.to_string());
}

void require_rgb(const Shape& shape) {
  ETUDE_REQUIRE(
      shape.rank() >= 1 && shape[shape.rank() - 1] == 3,
      "operand 'x' has shape {}, but its last axis must have the 3 channels red, green and "
      "blue",
      shape.to_string());
}

Values lower_brightness(Operands in, const Attrs& attrs) { return {in[0] + attrs.real("delta")}; }

Values lower_contrast(Operands in, const Attrs& attrs) {
  require_image(in[0].shape());
  const Tensor middle = mean(in[0], {.axis = {-3, -2}, .keepdims = true});
  return {(in[0] - middle) * attrs.real("factor") + middle};
}

Values lower_grayscale(Operands in, const Attrs&) {
  require_rgb(in[0].shape());
  const std::vector<Tensor> c = unstack(in[0], {.axis = -1});
  return {expand_dims(0.2989 * c[0] + 0.587 * c[1] + 0.114 * c[2], -1)};
}

// The largest channel, and how far the others may be below it.
struct Value {
  explicit Value(const Tensor& x)
      : value(max(x, {.axis = -1, .keepdims = true})),
        chroma(value - min(x, {.axis = -1, .keepdims = true})) {}
  Tensor value, chroma;
};

// x / y, and 0 where y is 0.
Tensor quotient(const Tensor& x, const Tensor& y) {
  const Tensor is_zero = y == 0;
  return where(is_zero, 0.0, x / where(is_zero, 1.0, y));
}

// Distances from the largest channel times a factor, but at most to where the least one is 0.
Values lower_saturation(Operands in, const Attrs& attrs) {
  const double factor = attrs.real("factor");
  require_rgb(in[0].shape());
  ETUDE_REQUIRE(factor >= 0, "factor is {}, but must be 0 or more", factor);
  const Value v(in[0]);
  const Tensor most = where(v.chroma * factor > v.value, quotient(v.value, v.chroma), factor);
  return {v.value - (v.value - in[0]) * most};
}

// The hue in turns, [0, 1): where the colour lies on the way red, green, blue.
Tensor hue_of(const Tensor& x, const Value& v) {
  const std::vector<Tensor> c = unstack(x, {.axis = -1});
  const Tensor chroma = squeeze(v.chroma, -1), value = squeeze(v.value, -1);
  const Tensor red = quotient(c[1] - c[2], chroma), green = quotient(c[2] - c[0], chroma) + 2,
               blue = quotient(c[0] - c[1], chroma) + 4;
  const Tensor sixths = where(value == c[0], red, where(value == c[1], green, blue));
  const Tensor turns = where(chroma == 0, 0.0, sixths) / 6;
  return turns - floor(turns);
}

Tensor with_hue(const Tensor& hue, const Tensor& value, const Tensor& chroma) {
  std::vector<Tensor> channels;
  for (const double first : {5.0, 3.0, 1.0}) {
    const Tensor at = first + 6 * hue;
    const Tensor k = at - 6 * floor(at / 6);
    channels.push_back(value - chroma * clip(minimum(k, 4 - k), {.min = 0, .max = 1}));
  }
  return internal::stack(channels, -1);
}

Values lower_hue(Operands in, const Attrs& attrs) {
  require_rgb(in[0].shape());
  const Value v(in[0]);
  return {with_hue(hue_of(in[0], v) + attrs.real("delta"), squeeze(v.value, -1),
                   squeeze(v.chroma, -1))};
}

Values lower_rgb_to_hsv(Operands in, const Attrs&) {
  require_rgb(in[0].shape());
  const Value v(in[0]);
  const std::vector<Tensor> parts = {hue_of(in[0], v), squeeze(quotient(v.chroma, v.value), -1),
                                     squeeze(v.value, -1)};
  return {internal::stack(parts, -1)};
}

Values lower_hsv_to_rgb(Operands in, const Attrs&) {
  require_rgb(in[0].shape());
  const std::vector<Tensor> c = unstack(in[0], {.axis = -1});
  return {with_hue(c[0], c[2], c[1] * c[2])};
}

// --- similarity of images ---

void require_alike(Operands in, const Attrs& attrs) {
  ETUDE_REQUIRE(in[0].rank() >= 3 && in[0].shape() == in[1].shape(),
                "operand 'x' has shape {} and operand 'y' has shape {}, but both must be the same "
                "[.., height, width, channels]",
                in[0].shape().to_string(), in[1].shape().to_string());
  const double most = attrs.real("max_value");
  ETUDE_REQUIRE(most > 0, "max_value is {}, but must be greater than 0", most);
}

Values lower_psnr(Operands in, const Attrs& attrs) {
  require_alike(in, attrs);
  const Tensor error = mean(squared_difference(in[0], in[1]), {.axis = {-3, -2, -1}});
  return {20 * std::log10(attrs.real("max_value")) - 10 * log10(error)};
}

// Means under a window of a normal distribution, where all of it is inside the image.
Tensor blurred(Tensor x, const Attrs& attrs) {
  const int64_t size = attrs.integer("filter_size");
  const double deviation = attrs.real("filter_sigma");
  ETUDE_REQUIRE(size >= 1 && deviation > 0,
                "filter_size is {} and filter_sigma is {}, but must be 1 or more and above 0", size,
                deviation);
  const int64_t most = std::min(x.shape()[x.rank() - 3], x.shape()[x.rank() - 2]);
  ETUDE_REQUIRE(size <= most,
                "filter_size is {}, but the images have shape {}: the window does not fit in them",
                size, x.shape().to_string());
  std::vector<double> weights;
  double total = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double at = (static_cast<double>(i) - static_cast<double>(size - 1) / 2) / deviation;
    total += weights.emplace_back(std::exp(-at * at / 2));
  }
  for (double& w : weights) w /= total;
  for (const int64_t axis : {x.rank() - 3, x.rank() - 2}) {
    x = run(op<"filter_axis">(), {&x}, {axis, weights, false});
  }
  return x;
}

// Wang, Bovik, Sheikh and Simoncelli, "Image quality assessment", 2004.
Values lower_ssim(Operands in, const Attrs& attrs) {
  require_alike(in, attrs);
  const double most = attrs.real("max_value");
  const double c1 = std::pow(attrs.real("k1") * most, 2), c2 = std::pow(attrs.real("k2") * most, 2);
  const Tensor x = blurred(in[0], attrs), y = blurred(in[1], attrs);
  const Tensor products = x * y, squares = x * x + y * y;
  const Tensor covariance = blurred(in[0] * in[1], attrs) - products;
  const Tensor variances = blurred(in[0] * in[0] + in[1] * in[1], attrs) - squares;
  const Tensor map =
      ((2 * products + c1) * (2 * covariance + c2)) / ((squares + c1) * (variances + c2));
  return {mean(map, {.axis = {-3, -2, -1}})};
}

OpDef color(std::string_view name, std::string_view doc, std::vector<AttrDef> attrs,
            LowerRule lower, std::vector<std::pair<std::string_view, AttrValue>> given) {
  OpDef def{.name = name, .space = kImageSpace, .kind = Kind::kComposition, .doc = doc};
  def.operands = {"x"};
  def.attrs = std::move(attrs);
  def.dtypes = kFloating;
  def.lower = lower;
  def.samples = {
      .calls = {{{"[1,2,3,3]"}, given}, {{"[4,2,3]"}, given}}, .ranges = {{0.1, 1}}, .ulp = 32};
  return def;
}

void define_colors(Registry& r) {
  const ErrorCase rgb = {{"float32[2,2,4]"}, "its last axis must have the 3 channels red, green"};
  r.define(color("adjust_brightness", "x + delta.", {{"delta", AttrKind::kReal}}, lower_brightness,
                 {{"delta", 0.25}}));
  OpDef contrast =
      color("adjust_contrast",
            "x with its distance from the mean of the channel in the image multiplied by a factor.",
            {{"factor", AttrKind::kReal}}, lower_contrast, {{"factor", 1.5}});
  contrast.errors = {
      {{"float32[2,3]"}, "an image is [.., height, width, channels]", {{"factor", 1.0}}}};
  r.define(contrast);
  OpDef saturation = color("adjust_saturation",
                           "x with its saturation multiplied by a factor. The channels are red, "
                           "green and blue, at least 0. A saturation above 1 becomes 1.",
                           {{"factor", AttrKind::kReal}}, lower_saturation, {{"factor", 0.5}});
  saturation.errors = {rgb, {{"float32[2,2,3]"}, "factor is -1", {{"factor", -1.0}}}};
  saturation.errors[0].attrs = {{"factor", 1.0}};
  r.define(saturation);
  OpDef hue = color("adjust_hue",
                    "x with its hue moved by delta turns. The channels are red, green and blue.",
                    {{"delta", AttrKind::kReal}}, lower_hue, {{"delta", 0.15}});
  hue.errors = {rgb};
  hue.errors[0].attrs = {{"delta", 0.1}};
  r.define(hue);
  OpDef gray =
      color("rgb_to_grayscale",
            "0.2989 red + 0.587 green + 0.114 blue, as one channel (the luma of ITU-R BT.601).", {},
            lower_grayscale, {});
  gray.errors = {rgb};
  r.define(gray);
  OpDef to_hsv =
      color("rgb_to_hsv", "Converts red, green and blue to hue in turns, saturation and value.", {},
            lower_rgb_to_hsv, {});
  to_hsv.errors = {rgb};
  r.define(to_hsv);
  OpDef to_rgb = color("hsv_to_rgb", "The inverse of rgb_to_hsv.", {}, lower_hsv_to_rgb, {});
  to_rgb.errors = {rgb};
  to_rgb.samples.avoid = {1.0 / 6, 2.0 / 6, 0.5, 4.0 / 6, 5.0 / 6, 1};
  r.define(to_rgb);
}

}  // namespace

void define_image_color(Registry& r) {
  define_colors(r);
  const std::vector<ErrorCase> errors = {
      {{"float32[2,3,3]", "float32[2,3,1]"},
       "operand 'x' has shape [2,3,3] and operand 'y' has shape [2,3,1]",
       {{"max_value", 1.0}}},
      {{"float32[2,3,3]", "float32[2,3,3]"}, "max_value is 0", {{"max_value", 0.0}}}};
  r.define({
      .name = "psnr",
      .space = kImageSpace,
      .kind = Kind::kComposition,
      .doc = "The peak signal-to-noise ratio in decibels of each pair of images [.., h, w, c]: 10 "
             "log10(max_value^2 / mean squared difference).",
      .operands = {"x", "y"},
      .attrs = {{"max_value", 1.0}},
      .dtypes = kFloating,
      .lower = lower_psnr,
      .samples = {.calls = {{{"[2,2,3,1]", "[2,2,3,1]"}},
                            {{"[2,2,3]", "[2,2,3]"}, {{"max_value", 255.0}}}},
                  .ulp = 32},
      .errors = errors,
  });
  r.define({
      .name = "ssim",
      .space = kImageSpace,
      .kind = Kind::kComposition,
      .doc = "The structural similarity of each pair of images [.., h, w, c]. It is the mean over "
             "channels and over all positions of a window inside the image. The window has "
             "filter_size pixels per axis and the weights of a normal distribution with deviation "
             "filter_sigma.",
      .operands = {"x", "y"},
      .attrs = {{"max_value", 1.0},
                {"filter_size", 11},
                {"filter_sigma", 1.5},
                {"k1", 0.01},
                {"k2", 0.03}},
      .dtypes = kFloating,
      .lower = lower_ssim,
      .samples = {.calls = {{{"[1,14,13,1]", "[1,14,13,1]"}},
                            {{"[4,5,2]", "[4,5,2]"}, {{"filter_size", int64_t{3}}}}},
                  .ranges = {{0, 1}, {0, 1}},
                  .ulp = 256},
      .errors = errors,
  });
}

}  // namespace etude::ops
