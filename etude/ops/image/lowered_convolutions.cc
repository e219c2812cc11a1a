// SPDX-License-Identifier: Apache-2.0
// Convolutions over one and three axes, by channel, and transposed. All are conv2d or its input
// gradient on arrays that are seen with other axes, so their kernels and derivatives are the same:
// a third axis goes into the batch, and its part of the filter into the channels.
#include "etude/base/check.h"
#include "etude/core/internal/call.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/image/windows.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

constexpr std::string_view kImage[] = {"", "[n, width, channels]", "[n, height, width, channels]",
                                       "[n, depth, height, width, channels]"};

void require_rank(const Tensor& x, int axes, std::string_view operand, std::string_view layout) {
  ETUDE_REQUIRE(x.rank() == axes, "operand '{}' has shape {}, but must be {}", operand,
                x.shape().to_string(), layout);
}

// Spatial sizes of a filter whose first axes are the window.
Ints window_of(const Shape& filter, int axes) {
  Ints window;
  for (int i = 0; i < axes; ++i) window.push_back(filter[i]);
  ETUDE_REQUIRE(std::ranges::all_of(window, [](int64_t size) { return size >= 1; }),
                "operand 'filter' has shape {}: its window is empty", filter.to_string());
  return window;
}

void require_bias(Operands in, int64_t outputs) {
  ETUDE_REQUIRE(!in.has(2) || in[2].shape() == Shape{outputs},
                "operand 'bias' has shape {}, but {} outputs need [{}]",
                in.has(2) ? in[2].shape().to_string() : "", outputs, outputs);
}

// Operands of conv1d and conv3d, whose filter is [window.., channels / groups, outputs].
void require_operands(Operands in, const Attrs& attrs, int axes) {
  const Tensor &x = in[0], &filter = in[1];
  require_rank(x, axes + 2, "x", kImage[axes]);
  require_rank(filter, axes + 2, "filter", "[window.., channels / groups, outputs]");
  const int64_t groups = attrs.integer("groups"), channels = x.shape()[axes + 1];
  const int64_t outputs = filter.shape()[axes + 1];
  ETUDE_REQUIRE(groups >= 1, "groups is {}, but must be at least 1", groups);
  ETUDE_REQUIRE(channels % groups == 0 && channels / groups == filter.shape()[axes],
                "operand 'x' has shape {} and operand 'filter' has shape {}: {} channels in {} "
                "groups need a filter with {} channels, not {}",
                x.shape().to_string(), filter.shape().to_string(), channels, groups,
                channels / groups, filter.shape()[axes]);
  ETUDE_REQUIRE(outputs % groups == 0,
                "the {} outputs of operand 'filter' of shape {} do not divide by {} groups",
                outputs, filter.shape().to_string(), groups);
  require_bias(in, outputs);
}

// Each step of a filter's depth becomes several calls, so that many are a graph without end.
void require_depth(const Shape& filter) {
  constexpr int64_t kMost = 1024;
  ETUDE_REQUIRE(filter[0] <= kMost,
                "operand 'filter' has shape {}: a depth of {} is more than {}. Add the results of "
                "parts of the filter",
                filter.to_string(), filter[0], kMost);
}

std::vector<WindowAxis> windows_of(const Attrs& attrs, const Shape& x, const Ints& window) {
  return resolve_windows(attrs, x, window, sizes_attr(attrs, "strides", Ints(window.size(), 1)));
}

// Attributes that go to conv2d as they are, so that one graph serves all sizes of an image.
Ints of_one_axis(const Attrs& attrs, std::string_view name) {
  return {1, sizes_attr(attrs, name, {1})[0]};
}

