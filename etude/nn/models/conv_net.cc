// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/models/conv_net.h"

#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/option_ranges.h"
#include "etude/ops.h"

namespace etude::nn {
namespace {

using Path = ConvBlock::Path;

// Filters [h, w, in, out] with mean 0 and variance 1 over all that an output sees: S. Qiao et al.,
// "Micro-batch training with batch-channel normalization and weight standardization" (2019).
Tensor standardized(const Tensor& filter) {
  const Tensor centred = filter - mean(filter, {.axis = {0, 1, 2}, .keepdims = true});
  return centred / sqrt(mean(square(centred), {.axis = {0, 1, 2}, .keepdims = true}) + 1e-10);
}

Tensor through(const Path& path, Tensor x, CallSite where) {
  for (const ConvUnit& unit : path) x = unit(x, where);
  return x;
}

// x as an image of shape s: each stride-th pixel, and zeros as further channels.
Tensor fitted(const Tensor& x, const Shape& s) {
  const Shape& was = x.shape();
  if (was == s) return x;
  ETUDE_REQUIRE(was[3] <= s[3],
                "the input has {} channels, but a block that adds it to its result has only {}",
                was[3], s[3]);
  const auto stride = [&](int axis) {
    return std::max<int64_t>(1, (was[axis] + s[axis] - 1) / std::max<int64_t>(s[axis], 1));
  };
  const Tensor y =
      slice(x, {0, 0, 0}, {was[0], was[1], was[2]}, {.step = {1, stride(1), stride(2)}});
  const int64_t more = s[3] - was[3];
  return pad(y, {0, 0, 0, 0, 0, 0, more / 2, more - more / 2});
}

std::vector<Tensor> halves(const Tensor& x, int64_t count) {
  const Shape& s = x.shape();
  ETUDE_REQUIRE(s[3] % count == 0, "the input has {} channels, which {} paths cannot share", s[3],
                count);
  std::vector<Tensor> parts;
  const int64_t share = s[3] / count;
  for (int64_t k = 0; k < count; ++k)
    parts.push_back(slice(x, {0, 0, 0, k * share}, {s[0], s[1], s[2], (k + 1) * share}));
  return parts;
}

// Channels 0, share, 2 share .., 1, share + 1, ..
Tensor shuffled(const Tensor& x, int64_t count) {
  const Shape& s = x.shape();
  const Tensor rows = reshape(x, {s[0], s[1], s[2], count, s[3] / count});
  return reshape(permute_dims(rows, {0, 1, 2, 4, 3}), {s[0], s[1], s[2], s[3]});
}

}  // namespace

void ConvUnit::add_norm(int64_t channels, const ConvUnitOptions& options, CallSite where) {
  etude::internal::located("ConvUnit", where, [&] {
    ETUDE_REQUIRE(options.norm == "batch" || options.norm == "group" || options.norm == "none",
                  "norm is '{}', but must be 'batch', 'group' or 'none'", options.norm);
  });
  if (options.norm == "batch")
    norm.emplace(channels,
                 BatchNormOptions{.momentum = options.momentum, .epsilon = options.epsilon}, where);
  if (options.norm == "group")
    group_norm.emplace(channels, 32, GroupNormOptions{.epsilon = options.epsilon}, where);
  norm_first_ = options.norm_first;
  activation_ = options.activation;
}

ConvUnit::ConvUnit(int64_t in, int64_t out, const ConvUnitOptions& options, CallSite where)
    : standardize_(options.standardize) {
  etude::internal::check_options("ConvUnit", options, where);
  conv.emplace(options.window, in, out,
               ConvOptions{.strides = options.stride,
                           .padding = options.padding,
                           .groups = options.groups,
                           .bias = options.bias,
                           .filter_init = he_normal},
               where);
  add_norm(options.norm_first ? in : out, options, where);
  if (options.squeezed > 0) squeeze.emplace(out, options.squeezed, options.squeeze, where);
}

ConvUnit ConvUnit::plain(int64_t channels, const ConvUnitOptions& options, CallSite where) {
  etude::internal::check_options("ConvUnit", options, where);
  ConvUnit unit;
  unit.add_norm(channels, options, where);
  return unit;
}

static void check_pool(int64_t window, int64_t stride, CallSite where) {
  etude::internal::check_options("ConvUnit", ConvUnitOptions{.window = window, .stride = stride},
                                 where);
}
ConvUnit ConvUnit::max_pool(int64_t window, int64_t stride, CallSite where) {
  check_pool(window, stride, where);
  ConvUnit unit;
  unit.pool_ = "max", unit.window_ = window, unit.stride_ = stride;
  return unit;
}
ConvUnit ConvUnit::avg_pool(int64_t window, int64_t stride, CallSite where) {
  ConvUnit unit = max_pool(window, stride, where);
  unit.pool_ = "avg";
  return unit;
}

Tensor ConvUnit::normalized(const Tensor& x, CallSite where) const {
  Tensor y = x;
  if (norm) y = (*norm)(y, where);
  if (group_norm) y = (*group_norm)(y, where);
  return activation_(y);
}

Tensor ConvUnit::convolved(const Tensor& x, CallSite where) const {
  if (!standardize_) return (*conv)(x, where);
  Conv2D same = *conv;
  same.filter = standardized(conv->filter);
  return same(x, where);
}

Tensor ConvUnit::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "ConvUnit", where, 0, [&] {
    internal::require_input(x, 4, -1, {}, "");
    Tensor y = x;
    if (norm_first_) y = normalized(y, where);
    if (conv) y = convolved(y, where);
    const IntList window = {window_, window_}, strides = {stride_, stride_};
    if (pool_ == "max") y = max_pool2d(y, window, {.strides = strides, .padding = "same"});
    if (pool_ == "avg") y = avg_pool2d(y, window, {.strides = strides, .padding = "same"});
    if (!norm_first_) y = normalized(y, where);
    return squeeze ? (*squeeze)(y, where) : y;
  });
}

