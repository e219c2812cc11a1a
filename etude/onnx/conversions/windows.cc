// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling. Images are [n, sizes..., channels] here, and [n, channels, sizes...] in
// ONNX: each conversion transposes to and fro, and tidy.h joins adjacent transposes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "etude/onnx/conversions.h"

namespace etude::onnx::internal {
namespace {

using Sizes = std::vector<int64_t>;

Sizes channels_first(int rank) {
  Sizes out = {0, rank - 1};
  for (int axis = 1; axis < rank - 1; ++axis) out.push_back(axis);
  return out;
}
Sizes channels_last(int rank) {
  Sizes out = {0};
  for (int axis = 2; axis < rank; ++axis) out.push_back(axis);
  out.push_back(1);
  return out;
}
// Filters [sizes..., inputs, outputs] are [outputs, inputs, sizes...] in ONNX.
Sizes filter_order(int rank) {
  Sizes out = {rank - 1, rank - 2};
  for (int axis = 0; axis < rank - 2; ++axis) out.push_back(axis);
  return out;
}

// One number for all axes, or one for each.
Sizes by_axis(const Sizes& given, std::size_t axes) {
  return given.size() == axes ? given : Sizes(axes, given[0]);
}

// {before, after} by axis as all before, then all after.
Sizes sides(const Sizes& pairs) {
  Sizes out;
  for (const std::size_t side : {0, 1}) {
    for (std::size_t i = side; i < pairs.size(); i += 2) out.push_back(pairs[i]);
  }
  return out;
}

// The attributes of a window. With padding "same" and a stride above 1 the padding depends on the
// size of the image, so the runtime computes it.
struct Window {
  Sizes window, strides, dilations;