Values lower_conv1d(Operands in, const Attrs& attrs) {
  require_operands(in, attrs, 1);
  // With an error that names these shapes.
  static_cast<void>(windows_of(attrs, in[0].shape(), window_of(in[1].shape(), 1)));
  AttrValue padding;
  if (attrs.has("explicit_padding")) {
    const Ints& given = attrs.ints("explicit_padding");
    padding = Ints{0, 0, given[0], given[1]};
  }
  const Tensor bias = in.has(2) ? in[2] : Tensor();
  const Tensor x = expand_dims(in[0], {1}), filter = expand_dims(in[1], {0});
  const Tensor y =
      run(op<"conv2d">(), {&x, &filter, &bias},
          std::vector<AttrValue>{of_one_axis(attrs, "strides"), attrs.value("padding"), padding,
                                 of_one_axis(attrs, "dilations"), attrs.value("groups")});
  return {squeeze(y, {1})};
}

// [n, depth, h, w, c] to [n, steps, h, w, groups, taps, c / groups]: the pixels of the taps of a
// window along the depth, for each step.
Tensor stack_taps(const Tensor& x, const WindowAxis& depth, int64_t groups) {
  const Shape& s = x.shape();
  const int64_t last = s[4] / groups;
  const Tensor padded = depth.before + depth.after == 0
                            ? x
                            : pad(x, {0, 0, depth.before, depth.after, 0, 0, 0, 0, 0, 0});
  std::vector<Tensor> taps;
  for (int64_t k = 0; k < depth.size; ++k) {
    const int64_t first = k * depth.dilation;
    const Tensor tap =
        slice(padded, {0, first}, {s[0], first + (depth.output - 1) * depth.stride + 1},
              {.step = {1, depth.stride}});
    taps.push_back(reshaped(tap, {s[0], depth.output, s[2], s[3], groups, 1, last}));
  }
  return depth.size == 1 ? taps[0] : concat(taps, {.axis = 5});
}

Values lower_conv3d(Operands in, const Attrs& attrs) {
  require_operands(in, attrs, 3);
  const Shape &x = in[0].shape(), &f = in[1].shape();
  require_depth(f);
  const int64_t groups = attrs.integer("groups");
  const std::vector<WindowAxis> window = windows_of(attrs, x, window_of(f, 3));
  const Tensor taps = reshaped(stack_taps(in[0], window[0], groups),
                               {x[0] * window[0].output, x[2], x[3], f[0] * x[4]});
  const Tensor filter =
      reshaped(permute_dims(in[1], {1, 2, 0, 3, 4}), {f[1], f[2], f[0] * f[3], f[4]});
  const Tensor bias = in.has(2) ? in[2] : Tensor();
  const WindowAxis &down = window[1], &across = window[2];
  const Tensor y = run(op<"conv2d">(), {&taps, &filter, &bias},
                       {Ints{down.stride, across.stride}, none,
                        Ints{down.before, down.after, across.before, across.after},
                        Ints{down.dilation, across.dilation}, groups});
  return {reshaped(y, {x[0], window[0].output, window[1].output, window[2].output, f[4]})};
}

Values lower_depthwise(Operands in, const Attrs& attrs) {
  const Tensor &x = in[0], &filter = in[1];
  require_rank(x, 4, "x", kImage[2]);
  require_rank(filter, 4, "filter", "[height, width, channels, multiplier]");
  const Shape& f = filter.shape();
  ETUDE_REQUIRE(f[2] == x.shape()[3],
                "operand 'x' has shape {} and operand 'filter' has shape {}: {} channels need a "
                "filter with {} channels, not {}",
                x.shape().to_string(), f.to_string(), x.shape()[3], x.shape()[3], f[2]);
  require_bias(in, f[2] * f[3]);
  static_cast<void>(windows_of(attrs, x.shape(), window_of(f, 2)));
  const Tensor each = reshaped(filter, {f[0], f[1], 1, f[2] * f[3]});
  const Tensor bias = in.has(2) ? in[2] : Tensor();
  return {
      run(op<"conv2d">(), {&x, &each, &bias},
          std::vector<AttrValue>{attrs.value("strides"), attrs.value("padding"),
                                 attrs.value("explicit_padding"), attrs.value("dilations"), f[2]})};
}