ConvBlock::ConvBlock(std::vector<Path> given, ConvBlockOptions options, Path first, CallSite where)
    : before(std::move(first)), paths(std::move(given)), options_(std::move(options)) {
  etude::internal::located("ConvBlock", where, [&] {
    ETUDE_REQUIRE(options_.join == "add" || options_.join == "concat",
                  "join is '{}', but must be 'add' or 'concat'", options_.join);
    ETUDE_REQUIRE(!paths.empty(), "no path; needed is at least one");
  });
}

Tensor ConvBlock::joined(std::vector<Tensor> parts) const {
  if (options_.join == "concat") {
    const Tensor y = parts.size() == 1 ? parts[0] : concat(parts, {.axis = 3});
    return options_.shuffles ? shuffled(y, static_cast<int64_t>(parts.size())) : y;
  }
  Tensor y = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) y = y + parts[i];
  return y;
}

Tensor ConvBlock::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "ConvBlock", where, 0, [&] {
    internal::require_input(x, 4, -1, {}, "");
    const Tensor begun = through(before, x, where);
    const auto count = static_cast<int64_t>(paths.size());
    const std::vector<Tensor> shares =
        options_.splits ? halves(begun, count) : std::vector<Tensor>(paths.size(), begun);
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < paths.size(); ++i)
      parts.push_back(through(paths[i], shares[i], where));
    if (options_.keeps_input)
      parts.insert(parts.begin(), options_.join == "add" ? fitted(x, parts[0].shape()) : x);
    return options_.activation(joined(std::move(parts)));
  });
}

ConvNet::ConvNet(std::vector<ConvBlock> given, std::vector<Dense> last,
                 const ConvNetOptions& options, CallSite where)
    : blocks(std::move(given)),
      head(std::move(last)),
      dropout((etude::internal::check_options("ConvNet", options, where), options.dropout), where),
      flattens_(options.flattens) {}

Tensor ConvNet::image(const Tensor& x, CallSite where) const {
  Tensor y = x;
  for (const ConvBlock& block : blocks) y = block(y, where);
  return y;
}

Tensor ConvNet::features(const Tensor& x, CallSite where) const {
  const Tensor y = image(x, where);
  return flattens_ ? flatten(y, {.start = 1}) : mean(y, {.axis = {1, 2}});
}

Tensor ConvNet::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "ConvNet", where, 0, [&] {
    internal::require_input(x, 4, -1, {}, "");
    Tensor y = features(x, where);
    for (std::size_t i = 0; i < head.size(); ++i)
      y = head[i](i + 1 == head.size() ? dropout(y, where) : y, where);
    return y;
  });
}

}  // namespace etude::nn
