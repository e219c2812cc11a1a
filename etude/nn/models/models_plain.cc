// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/models/block_makers.h"

namespace etude::nn::models {
namespace {

// Without normalisation, with bias.
ConvUnitOptions biased(int64_t window, int64_t stride = 1) {
  return {.window = window, .stride = stride, .bias = true, .norm = "none", .activation = relu};
}
ConvUnitOptions normed(int64_t window, int64_t stride = 1, Activation activation = {}) {
  return {.window = window, .stride = stride, .activation = std::move(activation)};
}
ConvUnitOptions pre(int64_t window) {
  return {.window = window, .norm_first = true, .epsilon = 1e-5, .activation = relu};
}

// Two windows see the few channels of a first one. In braces, which draw their weights from left to
// right; the order of arguments in parentheses is the compiler's.
ConvBlock fire(int64_t in, int64_t squeezed, int64_t out) {
  return ConvBlock{
      {Path{ConvUnit(squeezed, out, biased(1))}, Path{ConvUnit(squeezed, out, biased(3))}},
      {.join = "concat"},
      Path{ConvUnit(in, squeezed, biased(1))}};
}

// Depthwise, then pointwise with normalisation.
void add_separable(Path& path, int64_t in, int64_t out, Activation activation = {}) {
  path.emplace_back(in, in, ConvUnitOptions{.groups = in, .norm = "none"});
  path.emplace_back(in, out, normed(1, 1, std::move(activation)));
}
void add_relu(Path& path) {
  path.push_back(ConvUnit::plain(1, {.norm = "none", .activation = relu}));
}

ConvBlock xception_down(int64_t in, int64_t middle, int64_t out, bool has_relu) {
  Path path;
  if (has_relu) add_relu(path);
  add_separable(path, in, middle, relu);
  add_separable(path, middle, out);
  path.push_back(ConvUnit::max_pool(3, 2));
  return ConvBlock({std::move(path), Path{ConvUnit(in, out, normed(1, 2))}});
}

}  // namespace

ConvNet densenet(int depth, const ImageOptions& options, CallSite where) {
  return make_model("densenet", options, where, [&] {
    using Counts = std::vector<int>;
    const Counts counts = published<int, Counts>(
        "depth", depth, {{121, {6, 12, 24, 16}}, {169, {6, 12, 32, 32}}, {201, {6, 12, 48, 32}}});
    const int64_t growth = scaled(32, options);
    int64_t in = 2 * growth;
    Blocks blocks = {
        chain_of({ConvUnit(options.in, in, normed(7, 2, relu)), ConvUnit::max_pool(3, 2)})};
    for (std::size_t part = 0; part < counts.size(); ++part) {
      for (int k = 0; k < counts[part]; ++k, in += growth) {
        Path path = Path{ConvUnit(in, 4 * growth, pre(1)), ConvUnit(4 * growth, growth, pre(3))};
        blocks.push_back(ConvBlock({std::move(path)}, {.join = "concat", .keeps_input = true}));
      }
      if (part + 1 == counts.size()) break;
      blocks.push_back(chain_of({ConvUnit(in, in / 2, pre(1)), ConvUnit::avg_pool(2, 2)}));
      in /= 2;
    }
    blocks.push_back(chain_of({ConvUnit::plain(in, normed(1, 1, relu))}));
    return ConvNet(std::move(blocks), {Dense(in, options.classes)});
  });
}

ConvNet vgg(int depth, const ImageOptions& options, int64_t image, CallSite where) {
  return make_model("vgg", options, where, [&] {
    using Counts = std::vector<int>;
    const Counts counts = published<int, Counts>("depth", depth,
                                                 {{11, {1, 1, 2, 2, 2}},
                                                  {13, {2, 2, 2, 2, 2}},
                                                  {16, {2, 2, 3, 3, 3}},
                                                  {19, {2, 2, 4, 4, 4}}});
    ETUDE_REQUIRE(image >= 32 && image % 32 == 0, "images of {} by {}; needed is a multiple of 32",
                  image, image);
    Blocks blocks;
    int64_t in = options.in, out = scaled(64, options);
    for (std::size_t part = 0; part < counts.size(); ++part) {
      Path path;
      for (int k = 0; k < counts[part]; ++k, in = out) path.emplace_back(in, out, biased(3));
      path.push_back(ConvUnit::max_pool(2, 2));
      blocks.push_back(ConvBlock({std::move(path)}));
      if (part < 3) out *= 2;
    }
    const int64_t seen = in * (image / 32) * (image / 32), hidden = scaled(4096, options);
    return ConvNet(std::move(blocks),
                   {Dense(seen, hidden, {.activation = relu}),
                    Dense(hidden, hidden, {.activation = relu}), Dense(hidden, options.classes)},
                   {.dropout = 0.5, .flattens = true});
  });
}

ConvNet squeezenet(const std::string& version, const ImageOptions& options, CallSite where) {
  return make_model("squeezenet", options, where, [&] {
    const bool is_first =
        published<std::string, bool>("version", version, {{"1.0", true}, {"1.1", false}});
    const int64_t base = scaled(16, options);
    int64_t in = is_first ? 6 * base : 4 * base;
    Blocks blocks = {chain_of(
        {ConvUnit(options.in, in, biased(is_first ? 7 : 3, 2)), ConvUnit::max_pool(3, 2)})};
    const std::vector<int> pools = is_first ? std::vector{2, 6} : std::vector{1, 3};
    constexpr int64_t kSqueezed[] = {1, 1, 2, 2, 3, 3, 4, 4};
    for (int k = 0; k < 8; ++k) {
      const int64_t squeezed = kSqueezed[k] * base;
      blocks.push_back(fire(in, squeezed, 4 * squeezed));
      in = 8 * squeezed;
      if (std::ranges::find(pools, k) != pools.end())
        blocks.push_back(chain_of({ConvUnit::max_pool(3, 2)}));
    }
    blocks.push_back(chain_of({ConvUnit(in, options.classes, biased(1))}));
    return ConvNet(std::move(blocks), {});
  });
}

ConvNet xception(const ImageOptions& options, CallSite where) {
  return make_model("xception", options, where, [&] {
    const auto wide = [&](int64_t channels) { return scaled(channels, options); };
    const int64_t middle = wide(728);
    Blocks blocks = {chain_of({ConvUnit(options.in, wide(32), normed(3, 2, relu)),
                               ConvUnit(wide(32), wide(64), normed(3, 1, relu))})};
    blocks.push_back(xception_down(wide(64), wide(128), wide(128), false));
    blocks.push_back(xception_down(wide(128), wide(256), wide(256), true));
    blocks.push_back(xception_down(wide(256), middle, middle, true));
    for (int k = 0; k < 8; ++k) {
      Path path;
      for (int part = 0; part < 3; ++part) {
        add_relu(path);
        add_separable(path, middle, middle);
      }
      blocks.push_back(ConvBlock({std::move(path)}, {.keeps_input = true}));
    }
    blocks.push_back(xception_down(middle, middle, wide(1024), true));
    Path last;
    add_separable(last, wide(1024), wide(1536), relu);
    add_separable(last, wide(1536), wide(2048), relu);
    blocks.push_back(ConvBlock({std::move(last)}));
    return ConvNet(std::move(blocks), {Dense(wide(2048), options.classes)});
  });
}

C3D::C3D(int64_t classes, CallSite where) : dropout(0.5, where) {
  int64_t in = 3;
  for (const int64_t out : {64, 128, 256, 256, 512, 512, 512, 512}) {
    convs.emplace_back(3, in, out, ConvOptions{.padding = "same", .activation = relu}, where);
    in = out;
  }
  head.emplace_back(8192, 4096, DenseOptions{.activation = relu}, where);
  head.emplace_back(4096, 4096, DenseOptions{.activation = relu}, where);
  head.emplace_back(4096, classes, DenseOptions{}, where);
}

Tensor C3D::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "C3D", where, 0, [&] {
    Tensor y = x;
    for (std::size_t i = 0; i < convs.size(); ++i) {
      y = convs[i](y, where);
      if (i == 2 || i == 4 || i == 6) continue;  // the others end a stage
      const IntList window = i == 0 ? IntList{1, 2, 2} : IntList{2, 2, 2};
      // 7 pixels of the last image become 4, as published.
      y = max_pool3d(y, window, {.strides = window, .padding = "same"});
    }
    y = flatten(y, {.start = 1});
    for (std::size_t i = 0; i < head.size(); ++i) y = head[i](i > 0 ? dropout(y, where) : y, where);
    return y;
  });
}

}  // namespace etude::nn::models
