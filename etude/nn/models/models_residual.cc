// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/models/block_makers.h"

namespace etude::nn::models {
namespace {

// How many blocks each of the four parts of a network has.
using Counts = std::vector<int>;
Counts counts_of(int depth, bool bottlenecks_only) {
  const Counts small = {2, 2, 2, 2}, medium = {3, 4, 6, 3}, large = {3, 4, 23, 3},
               largest = {3, 8, 36, 3};
  if (bottlenecks_only)
    return published<int, Counts>("depth", depth, {{50, medium}, {101, large}, {152, largest}});
  return published<int, Counts>(
      "depth", depth, {{18, small}, {34, medium}, {50, medium}, {101, large}, {152, largest}});
}

// With the numbers that batch normalisation has in PyTorch.
ConvUnitOptions torch_conv(int64_t window, int64_t stride, Activation activation = {}) {
  return {.window = window,
          .stride = stride,
          .epsilon = 1e-5,
          .momentum = 0.9,
          .activation = std::move(activation)};
}

// Normalisation, activation, convolution.
ConvUnitOptions pre(int64_t window, int64_t stride) {
  ConvUnitOptions options = torch_conv(window, stride, relu);
  options.norm_first = true;
  return options;
}
ConvUnitOptions bare(ConvUnitOptions options) {
  options.norm = "none";
  options.activation = {};
  return options;
}

ConvBlock stem(int64_t in, int64_t out, const ConvUnitOptions& options) {
  return chain_of({ConvUnit(in, out, options), ConvUnit::max_pool(3, 2)});
}

// Convolutions of 3 by 3, or with a narrow middle, added to x or its projection.
ConvBlock residual(int64_t in, int64_t middle, int64_t out, int64_t stride, bool has_bottleneck) {
  Path path = has_bottleneck ? Path{ConvUnit(in, middle, torch_conv(1, 1, relu)),
                                    ConvUnit(middle, middle, torch_conv(3, stride, relu)),
                                    ConvUnit(middle, out, torch_conv(1, 1))}
                             : Path{ConvUnit(in, out, torch_conv(3, stride, relu)),
                                    ConvUnit(out, out, torch_conv(3, 1))};
  if (in == out && stride == 1)
    return ConvBlock({std::move(path)}, {.keeps_input = true, .activation = relu});
  return ConvBlock({std::move(path), Path{ConvUnit(in, out, torch_conv(1, stride))}},
                   {.activation = relu});
}

// How the networks with normalisation in front differ.
struct PreStyle {
  bool bias = false;         // of the projection, the last convolution and the stem
  bool inner_first = false;  // the inner convolutions too come after their normalisation
  std::string norm = "batch";
  bool standardize = false;

