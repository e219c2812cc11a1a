// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients, which are convolutions with other axes as batch and features.
#include "etude/ops/image/windows.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/stablehlo/conversions.h"

namespace etude::stablehlo::internal {
namespace {

using ops::WindowAxis;

// The attributes of a convolution, by axis of the image.
struct Window {
  Sizes strides, low, high, base_dilations, dilations;
  int64_t feature_groups = 1, batch_groups = 1;
};

std::string padding_text(const Window& w) {
  std::vector<std::string> pairs;
  for (std::size_t i = 0; i < w.low.size(); ++i) {
    pairs.push_back(fmt::format("[{}, {}]", w.low[i], w.high[i]));
  }
  return fmt::format("{}", fmt::join(pairs, ", "));
}

// A list of axes: letters, and numbers for the axes of the image.
std::string axes_text(std::string_view first, int axes, std::string_view last) {
  std::string out = fmt::format("[{}", first);
  for (int axis = 0; axis < axes; ++axis) out += fmt::format(", {}", axis);
  return fmt::format("{}{}]", out, last);
}
std::string image_axes(int axes, std::string_view first, std::string_view last) {
  return axes_text(first, axes, fmt::format(", {}", last));
}
std::string filter_axes(int axes, std::string_view first, std::string_view second) {
  std::string out = "[";
  for (int axis = 0; axis < axes; ++axis) out += fmt::format("{}, ", axis);
  return fmt::format("{}{}, {}]", out, first, second);
}

Term convolve(const Term& x, const Term& filter, const std::string& axes, const Window& w,
              const Type* result) {
  return x.writer->add(
      fmt::format(
          "stablehlo.convolution({}) dim_numbers = {}, window = {{stride = [{}], pad = [{}], "
          "lhs_dilate = [{}], rhs_dilate = [{}]}} {{batch_group_count = {} : i64, "
          "feature_group_count = {} : i64}} : {} -> {}",
          name_list({x, filter}), axes, number_list(w.strides), padding_text(w),
          number_list(w.base_dilations), number_list(w.dilations), w.batch_groups, w.feature_groups,
          type_list({x, filter}), type_text(result)),
      result);
}

std::vector<WindowAxis> windows_of(const Call& call, const Shape& image, const Shape& filter) {
  Sizes size;
  for (int axis = 0; axis < filter.rank() - 2; ++axis) size.push_back(filter[axis]);
  return ops::resolve_windows(call.attrs, image, size,
                              ops::sizes_attr(call.attrs, "strides", Sizes(size.size(), 1)));
}

const Type* of_result(const Call& call, const Term& x) {
  return intern_type(x.dtype(), call.result().shape());
}

Terms convolution(Call& call) {
  const Term x = call.in(0), filter = call.in(1);
  const int axes = x.rank() - 2;
  Window w{.feature_groups = call.attrs.integer("groups")};
  for (const WindowAxis& axis : windows_of(call, x.shape(), filter.shape())) {
    w.strides.push_back(axis.stride);
    w.low.push_back(axis.before);
    // A result that leaves pixels out has a smaller padding at its end.
    w.high.push_back((axis.output - 1) * axis.stride + axis.reach() - axis.input - axis.before);
    w.base_dilations.push_back(1);
    w.dilations.push_back(axis.dilation);
  }
  const std::string image = image_axes(axes, "b", "f");
  Term y = convolve(x, filter, fmt::format("{}x{}->{}", image, filter_axes(axes, "i", "o"), image),
                    w, of_result(call, x));
  if (call.has(2)) y = y + call.in(2);
  return {y};
}

// Filters [window..., inputs / groups, outputs] with inputs and outputs exchanged by group.
Term exchanged(const Term& filter, int64_t groups) {
  const Shape& shape = filter.shape();
  const int axes = shape.rank() - 2;
  const int64_t inputs = shape[axes], outputs = shape[axes + 1] / groups;
  Sizes split, order = all_axes(axes), joined;
  for (int axis = 0; axis < axes; ++axis) split.push_back(shape[axis]);
  joined = split;
  for (const int64_t size : {inputs, groups, outputs}) split.push_back(size);
  for (const int64_t axis : {axes + 2, axes + 1, axes}) order.push_back(axis);
  joined.push_back(outputs);
  joined.push_back(groups * inputs);
  return reshape(transpose(reshape(filter, Shape(split)), order), Shape(joined));
}

// The image is the cotangent with zeros between its pixels; the window slides over it reversed.
Terms input_gradient(Call& call) {
  const Term ct = call.in(0), filter = call.in(1);
  const int axes = ct.rank() - 2;
  Window w{.feature_groups = call.attrs.integer("groups")};
  for (const WindowAxis& axis : windows_of(call, call.result().shape(), filter.shape())) {
    const int64_t low = axis.reach() - 1 - axis.before;
    w.strides.push_back(1);
    w.low.push_back(low);
    w.high.push_back(axis.input - 1 - (axis.output - 1) * axis.stride - low + axis.reach() - 1);
    w.base_dilations.push_back(axis.stride);
    w.dilations.push_back(axis.dilation);
  }
  const Term turned = reverse(exchanged(filter, w.feature_groups), all_axes(axes));
  const std::string image = image_axes(axes, "b", "f");
  return {convolve(ct, turned, fmt::format("{}x{}->{}", image, filter_axes(axes, "i", "o"), image),
                   w, of_result(call, ct))};
}

// The examples are features, the channels of the image are examples, and the cotangent is the
// filter.
Terms filter_gradient(Call& call) {
  const Term x = call.in(0), ct = call.in(1);
  const int axes = x.rank() - 2;
  Window w{.batch_groups = call.attrs.integer("groups")};
  for (const WindowAxis& axis : windows_of(call, x.shape(), call.result().shape())) {
    w.strides.push_back(axis.dilation);
    w.low.push_back(axis.before);
    w.high.push_back(axis.reach() - 1 + (axis.output - 1) * axis.stride + 1 - axis.input -
                     axis.before);
    w.base_dilations.push_back(1);
    w.dilations.push_back(axis.stride);
  }
  const std::string dims = fmt::format("{}x{}->{}", image_axes(axes, "f", "b"),
                                       image_axes(axes, "i", "o"), filter_axes(axes, "b", "f"));
  return {convolve(x, ct, dims, w, of_result(call, x))};
}

bool has_examples(const CallFacts& call) { return call.shape(0)[0] > 0; }

}  // namespace

void add_window_conversions(Conversions& to) {
  for (const char* op : {"nn.conv1d", "nn.conv2d", "nn.conv3d"}) {
    to.push_back({.op = op, .dtypes = kSummed, .write = convolution});
  }
  to.insert(to.end(),
            {{.op = "internal.conv2d_input_gradient", .dtypes = kSummed, .write = input_gradient},
             {.op = "internal.conv2d_filter_gradient",
              .dtypes = kSummed,
              .write = filter_gradient,
              .fits = has_examples}});
}

}  // namespace etude::stablehlo::internal
