// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/models/block_makers.h"

namespace etude::nn::models {
namespace {

ConvUnitOptions conv(int64_t window, int64_t stride, Activation activation = {}) {
  return {.window = window, .stride = stride, .activation = std::move(activation)};
}
ConvUnitOptions depthwise(int64_t window, int64_t stride, int64_t channels,
                          Activation activation = {}) {
  ConvUnitOptions options = conv(window, stride, std::move(activation));
  options.groups = channels;
  return options;
}

// Wider, a depthwise convolution, and narrower; added to x where the shape is the same.
struct Inverted {
  int64_t window, in, middle, out, stride;
  Activation activation;
  int64_t squeezed = 0;
  SqueezeExciteOptions squeeze = {};
};
ConvBlock inverted(const Inverted& i) {
  Path path;
  if (i.middle != i.in) path.emplace_back(i.in, i.middle, conv(1, 1, i.activation));
  ConvUnitOptions inner = depthwise(i.window, i.stride, i.middle, i.activation);
  inner.squeezed = i.squeezed, inner.squeeze = i.squeeze;
  path.emplace_back(i.middle, i.middle, inner);
  path.emplace_back(i.middle, i.out, conv(1, 1));
  return ConvBlock({std::move(path)}, {.keeps_input = i.stride == 1 && i.in == i.out});
}

// A row of table 1 or 2 of "Searching for MobileNetV3".
struct Row {
  int64_t window, middle, out;
  bool squeezes, is_swish;
  int64_t stride;
};
constexpr Row kLarge[] = {
    {3, 16, 16, false, false, 1}, {3, 64, 24, false, false, 2}, {3, 72, 24, false, false, 1},
    {5, 72, 40, true, false, 2},  {5, 120, 40, true, false, 1}, {5, 120, 40, true, false, 1},
    {3, 240, 80, false, true, 2}, {3, 200, 80, false, true, 1}, {3, 184, 80, false, true, 1},
    {3, 184, 80, false, true, 1}, {3, 480, 112, true, true, 1}, {3, 672, 112, true, true, 1},
    {5, 672, 160, true, true, 2}, {5, 960, 160, true, true, 1}, {5, 960, 160, true, true, 1}};
constexpr Row kSmall[] = {
    {3, 16, 16, true, false, 2}, {3, 72, 24, false, false, 2}, {3, 88, 24, false, false, 1},
    {5, 96, 40, true, true, 2},  {5, 240, 40, true, true, 1},  {5, 240, 40, true, true, 1},
    {5, 120, 48, true, true, 1}, {5, 144, 48, true, true, 1},  {5, 288, 96, true, true, 2},
    {5, 576, 96, true, true, 1}, {5, 576, 96, true, true, 1}};

ConvNet mobilenet_v3_of(std::span<const Row> rows, int64_t last, const ImageOptions& options) {
  const auto wide = [&](int64_t channels) {
    return rounded(static_cast<double>(channels) * options.width);
  };
  int64_t in = wide(16);
  Blocks blocks = {chain_of({ConvUnit(options.in, in, conv(3, 2, hard_swish))})};
  for (const Row& row : rows) {
    const int64_t middle = wide(row.middle);
    blocks.push_back(
        inverted({.window = row.window,
                  .in = in,
                  .middle = middle,
                  .out = wide(row.out),
                  .stride = row.stride,
                  .activation = row.is_swish ? Activation(hard_swish) : Activation(relu),
                  .squeezed = row.squeezes ? rounded(static_cast<double>(middle) / 4) : 0,
                  .squeeze = {.gate = hard_sigmoid}}));
    in = wide(row.out);
  }
  blocks.push_back(chain_of({ConvUnit(in, 6 * in, conv(1, 1, hard_swish))}));
  const int64_t hidden = wide(last);
  return ConvNet(
      std::move(blocks),
      {Dense(6 * in, hidden, {.activation = hard_swish}), Dense(hidden, options.classes)},
      {.dropout = 0.2});
}

// As many channels on both sides, mixed with a depthwise convolution between.
ConvBlock shuffle_unit(int64_t in, int64_t out, int64_t stride) {
  const int64_t half = out / 2, seen = stride == 1 ? half : in;
  Path main =
      Path{ConvUnit(seen, half, conv(1, 1, relu)), ConvUnit(half, half, depthwise(3, stride, half)),
           ConvUnit(half, half, conv(1, 1, relu))};
  if (stride == 1)
    return ConvBlock({Path(), std::move(main)},
                     {.join = "concat", .splits = true, .shuffles = true});
  Path beside =
      Path{ConvUnit(in, in, depthwise(3, stride, in)), ConvUnit(in, half, conv(1, 1, relu))};
  return ConvBlock({std::move(beside), std::move(main)}, {.join = "concat", .shuffles = true});
}

}  // namespace

ConvNet mobilenet(const ImageOptions& options, CallSite where) {
  return make_model("mobilenet", options, where, [&] {
    struct Pair {
      int64_t out, stride;
    };
    constexpr Pair kPairs[] = {{64, 1},  {128, 2},  {128, 1}, {256, 2}, {256, 1},
                               {512, 2}, {512, 1},  {512, 1}, {512, 1}, {512, 1},
                               {512, 1}, {1024, 2}, {1024, 1}};
    int64_t in = scaled(32, options);
    Blocks blocks = {chain_of({ConvUnit(options.in, in, conv(3, 2, relu6))})};
    for (const auto& [channels, stride] : kPairs) {
      const int64_t out = scaled(channels, options);
      blocks.push_back(chain_of({ConvUnit(in, in, depthwise(3, stride, in, relu6)),
                                 ConvUnit(in, out, conv(1, 1, relu6))}));
      in = out;
    }
    return ConvNet(std::move(blocks), {Dense(in, options.classes)}, {.dropout = 0.001});
  });
}

ConvNet mobilenet_v2(const ImageOptions& options, CallSite where) {
  return make_model("mobilenet_v2", options, where, [&] {
    struct Part {
      int64_t expansion, out, count, stride;
    };
    constexpr Part kParts[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    int64_t in = rounded(32 * options.width);
    Blocks blocks = {chain_of({ConvUnit(options.in, in, conv(3, 2, relu6))})};
    for (const Part& part : kParts) {
      const int64_t out = rounded(static_cast<double>(part.out) * options.width);
      for (int64_t k = 0; k < part.count; ++k, in = out)
        blocks.push_back(inverted({.window = 3,
                                   .in = in,
                                   .middle = in * part.expansion,
                                   .out = out,
                                   .stride = k == 0 ? part.stride : 1,
                                   .activation = relu6}));
    }
    const int64_t last = rounded(1280 * std::max(1.0, options.width));
    blocks.push_back(chain_of({ConvUnit(in, last, conv(1, 1, relu6))}));
    return ConvNet(std::move(blocks), {Dense(last, options.classes)}, {.dropout = 0.2});
  });
}

ConvNet mobilenet_v3(const std::string& size, const ImageOptions& options, CallSite where) {
  return make_model("mobilenet_v3", options, where, [&] {
    const bool is_large =
        published<std::string, bool>("size", size, {{"small", false}, {"large", true}});
    return is_large ? mobilenet_v3_of(kLarge, 1280, options)
                    : mobilenet_v3_of(kSmall, 1024, options);
  });
}

ConvNet efficientnet(int b, const ImageOptions& options, CallSite where) {
  return make_model("efficientnet", options, where, [&] {
    using Factors = std::pair<double, double>;  // of width and depth
    const auto [width, depth] = published<int, Factors>("B", b,
                                                        {{0, {1, 1}},
                                                         {1, {1, 1.1}},
                                                         {2, {1.1, 1.2}},
                                                         {3, {1.2, 1.4}},
                                                         {4, {1.4, 1.8}},
                                                         {5, {1.6, 2.2}},
                                                         {6, {1.8, 2.6}},
                                                         {7, {2, 3.1}},
                                                         {8, {2.2, 3.6}}});
    struct Part {
      int64_t expansion, window, stride, out, count;
    };
    constexpr Part kParts[] = {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2},
                               {6, 3, 2, 80, 3}, {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4},
                               {6, 3, 1, 320, 1}};
    const double wider = width * options.width;
    int64_t in = rounded(32 * wider);
    Blocks blocks = {chain_of({ConvUnit(options.in, in, conv(3, 2, silu))})};
    for (const Part& part : kParts) {
      const int64_t out = rounded(static_cast<double>(part.out) * wider);
      const auto count = static_cast<int64_t>(std::ceil(static_cast<double>(part.count) * depth));
      for (int64_t k = 0; k < count; ++k, in = out)
        blocks.push_back(inverted({.window = part.window,
                                   .in = in,
                                   .middle = in * part.expansion,
                                   .out = out,
                                   .stride = k == 0 ? part.stride : 1,
                                   .activation = silu,
                                   .squeezed = std::max<int64_t>(1, in / 4),
                                   .squeeze = {.activation = silu}}));
    }
    const int64_t last = rounded(1280 * wider);
    blocks.push_back(chain_of({ConvUnit(in, last, conv(1, 1, silu))}));
    return ConvNet(std::move(blocks), {Dense(last, options.classes)},
                   {.dropout = std::min(0.5, 0.2 + 0.05 * b)});
  });
}

ConvNet shufflenet_v2(const ImageOptions& options, CallSite where) {
  return make_model("shufflenet_v2", options, where, [&] {
    using Widths = std::vector<int64_t>;
    const Widths widths = published<double, Widths>("width", options.width,
                                                    {{0.5, {48, 96, 192, 1024}},
                                                     {1, {116, 232, 464, 1024}},
                                                     {1.5, {176, 352, 704, 1024}},
                                                     {2, {244, 488, 976, 2048}}});
    Blocks blocks = {
        chain_of({ConvUnit(options.in, 24, conv(3, 2, relu)), ConvUnit::max_pool(3, 2)})};
    int64_t in = 24;
    for (const int part : {0, 1, 2}) {
      const int64_t out = widths[static_cast<std::size_t>(part)];
      for (int k = 0; k < (part == 1 ? 8 : 4); ++k, in = out)
        blocks.push_back(shuffle_unit(in, out, k == 0 ? 2 : 1));
    }
    blocks.push_back(chain_of({ConvUnit(in, widths[3], conv(1, 1, relu))}));
    return ConvNet(std::move(blocks), {Dense(widths[3], options.classes)});
  });
}

}  // namespace etude::nn::models