  void add_padding(Call& call, std::vector<Attribute>& to) const {
    const std::string& padding = call.attrs.text("padding");
    if (call.attrs.has("explicit_padding")) {
      to.push_back({"pads", sides(call.attrs.ints("explicit_padding"))});
    } else if (padding == "same" &&
               std::ranges::any_of(strides, [](int64_t s) { return s != 1; })) {
      to.push_back({"auto_pad", std::string("SAME_UPPER")});
    } else if (padding == "same") {
      Sizes pairs;
      for (std::size_t i = 0; i < window.size(); ++i) {
        const int64_t all = (window[i] - 1) * dilations[i];
        pairs.push_back(all / 2);
        pairs.push_back(all - all / 2);
      }
      to.push_back({"pads", sides(pairs)});
    }
  }
};

Term to_image(Call& call, const Term& y) { return call.transpose(y, channels_last(call.rank(0))); }
Term of_image(Call& call) { return call.transpose(call.in(0), channels_first(call.rank(0))); }

Term convolved(Call& call, const Term& filter, const Sizes& window, int64_t groups) {
  const std::size_t axes = window.size();
  const Window w{window, by_axis(call.attrs.ints("strides"), axes),
                 by_axis(call.attrs.ints("dilations"), axes)};
  std::vector<Attribute> attributes = {{"kernel_shape", w.window},
                                       {"strides", w.strides},
                                       {"dilations", w.dilations},
                                       {"group", groups}};
  w.add_padding(call, attributes);
  return to_image(call, call.node("Conv", {of_image(call), filter, call.in(2)}, attributes));
}

Sizes first_sizes(const Shape& shape, int count) {
  Sizes out;
  for (int i = 0; i < count; ++i) out.push_back(shape[i]);
  return out;
}

std::vector<Term> convolution(Call& call) {
  const int rank = call.rank(1);
  const Term filter = call.transpose(call.in(1), filter_order(rank));
  return {
      convolved(call, filter, first_sizes(call.shape(1), rank - 2), call.attrs.integer("groups"))};
}

// A depthwise filter [sizes..., channels, multiplier] is a filter with a group for each channel.
std::vector<Term> depthwise(Call& call) {
  const Shape& shape = call.shape(1);
  const int rank = shape.rank();
  Sizes sizes = first_sizes(shape, rank - 2);
  const Sizes window = sizes;
  const int64_t channels = shape[rank - 2];
  sizes.push_back(1);
  sizes.push_back(channels * shape[rank - 1]);
  const Term filter = call.transpose(call.reshape(call.in(1), sizes), filter_order(rank));
  return {convolved(call, filter, window, channels)};
}

// The transpose of a convolution whose image has the sizes of the result, with the padding of that
// convolution as pairs.
std::vector<Term> transposed(Call& call, const Window& w, const Sizes& pairs, int64_t groups) {
  Sizes further;
  for (std::size_t i = 0; i < w.window.size(); ++i) {
    const int axis = static_cast<int>(i) + 1;
    const int64_t whole =
        (call.shape(0)[axis] - 1) * w.strides[i] + (w.window[i] - 1) * w.dilations[i] + 1;
    further.push_back(call.result().shape()[axis] - (whole - pairs[2 * i] - pairs[2 * i + 1]));
  }
  const Term filter = call.transpose(call.in(1), filter_order(call.rank(1)));
  const Term y = call.node("ConvTranspose", {of_image(call), filter, call.in(2)},
                           {{"kernel_shape", w.window},
                            {"strides", w.strides},
                            {"dilations", w.dilations},
                            {"pads", sides(pairs)},
                            {"output_padding", further},
                            {"group", groups}});
  return {to_image(call, y)};
}

std::vector<Term> transposed_convolution(Call& call) {
  const Sizes window = first_sizes(call.shape(1), call.rank(1) - 2);
  const Window w{window, by_axis(call.attrs.ints("strides"), window.size()),
                 Sizes(window.size(), 1)};
  Sizes pairs;
  for (std::size_t i = 0; i < window.size(); ++i) {
    const int axis = static_cast<int>(i) + 1;
    const int64_t whole = (call.shape(0)[axis] - 1) * w.strides[i] + window[i];
    const int64_t cut = std::max<int64_t>(whole - call.result().shape()[axis], 0);
    pairs.push_back(cut / 2);
    pairs.push_back(cut - cut / 2);
  }
  return transposed(call, w, pairs, 1);
}
bool has_plain_padding(const CallFacts& call) {
  return !call.attrs.has("output_padding") || call.attrs.text("padding") == "valid";
}

std::vector<Term> input_gradient(Call& call) {
  const Sizes window = first_sizes(call.shape(1), call.rank(1) - 2);
  const Window w{window, by_axis(call.attrs.ints("strides"), window.size()),
                 by_axis(call.attrs.ints("dilations"), window.size())};
  return transposed(call, w, call.attrs.ints("explicit_padding"), call.attrs.integer("groups"));
}

std::vector<Attribute> pool_attributes(Call& call) {
  const auto axes = static_cast<std::size_t>(call.rank(0) - 2);
  Window w{by_axis(call.attrs.ints("window"), axes), {}, Sizes(axes, 1)};
  w.strides = call.attrs.has("strides") ? by_axis(call.attrs.ints("strides"), axes) : w.window;
  std::vector<Attribute> out = {{"kernel_shape", w.window}, {"strides", w.strides}};
  w.add_padding(call, out);
  return out;
}
std::vector<Term> max_pool(Call& call) {
  return {to_image(call, call.node("MaxPool", {of_image(call)}, pool_attributes(call)))};
}
std::vector<Term> avg_pool(Call& call) {
  std::vector<Attribute> attributes = pool_attributes(call);
  attributes.push_back({"count_include_pad", int64_t{0}});
  return {to_image(call, call.node("AveragePool", {of_image(call)}, attributes))};
}

}  // namespace

void add_window_conversions(Conversions& to) {
  constexpr DTypeSet kFloats = kHalfToDouble;
  for (const char* op : {"nn.conv1d", "nn.conv2d", "nn.conv3d"}) {
    to.push_back({.op = op, .dtypes = kFloats, .write = convolution});
  }
  to.push_back({.op = "nn.depthwise_conv2d", .dtypes = kFloats, .write = depthwise});
  for (const char* op : {"nn.conv_transpose1d", "nn.conv_transpose2d", "nn.conv_transpose3d"}) {
    to.push_back(
        {.op = op, .dtypes = kFloats, .write = transposed_convolution, .fits = has_plain_padding});
  }
  to.push_back(
      {.op = "internal.conv2d_input_gradient", .dtypes = kFloats, .write = input_gradient});
  for (const char* op : {"nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"}) {
    to.push_back({.op = op, .dtypes = kFloats, .write = max_pool});
  }
  for (const char* op : {"nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"}) {
    to.push_back({.op = op, .dtypes = kFloats, .write = avg_pool});
  }
}

}  // namespace etude::onnx::internal