// The windows of the convolution whose input gradient this is: `input` is the size of the result,
// `output` the size of x.
std::vector<WindowAxis> transposed_windows(const Attrs& attrs, const Shape& x, const Ints& size) {
  const std::string& padding = attrs.text("padding");
  ETUDE_REQUIRE(padding == "valid" || padding == "same",
                "padding is '{}', but must be 'valid' or 'same'", padding);
  const Ints strides = sizes_attr(attrs, "strides", Ints(size.size(), 1));
  Ints more(size.size(), 0);
  if (attrs.has("output_padding")) {
    const Ints& given = attrs.ints("output_padding");
    ETUDE_REQUIRE(given.size() == 1 || given.size() == size.size(),
                  "output_padding has {} numbers, but there are {} axes", given.size(),
                  size.size());
    for (std::size_t i = 0; i < more.size(); ++i) more[i] = given[given.size() == 1 ? 0 : i];
  }
  std::vector<WindowAxis> window(size.size());
  for (std::size_t i = 0; i < window.size(); ++i) {
    WindowAxis& axis = window[i];
    axis.output = x[static_cast<int>(i) + 1], axis.size = size[i], axis.stride = strides[i];
    ETUDE_REQUIRE(axis.output >= 1, "operand 'x' has shape {}: it has no pixel", x.to_string());
    const bool is_same = padding == "same";
    ETUDE_REQUIRE(more[i] >= 0 && more[i] < (is_same ? 1 : axis.stride),
                  "output_padding is {}, but must be below the stride {}, and 0 where padding is "
                  "\"same\"",
                  more[i], axis.stride);
    const int64_t full = (axis.output - 1) * axis.stride + axis.size + more[i];
    axis.input = is_same ? axis.output * axis.stride : full;
    const int64_t over = std::max<int64_t>(0, full - axis.input);
    axis.before = over / 2, axis.after = over - over / 2;
  }
  return window;
}

void require_transposed(Operands in, int axes) {
  const Tensor &x = in[0], &filter = in[1];
  require_rank(x, axes + 2, "x", kImage[axes]);
  require_rank(filter, axes + 2, "filter", "[window.., outputs, channels]");
  ETUDE_REQUIRE(x.shape()[axes + 1] == filter.shape()[axes + 1],
                "operand 'x' has shape {} and operand 'filter' has shape {}: {} channels need a "
                "filter with {} channels, not {}",
                x.shape().to_string(), filter.shape().to_string(), x.shape()[axes + 1],
                x.shape()[axes + 1], filter.shape()[axes + 1]);
  require_bias(in, filter.shape()[axes]);
}

// [n, h, w, channels] to [n, height, width, outputs].
Tensor transposed_of(const Tensor& x, const Tensor& filter, std::span<const WindowAxis> axes) {
  const WindowAxis one{.input = 1}, &down = axes.size() > 1 ? axes[axes.size() - 2] : one;
  const WindowAxis& across = axes.back();
  return run(
      op<"conv2d_input_gradient">(), {&x, &filter},
      {Ints{down.stride, across.stride}, Ints{down.before, down.after, across.before, across.after},
       Ints{1, 1}, 1, Ints{down.input, across.input}});
}

Values biased(Tensor y, Operands in) {
  if (in.has(2)) y = y + in[2];
  return {std::move(y)};
}

Values lower_transposed1d(Operands in, const Attrs& attrs) {
  require_transposed(in, 1);
  const Shape &x = in[0].shape(), &f = in[1].shape();
  const std::vector<WindowAxis> window = transposed_windows(attrs, x, window_of(f, 1));
  const Tensor y = transposed_of(reshaped(in[0], {x[0], 1, x[1], x[2]}),
                                 reshaped(in[1], {1, f[0], f[1], f[2]}), window);
  return biased(reshaped(y, {x[0], window[0].input, f[1]}), in);
}

Values lower_transposed2d(Operands in, const Attrs& attrs) {
  require_transposed(in, 2);
  const std::vector<WindowAxis> window =
      transposed_windows(attrs, in[0].shape(), window_of(in[1].shape(), 2));
  return biased(transposed_of(in[0], in[1], window), in);
}