  ConvUnitOptions of(ConvUnitOptions options, bool with_bias = false) const {
    options.bias = with_bias && bias;
    if (options.norm != "none") options.norm = norm;
    options.standardize = standardize;
    return options;
  }
};

ConvBlock pre_bottleneck(int64_t in, int64_t middle, int64_t out, int64_t stride,
                         const PreStyle& style) {
  Path path;
  if (style.inner_first) {
    path = Path{ConvUnit(in, middle, style.of(bare(torch_conv(1, 1)))),
                ConvUnit(middle, middle, style.of(pre(3, stride))),
                ConvUnit(middle, out, style.of(pre(1, 1)))};
  } else {
    path = Path{ConvUnit(in, middle, style.of(torch_conv(1, 1, relu))),
                ConvUnit(middle, middle, style.of(torch_conv(3, stride, relu))),
                ConvUnit(middle, out, style.of(bare(torch_conv(1, 1)), true))};
  }
  Path before = Path{ConvUnit::plain(in, style.of(torch_conv(1, 1, relu)))};
  if (in == out && stride == 1)
    return ConvBlock({std::move(path)}, {.keeps_input = true}, std::move(before));
  Path projection = Path{ConvUnit(in, out, style.of(bare(torch_conv(1, stride)), true))};
  return ConvBlock({std::move(path), std::move(projection)}, {}, std::move(before));
}

ConvNet pre_resnet(int depth, const ImageOptions& options, const PreStyle& style) {
  const int64_t base = scaled(64, options);
  Blocks blocks = {stem(options.in, base, style.of(bare(torch_conv(7, 2)), true))};
  int64_t in = base, middle = base;
  for (const int count : counts_of(depth, true)) {
    for (int k = 0; k < count; ++k, in = 4 * middle)
      blocks.push_back(
          pre_bottleneck(in, middle, 4 * middle, k == 0 && middle > base ? 2 : 1, style));
    middle *= 2;
  }
  blocks.push_back(chain_of({ConvUnit::plain(in, style.of(torch_conv(1, 1, relu)))}));
  return ConvNet(std::move(blocks), {Dense(in, options.classes)});
}

}  // namespace

ConvNet resnet(int depth, const ImageOptions& options, int64_t inner, CallSite where) {
  return make_model("resnet", options, where, [&] {
    const int64_t base = scaled(64, options);
    const Counts counts = counts_of(depth, inner != 1);
    const bool has_bottleneck = depth >= 50;
    Blocks blocks = {stem(options.in, base, torch_conv(7, 2, relu))};
    int64_t in = base, width = base;
    for (const int count : counts) {
      const int64_t out = has_bottleneck ? 4 * width : width;
      for (int k = 0; k < count; ++k, in = out)
        blocks.push_back(
            residual(in, width * inner, out, k == 0 && width > base ? 2 : 1, has_bottleneck));
      width *= 2;
    }
    return ConvNet(std::move(blocks), {Dense(in, options.classes)});
  });
}

ConvNet resnet_cifar(int depth, const ImageOptions& options, CallSite where) {
  return make_model("resnet_cifar", options, where, [&] {
    ETUDE_REQUIRE(depth >= 8 && depth % 6 == 2, "the depth {}; needed is 6 n + 2, such as 56",
                  depth);
    const int64_t base = scaled(16, options);
    Blocks blocks = {chain_of({ConvUnit(options.in, base, torch_conv(3, 1, relu))})};
    int64_t in = base;
    for (const int64_t out : {base, 2 * base, 4 * base}) {
      for (int k = 0; k < depth / 6; ++k, in = out) {
        blocks.push_back(residual(in, out, out, in == out ? 1 : 2, false));
      }
    }
    return ConvNet(std::move(blocks), {Dense(in, options.classes)});
  });
}

ConvNet wide_resnet_cifar(int depth, int64_t widen, const ImageOptions& options, CallSite where) {
  return make_model("wide_resnet_cifar", options, where, [&] {
    ETUDE_REQUIRE(depth >= 10 && depth % 6 == 4 && widen >= 1,
                  "the depth {} and {} times the width; needed are a depth of 6 n + 4, such as 28, "
                  "and a width of at least 1",
                  depth, widen);
    const int64_t base = scaled(16, options);
    Blocks blocks = {chain_of({ConvUnit(options.in, base, bare(torch_conv(3, 1)))})};
    int64_t in = base;
    for (const int64_t out : {base * widen, 2 * base * widen, 4 * base * widen}) {
      for (int k = 0; k < depth / 6; ++k, in = out) {
        const int64_t stride = k == 0 && out > base * widen ? 2 : 1;
        Path path =
            Path{ConvUnit(in, out, bare(torch_conv(3, stride))), ConvUnit(out, out, pre(3, 1))};
        Path before = Path{ConvUnit::plain(in, torch_conv(1, 1, relu))};
        if (in == out && stride == 1) {
          blocks.push_back(ConvBlock({std::move(path)}, {.keeps_input = true}, std::move(before)));
        } else {
          Path projection = Path{ConvUnit(in, out, bare(torch_conv(1, stride)))};
          blocks.push_back(
              ConvBlock({std::move(path), std::move(projection)}, {}, std::move(before)));
        }
      }
    }
    blocks.push_back(chain_of({ConvUnit::plain(in, torch_conv(1, 1, relu))}));
    return ConvNet(std::move(blocks), {Dense(in, options.classes)});
  });
}

ConvNet resnet_v2(int depth, const ImageOptions& options, CallSite where) {
  return make_model("resnet_v2", options, where,
                    [&] { return pre_resnet(depth, options, {.bias = true}); });
}

ConvNet big_transfer(int depth, const ImageOptions& options, CallSite where) {
  return make_model("big_transfer", options, where, [&] {
    return pre_resnet(depth, options, {.inner_first = true, .norm = "group", .standardize = true});
  });
}

}  // namespace etude::nn::models
