// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers/blocks.h"

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/option_ranges.h"
#include "etude/ops.h"

namespace etude::nn {
namespace {

const ResidualOptions& checked(int64_t in, int64_t out, const ResidualOptions& options,
                               CallSite where) {
  etude::internal::check_options("ResidualBlock", options, where);
  etude::internal::located("ResidualBlock", where, [&] {
    ETUDE_REQUIRE(options.shortcut == "projection" || options.shortcut == "padding",
                  "shortcut is '{}', but must be 'projection' or 'padding'", options.shortcut);
    ETUDE_REQUIRE(options.shortcut != "padding" || in <= out,
                  "a shortcut by padding goes to no fewer channels, but these are {} and {}", in,
                  out);
  });
  return options;
}

// Without bias, since a normalisation follows.
Conv2D conv_of(int64_t window, int64_t in, int64_t out, int64_t stride, CallSite where) {
  return Conv2D(window, in, out,
                {.strides = stride, .padding = "same", .bias = false, .filter_init = he_normal},
                where);
}

int64_t channels_of(const Tensor& filter) { return filter.shape()[3]; }

Activation or_else(const Activation& given, const Activation& unless) {
  return given.is_empty() ? unless : given;
}

std::vector<int64_t> checked_sizes(const IntList& sizes, CallSite where) {
  return etude::internal::located("MLP", where, [&] {
    ETUDE_REQUIRE(sizes.values().size() >= 2, "{} sizes; needed are two at least",
                  sizes.values().size());
    return sizes.values();
  });
}

}  // namespace

ResidualBlock::ResidualBlock(int64_t in, int64_t out, const ResidualOptions& options,
                             CallSite where)
    : conv1(conv_of(3, in, out, checked(in, out, options, where).stride, where)),
      norm1(out, {}, where),
      conv2(conv_of(3, out, out, 1, where)),
      norm2(out, {}, where),
      stride_(options.stride) {
  if (options.shortcut == "projection" && (options.stride > 1 || in != out)) {
    shortcut.emplace(conv_of(1, in, out, options.stride, where));
    shortcut_norm.emplace(out, BatchNormOptions{}, where);
  }
}

Tensor ResidualBlock::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "ResidualBlock", where, 0, [&] {
    const Tensor inner = relu(norm1(conv1(x, where), where));
    Tensor beside = x;
    if (shortcut) {
      beside = (*shortcut_norm)((*shortcut)(x, where), where);
    } else {
      const Shape& s = x.shape();
      const int64_t more = channels_of(conv1.filter) - s[3];
      if (stride_ > 1)
        beside = slice(beside, {0, 0, 0}, {s[0], s[1], s[2]}, {.step = {1, stride_, stride_}});
      if (more > 0) beside = pad(beside, {0, 0, 0, 0, 0, 0, more / 2, more - more / 2});
    }
    return relu(norm2(conv2(inner, where), where) + beside);
  });
}

MLP::MLP(const IntList& sizes, const MLPOptions& options, CallSite where)
    : dropout((etude::internal::check_options("MLP", options, where), options.dropout), where) {
  const std::vector<int64_t> all = checked_sizes(sizes, where);
  const Activation between = or_else(options.activation, relu);
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    const bool is_last = i + 2 == all.size();
    layers.emplace_back(all[i], all[i + 1],
                        DenseOptions{.activation = is_last ? options.last : between}, where);
  }
}

Tensor MLP::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "MLP", where, 0, [&] {
    Tensor y = x;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      y = layers[i](y, where);
      if (i + 1 < layers.size()) y = dropout(y, where);
    }
    return y;
  });
}

SqueezeExcite::SqueezeExcite(int64_t channels, int64_t squeezed,
                             const SqueezeExciteOptions& options, CallSite where)
    : squeeze(channels, squeezed, {.activation = or_else(options.activation, relu)}, where),
      excite(squeezed, channels, {.activation = or_else(options.gate, sigmoid)}, where) {}

Tensor SqueezeExcite::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "SqueezeExcite", where, 1, [&] {
    internal::require_input(x, -3, squeeze.weight.shape()[0], squeeze.weight, "squeeze weight");
    std::vector<int64_t> inner;
    for (int axis = 1; axis + 1 < x.rank(); ++axis) inner.push_back(axis);
    const Tensor mean_of = mean(x, {.axis = inner});
    return x * expand_dims(excite(squeeze(mean_of, where), where), inner);
  });
}

InvertedResidual::InvertedResidual(int64_t in, int64_t out, const InvertedResidualOptions& options,
                                   CallSite where)
    : depthwise((etude::internal::check_options("InvertedResidual", options, where), 3),
                in * options.expansion, 1,
                {.strides = options.stride, .padding = "same", .bias = false}, where),
      depthwise_norm(in * options.expansion, {}, where),
      project(conv_of(1, in * options.expansion, out, 1, where)),
      project_norm(out, {}, where),
      adds_(options.stride == 1 && in == out) {
  if (options.expansion > 1) {
    expand.emplace(conv_of(1, in, in * options.expansion, 1, where));
    expand_norm.emplace(in * options.expansion, BatchNormOptions{}, where);
  }
  if (options.squeezed > 0)
    squeeze.emplace(in * options.expansion, options.squeezed, SqueezeExciteOptions{}, where);
}

Tensor InvertedResidual::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "InvertedResidual", where, 0, [&] {
    Tensor y = x;
    if (expand) y = relu6((*expand_norm)((*expand)(y, where), where));
    y = relu6(depthwise_norm(depthwise(y, where), where));
    if (squeeze) y = (*squeeze)(y, where);
    y = project_norm(project(y, where), where);
    return adds_ ? x + y : y;
  });
}

PatchEmbedding::PatchEmbedding(int64_t patch, int64_t in, int64_t dim, CallSite where)
    : projection(patch, in, dim, {.strides = patch}, where) {}

Tensor PatchEmbedding::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "PatchEmbedding", where, 0, [&] {
    internal::require_input(x, 4, projection.filter.shape()[2], projection.filter, "filter");
    const int64_t patch = projection.filter.shape()[0];
    ETUDE_REQUIRE(x.shape()[1] % patch == 0 && x.shape()[2] % patch == 0,
                  "the input has shape {}, whose height and width are no multiples of the patch {}",
                  x.shape().to_string(), patch);
    const Tensor y = projection(x, where);
    const Shape& s = y.shape();
    return reshape(y, {s[0], s[1] * s[2], s[3]});
  });
}

}  // namespace etude::nn