// Sums the terms of the taps of a window along the depth into the steps of the result, from [n,
// steps, h, w, taps, outputs].
Tensor add_taps(const Tensor& taps, const WindowAxis& depth) {
  const Shape& s = taps.shape();
  const Shape plane{s[0], s[1], s[2], s[3], s[5]};
  const int64_t spread = (depth.output - 1) * depth.stride + 1;
  const int64_t all = std::max(spread + depth.size - 1, depth.before + depth.input);
  Tensor sum;
  for (int64_t k = 0; k < depth.size; ++k) {
    Tensor tap = reshaped(slice(taps, {0, 0, 0, 0, k}, {s[0], s[1], s[2], s[3], k + 1}), plane);
    if (depth.stride > 1) {  // zeros between the steps
      tap = pad(reshaped(tap, {s[0], s[1], 1, s[2], s[3], s[5]}),
                {0, 0, 0, 0, 0, depth.stride - 1, 0, 0, 0, 0, 0, 0});
      tap = slice(reshaped(tap, {s[0], s[1] * depth.stride, s[2], s[3], s[5]}), {0, 0},
                  {s[0], spread});
    }
    if (all > spread) tap = pad(tap, {0, 0, k, all - spread - k, 0, 0, 0, 0, 0, 0});
    add_to(sum, tap);
  }
  return slice(sum, {0, depth.before}, {s[0], depth.before + depth.input});
}

Values lower_transposed3d(Operands in, const Attrs& attrs) {
  require_transposed(in, 3);
  const Shape &x = in[0].shape(), &f = in[1].shape();
  require_depth(f);
  const std::vector<WindowAxis> window = transposed_windows(attrs, x, window_of(f, 3));
  const Tensor filter =
      reshaped(permute_dims(in[1], {1, 2, 0, 3, 4}), {f[1], f[2], f[0] * f[3], f[4]});
  const Tensor y = transposed_of(reshaped(in[0], {x[0] * x[1], x[2], x[3], x[4]}), filter, window);
  const Tensor taps = reshaped(y, {x[0], x[1], window[1].input, window[2].input, f[0], f[3]});
  return biased(add_taps(taps, window[0]), in);
}

std::vector<AttrDef> conv_attrs(bool has_groups) {
  std::vector<AttrDef> attrs = {{"strides", Ints{1}},
                                {"padding", "valid"},
                                {"explicit_padding", AttrKind::kInts, none},
                                {"dilations", Ints{1}}};
  if (has_groups) attrs.emplace_back("groups", 1);
  return attrs;
}

void define_conv1d(Registry& r) {
  r.define({
      .name = "conv1d",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc =
          "Convolution of x [n, width, channels] with filter [width, channels / groups, outputs], "
          "plus bias [outputs]. Options are as in conv2d, with explicit_padding {before, after}.",
      .operands = {"x", "filter", "bias?"},
      .attrs = conv_attrs(true),
      .dtypes = kNumeric,
      .lower = lower_conv1d,
      .samples = {.calls = {{{"[2,6,3]", "[3,3,4]", "-"}},
                            {{"[1,7,4]", "[2,2,6]", "[6]"},
                             {{"groups", int64_t{2}},
                              {"strides", Ints{2}},
                              {"explicit_padding", Ints{3, 1}},
                              {"dilations", Ints{3}}}}}},
      .errors =
          {{{"float32[5,3]", "float32[3,3,4]", "-"}, "must be [n, width, channels]"},
           {{"float32[1,5,3]", "float32[3,3]", "-"}, "operand 'filter' has shape [3,3]"},
           {{"float32[1,5,3]", "float32[3,2,4]", "-"}, "need a filter with 3 channels, not 2"},
           {{"float32[1,5,4]", "float32[3,2,3]", "-"},
            "do not divide by 2 groups",
            {{"groups", int64_t{2}}}},
           {{"float32[1,5,3]", "float32[3,3,4]", "-"}, "groups is 0", {{"groups", int64_t{0}}}},
           {{"float32[1,5,3]", "float32[3,3,4]", "float32[3]"}, "4 outputs need [4]"},
           {{"float32[1,5,3]", "float32[0,3,4]", "-"}, "its window is empty"},
           {{"float32[1,5,3]", "float32[3,3,4]", "-"},
            "strides has 2 numbers, but must have one",
            {{"strides", Ints{1, 1}}}},
           {{"float32[1,5,3]", "float32[6,3,4]", "-"}, "no result is left"}},
  });
}

