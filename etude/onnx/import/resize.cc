// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/import/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "etude/core/context/context.h"
#include "etude/onnx/import/windows.h"
#include "etude/ops.h"

namespace etude::onnx::importing {
namespace resizing {
namespace {

// The options of a node for all axes.
struct Options {
  std::string mode, coordinates, nearest;
  double cubic = -0.75, extrapolation = 0;
  bool antialias = false, excludes_outside = false;
};

// One axis: its size, the size of the result, and how they correspond.
struct Axis {
  int64_t axis, size, result;
  double scale;
  double begin = 0, end = 1;  // of the region, for tf_crop_and_resize
};

// Neighbours of each element of the result, with their weights.
struct Weights {
  int64_t each = 0;
  Sizes at;                        // [result, each]
  std::vector<double> weight;      // the same
  std::vector<double> is_outside;  // by element of the result; empty if no element may be outside
};

// The position of element i of the result.
double position(const Options& o, const Axis& a, double i) {
  const auto size = static_cast<double>(a.size), result = static_cast<double>(a.result);
  const double exact = a.scale * size;
  if (o.coordinates == "align_corners") return exact == 1 ? 0 : i * (size - 1) / (exact - 1);
  if (o.coordinates == "asymmetric") return i / a.scale;
  if (o.coordinates == "tf_crop_and_resize") {
    if (exact == 1) return (a.end - a.begin) * (size - 1) / 2 + a.begin * (size - 1);
    return i * (a.end - a.begin) * (size - 1) / (exact - 1) + a.begin * (size - 1);
  }
  if (o.coordinates == "pytorch_half_pixel" && exact == 1) return -0.5;
  const double half = (i + 0.5) / a.scale - 0.5;
  if (o.coordinates != "half_pixel_symmetric") return half;
  return size / 2 * (1 - result / exact) + half;
}

int64_t nearest(const Options& o, double at) {
  if (at == std::floor(at)) return static_cast<int64_t>(at);
  double out = std::floor(at);
  if (o.nearest == "round_prefer_floor") out = std::ceil(at - 0.5);
  if (o.nearest == "round_prefer_ceil") out = std::floor(at + 0.5);
  if (o.nearest == "ceil") out = std::ceil(at);
  return static_cast<int64_t>(out);
}

double kernel(const Options& o, double distance) {
  const double d = std::fabs(distance), a = o.cubic;
  if (o.mode == "linear") return std::max(1 - d, 0.0);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// The neighbours within the reach of the kernel, which is wider for smaller results if antialias.
void add_neighbours(const Options& o, const Axis& a, double at, double narrow, Weights& to) {
  const double reach = (o.mode == "linear" ? 1 : 2) / narrow;
  const auto first = static_cast<int64_t>(std::floor(at - reach)) + 1;
  double total = 0;
  const std::size_t begin = to.weight.size();
  for (int64_t k = 0; k < to.each; ++k) {
    const int64_t i = first + k;
    const bool is_outside = i < 0 || i >= a.size;
    double weight = kernel(o, (static_cast<double>(i) - at) * narrow);
    if (is_outside && o.excludes_outside) weight = 0;
    total += weight;
    to.weight.push_back(weight);
    to.at.push_back(std::clamp(i, int64_t{0}, a.size - 1));
  }
  if (narrow == 1 && !o.excludes_outside) return;
  for (std::size_t k = begin; k < to.weight.size(); ++k) to.weight[k] /= total;
}

Weights weights_of(const NodeCall& n, const Options& o, const Axis& a) {
  Weights out;
  const double narrow = o.antialias && a.scale < 1 ? a.scale : 1;
  out.each = 1;
  if (o.mode != "nearest") {
    n.require(narrow > 1e-9, "the scale of axis {} is {}", a.axis, a.scale);
    out.each = static_cast<int64_t>(std::ceil(2 * (o.mode == "linear" ? 1 : 2) / narrow));
  }
  int64_t bytes = 0;
  const bool is_large = __builtin_mul_overflow(a.result, out.each * 24, &bytes);
  n.importer().need_bytes(n, is_large ? std::numeric_limits<int64_t>::max() : bytes);
  for (int64_t i = 0; i < a.result; ++i) {
    const double at = position(o, a, static_cast<double>(i));
    n.require(at > -1e15 && at < 1e15, "a position along axis {} is {}", a.axis, at);
    if (o.coordinates == "tf_crop_and_resize") {
      const bool is_outside = at < 0 || at > static_cast<double>(a.size - 1);
      out.is_outside.push_back(is_outside ? 1 : 0);
    }
    if (o.mode == "nearest") {
      out.at.push_back(std::clamp(nearest(o, at), int64_t{0}, a.size - 1));
    } else {
      add_neighbours(o, a, at, narrow, out);
    }
  }
  return out;
}

Tensor along(const NodeCall& n, const Options& o, const Axis& a, const Tensor& x) {
  const Weights weights = weights_of(n, o, a);
  const auto rank = static_cast<std::size_t>(x.type()->rank());
  Tensor at, weight, outside;
  {
    const BottomScope at_once(eager_context());
    at = Tensor(weights.at, Shape{a.result, weights.each});
    if (o.mode == "nearest") at = reshape(at, {a.result});
    if (!weights.weight.empty()) {
      Sizes shape(rank + 1, 1);
      shape[static_cast<std::size_t>(a.axis)] = a.result;
      shape[static_cast<std::size_t>(a.axis) + 1] = weights.each;
      weight = astype(Tensor(weights.weight, Shape(shape)), x.dtype());
    }
    if (!weights.is_outside.empty()) {
      Sizes shape(rank, 1);
      shape[static_cast<std::size_t>(a.axis)] = a.result;
      outside = astype(Tensor(weights.is_outside, Shape(shape)), kBool);
    }
  }
  Tensor out = take(x, at, {.axis = a.axis});
  if (weight.has_value()) out = sum(out * weight, {.axis = {a.axis + 1}});
  if (!outside.has_value()) return out;
  return where(outside, full(Sizes{}, astype(Tensor(o.extrapolation), x.dtype())), out);
}

Tensor interpolated(const NodeCall& n, const Options& o, const std::vector<Axis>& axes) {
  const DType dtype = n.dtype(0);
  const bool is_whole = is_integer(dtype) && o.mode != "nearest";
  Tensor x = is_whole ? astype(n.x(0), kFloat32) : n.x(0);
  for (const Axis& a : axes) {
    n.require(a.size > 0 && a.result >= 0 && a.result < kMaxCount && a.scale > 0,
              "axis {} has {} elements, and the result {}", a.axis, a.size, a.result);
    const bool is_same =
        a.scale == 1 && a.size == a.result && o.coordinates != "tf_crop_and_resize";
    if (!is_same) x = along(n, o, a, x);
  }
  if (!is_whole) return x;
  const bool is_unsigned = kUnsignedIntegers.contains(dtype);
  const double bits = static_cast<double>(itemsize(dtype)) * 8;
  const double high = std::exp2(is_unsigned ? bits : bits - 1) - 1;
  return astype(clip(round(x), {.min = is_unsigned ? 0.0 : -high - 1, .max = high}), dtype);
}

Options options_of(const NodeCall& n) {
  Options out;
  out.mode = n.text("mode", "nearest");
  out.coordinates =
      n.text("coordinate_transformation_mode", n.opset() < 11 ? "asymmetric" : "half_pixel");
  out.nearest = n.text("nearest_mode", n.opset() < 11 ? "floor" : "round_prefer_floor");
  n.require(out.mode == "nearest" || out.mode == "linear" || out.mode == "cubic",
            "the mode is '{}', not nearest, linear or cubic", out.mode);
  static constexpr std::string_view kCoordinates[] = {"half_pixel",         "half_pixel_symmetric",
                                                      "pytorch_half_pixel", "align_corners",
                                                      "asymmetric",         "tf_crop_and_resize"};
  n.require(std::ranges::find(kCoordinates, out.coordinates) != std::end(kCoordinates),
            "coordinate_transformation_mode is '{}'", out.coordinates);
  static constexpr std::string_view kNearest[] = {"round_prefer_floor", "round_prefer_ceil",
                                                  "floor", "ceil"};
  n.require(std::ranges::find(kNearest, out.nearest) != std::end(kNearest), "nearest_mode is '{}'",
            out.nearest);
  out.cubic = n.real("cubic_coeff_a", -0.75);
  out.extrapolation = n.real("extrapolation_value", 0);
  out.antialias = n.integer("antialias", 0) != 0;
  out.excludes_outside = n.integer("exclude_outside", 0) != 0;
  return out;
}

// Sizes that keep the aspect ratio fit into the given sizes, or cover them.
void keep_aspect_ratio(const NodeCall& n, std::vector<Axis>& axes) {
  const std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch") return;
  n.require(policy == "not_larger" || policy == "not_smaller",
            "keep_aspect_ratio_policy is '{}', not stretch, not_larger or not_smaller", policy);
  double scale = policy == "not_larger" ? std::numeric_limits<double>::infinity() : 0;
  for (const Axis& a : axes) {
    scale = policy == "not_larger" ? std::min(scale, a.scale) : std::max(scale, a.scale);
  }
  for (Axis& a : axes) {
    a.scale = scale;
    const double result = std::floor(scale * static_cast<double>(a.size) + 0.5);
    n.require(result >= 0 && result < 1e15, "the scale of axis {} is {}", a.axis, scale);
    a.result = static_cast<int64_t>(result);
  }
}

}  // namespace
}  // namespace resizing

std::vector<Tensor> resized(const NodeCall& n) {
  using namespace resizing;
  const Options options = options_of(n);
  Sizes listed(static_cast<std::size_t>(n.rank(0)));
  std::iota(listed.begin(), listed.end(), 0);
  listed = n.axes(n.ints("axes", listed), n.rank(0));
  const std::size_t scales_at = n.opset() < 11 ? 1 : 2;
  const bool has_sizes = n.has(3) && n.shape(3).count() > 0;
  const Sizes sizes = has_sizes ? n.ints(3) : Sizes();
  const std::vector<double> scales = has_sizes ? std::vector<double>() : n.reals(scales_at);
  n.require((has_sizes ? sizes.size() : scales.size()) == listed.size(),
            "there are {} sizes or scales for {} axes", has_sizes ? sizes.size() : scales.size(),
            listed.size());
  std::vector<double> region;
  if (options.coordinates == "tf_crop_and_resize") {
    region = n.reals(1);
    n.require(region.size() == 2 * listed.size(), "the roi has {} numbers for {} axes",
              region.size(), listed.size());
  }
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    Axis a{listed[i], n.shape(0)[static_cast<int>(listed[i])], 0, 1};
    const auto size = static_cast<double>(a.size);
    if (has_sizes) {
      a.result = sizes[i];
      a.scale = size > 0 ? static_cast<double>(sizes[i]) / size : 1;
    } else {
      a.scale = scales[i];
      n.require(a.scale > 0 && a.scale * size < 1e15, "the scale of axis {} is {}", a.axis,
                a.scale);
      a.result = static_cast<int64_t>(std::floor(a.scale * size));
    }
    if (!region.empty()) {
      a.begin = region[i];
      a.end = region[i + listed.size()];
    }
    axes.push_back(a);
  }
  if (has_sizes) keep_aspect_ratio(n, axes);
  return {interpolated(n, options, axes)};
}

std::vector<Tensor> upsampled(const NodeCall& n) {
  using namespace resizing;
  Options options;
  options.mode = n.text("mode", "nearest");
  n.require(options.mode == "nearest" || options.mode == "linear",
            "the mode is '{}', not nearest or linear", options.mode);
  options.coordinates = "asymmetric";
  options.nearest = "floor";
  const std::vector<double> scales = n.has(1) ? n.reals(std::size_t{1}) : n.reals("scales");
  n.require(scales.size() == static_cast<std::size_t>(n.rank(0)), "there are {} scales for {} axes",
            scales.size(), n.rank(0));
  std::vector<Axis> axes;
  for (int i = 0; i < n.rank(0); ++i) {
    const double scale = scales[static_cast<std::size_t>(i)];
    const auto size = static_cast<double>(n.shape(0)[i]);
    n.require(scale > 0 && scale * size < 1e15, "the scale of axis {} is {}", i, scale);
    axes.push_back({i, n.shape(0)[i], static_cast<int64_t>(std::floor(scale * size)), scale});
  }
  return {interpolated(n, options, axes)};
}

}  // namespace etude::onnx::importing
