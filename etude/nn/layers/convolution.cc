// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers/convolution.h"

#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call/run.h"
#include "etude/nn/layers/families.h"
#include "etude/ops.h"

namespace etude::nn {
namespace {

using etude::internal::op;
using etude::internal::run;
using internal::name_of;
using Sizes = std::vector<int64_t>;

void require_channels(int64_t in, int64_t out) {
  ETUDE_REQUIRE(in >= 1 && out >= 1, "{} input and {} output channels; both must be at least 1", in,
                out);
}

void require_axes(const IntList& list, int axes, const char* what) {
  static_cast<void>(internal::sizes_of(list, axes, what, 0));
}

Shape joined(Sizes window, int64_t a, int64_t b) {
  window.push_back(a);
  window.push_back(b);
  return window;
}

internal::ConvSettings settings_of(const ConvOptions& options, int axes) {
  require_axes(options.strides, axes, "strides");
  require_axes(options.dilations, axes, "dilations");
  internal::ConvSettings s;
  s.strides = options.strides, s.explicit_padding = options.explicit_padding;
  s.dilations = options.dilations, s.padding = options.padding;
  s.groups = options.groups, s.activation = options.activation;
  return s;
}

template <int axes>
const Op& conv_op() {
  return axes == 1 ? op<"conv1d">() : axes == 2 ? op<"conv2d">() : op<"conv3d">();
}

}  // namespace

namespace internal {

std::vector<int64_t> sizes_of(const IntList& list, int axes, const char* what, int64_t least) {
  Sizes sizes = list.values();
  const auto count = static_cast<std::size_t>(axes);
  if (sizes.size() == 1) sizes.resize(count, sizes[0]);
  ETUDE_REQUIRE(sizes.size() == count, "{} has {} sizes, but needs {}", what, sizes.size(),
                axes == 1 ? "one" : fmt::format("one, or {}", axes));
  ETUDE_REQUIRE(std::ranges::min(sizes) >= least, "{} has the size {}, but needs at least {}", what,
                std::ranges::min(sizes), least);
  return sizes;
}

}  // namespace internal

template <int axes>
Conv<axes>::Conv(const IntList& window, int64_t in, int64_t out, const ConvOptions& options,
                 CallSite where) {
  const char* name = name_of<axes>("Conv1D", "Conv2D", "Conv3D");
  etude::internal::check_options(name, options, where);
  etude::internal::located(name, where, [&] {
    require_channels(in, out);
    ETUDE_REQUIRE(in % options.groups == 0 && out % options.groups == 0,
                  "{} groups must divide {} input and {} output channels", options.groups, in, out);
    settings_ = settings_of(options, axes);
    filter = options.filter_init(
        joined(internal::sizes_of(window, axes, "the window"), in / options.groups, out));
    if (options.bias) bias = options.bias_init({out});
  });
}

template <int axes>
Tensor Conv<axes>::operator()(const Tensor& x, CallSite where) const {
  const int64_t flops = 2 * filter.size() / std::max<int64_t>(filter.shape()[axes + 1], 1);
  return internal::run_layer(this, name_of<axes>("Conv1D", "Conv2D", "Conv3D"), where, flops, [&] {
    internal::require_input(x, axes + 2, filter.shape()[axes] * settings_.groups, filter, "filter");
    return settings_.activation(
        run(conv_op<axes>(), {&x, &filter, &bias},
            {settings_.strides, settings_.padding, settings_.explicit_padding, settings_.dilations,
             settings_.groups},
            where));
  });
}

template <int axes>
TransposedConv<axes>::TransposedConv(const IntList& window, int64_t in, int64_t out,
                                     const TransposedConvOptions& options, CallSite where)
    : strides_(options.strides),
      output_padding_(options.output_padding),
      padding_(options.padding),
      activation_(options.activation) {
  const char* name = name_of<axes>("TransposedConv1D", "TransposedConv2D", "TransposedConv3D");
  etude::internal::check_options(name, options, where);
  etude::internal::located(name, where, [&] {
    require_channels(in, out);
    require_axes(strides_, axes, "strides");
    require_axes(output_padding_, axes, "output_padding");
    filter = options.filter_init(joined(internal::sizes_of(window, axes, "the window"), out, in));
    if (options.bias) bias = options.bias_init({out});
  });
}

template <int axes>
Tensor TransposedConv<axes>::operator()(const Tensor& x, CallSite where) const {
  const char* name = name_of<axes>("TransposedConv1D", "TransposedConv2D", "TransposedConv3D");
  // Each pixel of x is multiplied with the whole filter: counted by the elements of the result.
  int64_t steps = 1;
  for (const int64_t stride : internal::sizes_of(strides_, axes, "strides")) steps *= stride;
  const int64_t flops = 2 * filter.size() / std::max<int64_t>(filter.shape()[axes] * steps, 1);
  return internal::run_layer(this, name, where, flops, [&] {
    internal::require_input(x, axes + 2, filter.shape()[axes + 1], filter, "filter");
    const Op& transpose = axes == 1   ? op<"conv_transpose1d">()
                          : axes == 2 ? op<"conv_transpose2d">()
                                      : op<"conv_transpose3d">();
    return activation_(
        run(transpose, {&x, &filter, &bias}, {strides_, padding_, output_padding_}, where));
  });
}

DepthwiseConv2D::DepthwiseConv2D(const IntList& window, int64_t in, int64_t multiplier,
                                 const ConvOptions& options, CallSite where) {
  etude::internal::check_options("DepthwiseConv2D", options, where);
  etude::internal::located("DepthwiseConv2D", where, [&] {
    require_channels(in, multiplier);
    ETUDE_REQUIRE(options.groups == 1,
                  "groups is {}, but the groups are the channels. Leave it out", options.groups);
    settings_ = settings_of(options, 2);
    filter =
        options.filter_init(joined(internal::sizes_of(window, 2, "the window"), in, multiplier));
    if (options.bias) bias = options.bias_init({in * multiplier});
  });
}

Tensor DepthwiseConv2D::operator()(const Tensor& x, CallSite where) const {
  const int64_t flops = 2 * filter.shape()[0] * filter.shape()[1];
  return internal::run_layer(this, "DepthwiseConv2D", where, flops, [&] {
    internal::require_input(x, 4, filter.shape()[2], filter, "filter");
    return settings_.activation(depthwise_conv2d({x, where}, filter,
                                                 {.strides = settings_.strides,
                                                  .padding = settings_.padding,
                                                  .explicit_padding = settings_.explicit_padding,
                                                  .dilations = settings_.dilations,
                                                  .bias = bias}));
  });
}

template <int axes>
SeparableConv<axes>::SeparableConv(const IntList& window, int64_t in, int64_t out,
                                   const SeparableConvOptions& options, CallSite where) {
  const char* name = name_of<axes>("SeparableConv1D", "SeparableConv2D", "");
  etude::internal::check_options(name, options, where);
  etude::internal::located(name, where, [&] {
    require_channels(in, out);
    settings_ = settings_of({.strides = options.strides,
                             .padding = options.padding,
                             .dilations = options.dilations,
                             .activation = options.activation},
                            axes);
    depthwise = options.depthwise_init(
        joined(internal::sizes_of(window, axes, "the window"), in, options.multiplier));
    pointwise = options.pointwise_init(joined(Sizes(axes, 1), in * options.multiplier, out));
    if (options.bias) bias = options.bias_init({out});
  });
}

template <int axes>
Tensor SeparableConv<axes>::operator()(const Tensor& x, CallSite where) const {
  const char* name = name_of<axes>("SeparableConv1D", "SeparableConv2D", "");
  const Shape& f = depthwise.shape();
  const int64_t inner = f[axes] * f[axes + 1], out = pointwise.shape()[axes + 1];
  const int64_t flops = 2 * inner + 2 * depthwise.size() / std::max<int64_t>(out, 1);
  return internal::run_layer(this, name, where, flops, [&] {
    internal::require_input(x, axes + 2, f[axes], depthwise, "depthwise filter");
    const bool is_flat = axes == 1;  // then it runs as an image of height 1
    const auto tall = [&](const Tensor& t, int at) { return is_flat ? expand_dims(t, {at}) : t; };
    const auto with_one = [&](const IntList& list) {
      return is_flat ? IntList{1, list.values()[0]} : list;
    };
    const Tensor each = depthwise_conv2d({tall(x, 1), where}, tall(depthwise, 0),
                                         {.strides = with_one(settings_.strides),
                                          .padding = settings_.padding,
                                          .dilations = with_one(settings_.dilations)});
    const Tensor y = conv2d({each, where}, tall(pointwise, 0), {.bias = bias});
    return settings_.activation(is_flat ? squeeze(y, {1}) : y);
  });
}

template <int axes>
LocallyConnected<axes>::LocallyConnected(const IntList& image, const IntList& window, int64_t in,
                                         int64_t out, const LocalOptions& options, CallSite where)
    : activation_(options.activation) {
  const char* name = name_of<axes>("LocallyConnected1D", "LocallyConnected2D", "");
  etude::internal::check_options(name, options, where);
  etude::internal::located(name, where, [&] {
    require_channels(in, out);
    image_ = internal::sizes_of(image, axes, "the image");
    window_ = internal::sizes_of(window, axes, "the window");
    strides_ = internal::sizes_of(options.strides, axes, "strides");
    int64_t places = 1, depth = in;
    for (std::size_t i = 0; i < image_.size(); ++i) {
      ETUDE_REQUIRE(window_[i] <= image_[i], "the window has the size {}, but the image only {}",
                    window_[i], image_[i]);
      places_.push_back((image_[i] - window_[i]) / strides_[i] + 1);
      places *= places_[i];
      depth *= window_[i];
    }
    filter = options.filter_init({places, depth, out});
    if (options.bias) bias = options.bias_init({places, out});
  });
}

template <int axes>
Tensor LocallyConnected<axes>::operator()(const Tensor& x, CallSite where) const {
  const char* name = name_of<axes>("LocallyConnected1D", "LocallyConnected2D", "");
  const Shape& f = filter.shape();
  return internal::run_layer(this, name, where, 2 * f[1], [&] {
    int64_t taps = 1;
    Sizes shape{x.rank() > 0 ? x.shape()[0] : 0};
    for (std::size_t i = 0; i < image_.size(); ++i) {
      taps *= window_[i];
      shape.push_back(image_[i]);
    }
    shape.push_back(f[1] / taps);
    internal::require_input(x, axes + 2, shape.back(), filter, "filter");
    ETUDE_REQUIRE(x.shape() == Shape(shape),
                  "the input has shape {}, but the layer was made for {}", x.shape().to_string(),
                  Shape(shape).to_string());
    // The pixels of each tap; then one product for each place.
    std::vector<Tensor> seen;
    for (int64_t tap = 0; tap < taps; ++tap) {
      Sizes start(1, 0), stop(1, shape[0]), step(1, 1);
      int64_t rest = tap;
      for (std::size_t i = image_.size(); i-- > 0; rest /= window_[i]) {
        start.insert(start.begin() + 1, rest % window_[i]);
        stop.insert(stop.begin() + 1, start[1] + (places_[i] - 1) * strides_[i] + 1);
        step.insert(step.begin() + 1, strides_[i]);
      }
      seen.push_back(slice({x, where}, start, stop, {.step = step}));
    }
    const Tensor rows = reshape(concat(seen, {.axis = -1}), {shape[0], f[0], f[1]});
    Tensor y = swapaxes(matmul(swapaxes(rows, 0, 1), filter), 0, 1);
    if (bias.has_value()) y = y + bias;
    for (std::size_t i = 0; i < image_.size(); ++i) shape[i + 1] = places_[i];
    shape.back() = f[2];
    return activation_(reshape(y, shape));
  });
}

template class LocallyConnected<1>;
template class LocallyConnected<2>;
template class Conv<1>;
template class Conv<2>;
template class Conv<3>;
template class TransposedConv<1>;
template class TransposedConv<2>;
template class TransposedConv<3>;
template class SeparableConv<1>;
template class SeparableConv<2>;

}  // namespace etude::nn