void define_conv3d(Registry& r) {
  r.define({
      .name = "conv3d",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "Convolution of x [n, depth, height, width, channels] with filter [depth, height, "
             "width, channels / groups, outputs], plus bias [outputs]. Options are as in conv2d, "
             "with one or three strides and dilations, and explicit_padding {before, after} of "
             "depth, height and width. The depth of the filter is at most 1024. memory: x once for "
             "each step of it.",
      .operands = {"x", "filter", "bias?"},
      .attrs = conv_attrs(true),
      .dtypes = kNumeric,
      .lower = lower_conv3d,
      // The number of calls depends on the depth of the filter, so symbolic graphs serve few
      // variations.
      .samples = {.calls = {{{"[1,4,4,4,4]", "[3,2,2,2,4]", "[4]"},
                             {{"padding", std::string("same")},
                              {"strides", Ints{2, 1, 2}},
                              {"dilations", Ints{1, 2, 1}},
                              {"groups", int64_t{2}}}}}},
      .errors = {{{"float32[5,4,4,3]", "float32[2,2,2,3,4]", "-"},
                  "must be [n, depth, height, width, channels]"},
                 {{"float32[1,4,4,4,3]", "float32[2,2,2,2,4]", "-"},
                  "need a filter with 3 channels, not 2"},
                 {{"float32[1,2000,4,4,3]", "float32[1025,2,2,3,4]", "-"},
                  "a depth of 1025 is more than 1024. Add the results of parts of the filter"},
                 {{"float32[1,4,4,4,3]", "float32[2,2,2,3,4]", "-"},
                  "explicit_padding has 4 numbers, but must have 6",
                  {{"explicit_padding", Ints{1, 1, 1, 1}}}},
                 {{"float32[1,4,4,4,3]", "float32[2,2,2,3,4]", "-"},
                  "strides has 2 numbers, but must have one for all axes, or three",
                  {{"strides", Ints{1, 1}}}},
                 {{"float32[1,2,4,4,3]", "float32[3,2,2,3,4]", "-"}, "no result is left"}},
  });
}

void define_depthwise(Registry& r) {
  r.define({
      .name = "depthwise_conv2d",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc =
          "Convolution of each channel of x [n, height, width, channels] with its own `multiplier` "
          "filters in filter [height, width, channels, multiplier], plus bias. The results of "
          "channel i begin at i * multiplier. As conv2d with as many groups as channels.",
      .operands = {"x", "filter", "bias?"},
      .attrs = conv_attrs(false),
      .dtypes = kNumeric,
      .lower = lower_depthwise,
      .samples = {.calls = {{{"[2,4,5,3]", "[3,2,3,1]", "-"}},
                            {{"[1,5,5,2]", "[3,3,2,3]", "[6]"},
                             {{"padding", std::string("same")}, {"strides", Ints{2}}}},
                            {{"[1,5,6,9]", "[3,2,9,1]", "[9]"},
                             {{"explicit_padding", Ints{1, 1, 0, 1}}, {"dilations", Ints{1, 2}}}}}},
      .errors = {{{"float32[4,4,3]", "float32[2,2,3,1]", "-"},
                  "must be [n, height, width, channels]"},
                 {{"float32[1,4,4,3]", "float32[2,2,3]", "-"},
                  "must be [height, width, channels, multiplier]"},
                 {{"float32[1,4,4,3]", "float32[2,2,2,1]", "-"}, "3 channels need a filter with 3"},
                 {{"float32[1,4,4,3]", "float32[2,2,3,2]", "float32[3]"}, "6 outputs need [6]"}},
  });
}

void define_transposed(Registry& r, std::string_view name, std::string_view doc,
                       Values (*lower)(Operands, const Attrs&), std::vector<Sample> samples,
                       std::vector<ErrorCase> errors) {
  r.define({
      .name = name,
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = doc,
      .operands = {"x", "filter", "bias?"},
      .attrs = {{"strides", Ints{1}},
                {"padding", "valid"},
                {"output_padding", AttrKind::kInts, none}},
      .dtypes = kNumeric,
      .lower = lower,
      .samples = {.calls = std::move(samples)},
      .errors = std::move(errors),
  });
}

void define_transposes(Registry& r) {
  const std::string same = "same";
  define_transposed(
      r, "conv_transpose1d",
      "The transpose of conv1d in x, for x [n, width, channels] and filter [width, "
      "outputs, channels]. The result has (width - 1) * stride + filter width + "
      "output_padding pixels, or width * stride with padding \"same\".",
      lower_transposed1d,
      {{{"[2,3,2]", "[3,4,2]", "-"}},
       {{"[1,4,2]", "[3,2,2]", "[2]"}, {{"strides", Ints{2}}, {"padding", same}}}},
      {{{"float32[3,2]", "float32[3,4,2]", "-"}, "must be [n, width, channels]"},
       {{"float32[1,3,2]", "float32[3,4,3]", "-"}, "2 channels need a filter with 2 channels"},
       {{"float32[1,3,2]", "float32[3,4,2]", "-"},
        "output_padding is 2, but must be below the stride 2",
        {{"strides", Ints{2}}, {"output_padding", Ints{2}}}},
       {{"float32[1,3,2]", "float32[3,4,2]", "-"},
        "padding is 'full'",
        {{"padding", std::string("full")}}}});
  define_transposed(
      r, "conv_transpose2d",
      "The transpose of conv2d in x, for x [n, height, width, channels] and filter "
      "[height, width, outputs, channels]. The result has (size - 1) * stride + "
      "filter size + output_padding pixels along each axis, or size * stride with "
      "padding \"same\". A strided convolution maps several sizes to one; "
      "output_padding selects the size.",
      lower_transposed2d,
      {{{"[2,3,2,2]", "[2,3,3,2]", "-"}, {{"strides", Ints{2, 1}}, {"output_padding", Ints{1, 0}}}},
       {{"[1,2,3,3]", "[3,2,2,3]", "[2]"}, {{"strides", Ints{2, 3}}, {"padding", same}}}},
      {{{"float32[1,3,2]", "float32[3,3,4,2]", "-"}, "must be [n, height, width, channels]"},
       {{"float32[1,3,3,2]", "float32[3,3,4,2]", "float32[3]"}, "4 outputs need [4]"},
       {{"float32[1,0,3,2]", "float32[3,3,4,2]", "-"}, "it has no pixel"},
       {{"float32[1,3,3,2]", "float32[3,3,4,2]", "-"},
        "output_padding has 3 numbers",
        {{"output_padding", Ints{0, 0, 0}}}}});
  define_transposed(
      r, "conv_transpose3d",
      "The transpose of conv3d in x: as conv_transpose2d, for x [n, depth, height, width, "
      "channels] "
      "and filter [depth, "
      "height, width, outputs, channels] of a depth of at most 1024.",
      lower_transposed3d,
      {{{"[1,2,3,2,2]", "[3,2,2,2,2]", "[2]"},
        {{"strides", Ints{2, 1, 3}}, {"output_padding", Ints{1, 0, 2}}}}},
      {{{"float32[1,3,3,2]", "float32[3,3,3,4,2]", "-"},
        "must be [n, depth, height, width, channels]"},
       {{"float32[1,3,3,3,2]", "float32[3,3,4,2]", "-"}, "must be [window.., outputs, channels]"},
       {{"float32[1,3,3,3,2]", "float32[1025,3,3,4,2]", "-"},
        "a depth of 1025 is more than 1024"}});
}

}  // namespace

void define_lowered_convolutions(Registry& r) {
  define_conv1d(r);
  define_conv3d(r);
  define_depthwise(r);
  define_transposes(r);
}

}  // namespace etude::ops
