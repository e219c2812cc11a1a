// SPDX-License-Identifier: Apache-2.0
// Matrix products, convolutions and losses. Images are [n, channels, sizes...] in ONNX, and
// [n, sizes..., channels] here.
#include <algorithm>
#include <numeric>
#include <vector>

#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/windows.h"
#include "etude/ops.h"

namespace etude::onnx::importing {
namespace network {
namespace {

using Results = std::vector<Tensor>;

Results product(const NodeCall& n) { return {matmul(n.x(0), n.x(1))}; }

Results general_product(const NodeCall& n) {
  const bool transpose_x = n.integer("transA", 0) != 0, transpose_y = n.integer("transB", 0) != 0;
  n.require(n.rank(0) == 2 && n.rank(1) == 2, "its operands have {} and {} axes, but 2 are needed",
            n.rank(0), n.rank(1));
  const double alpha = n.real("alpha", 1), beta = n.real("beta", 1);
  const auto scaled = [](const Tensor& x, double by) {
    if (by == 1) return x;
    return is_floating(x.dtype()) ? x * by : as_dtype(astype(x, kFloat64) * by, x.dtype());
  };
  Tensor out = scaled(
      matmul(n.x(0), n.x(1), {.transpose_x = transpose_x, .transpose_y = transpose_y}), alpha);
  if (n.has(2) && beta != 0) out = out + scaled(n.x(2), beta);
  return {out};
}

Results einsum_of(const NodeCall& n) {
  std::string equation = n.text("equation");
  std::erase(equation, ' ');
  return {einsum(equation, n.all())};
}

// Filters are [outputs, inputs / groups, sizes...] in ONNX, and [sizes..., inputs / groups,
// outputs] here.
Tensor as_filter(const Tensor& w) {
  const int rank = w.type()->rank();
  Sizes order;
  for (int i = 2; i < rank; ++i) order.push_back(i);
  order.push_back(1);
  order.push_back(0);
  return permute_dims(w, order);
}

template <class Options>
Options options_of(const WindowPlan& plan, const Tensor& bias) {
  Options out{.strides = plan.strides,
              .padding = plan.word(),
              .explicit_padding = plan.pairs(),
              .dilations = plan.dilations};
  if (bias.has_value()) out.bias = bias;
  return out;
}

}  // namespace
}  // namespace network

Tensor convolved(const NodeCall& n, const Tensor& image, const Tensor& filter, const Tensor& bias) {
  const Shape image_shape = image.type()->shape(), shape = filter.type()->shape();
  const int rank = shape.rank();
  n.require(rank >= 3 && rank <= 5 && image_shape.rank() == rank,
            "its image has {} axes and its filter {}, but 3 to 5 are needed", image_shape.rank(),
            rank);
  const int64_t groups = n.integer("group", 1);
  n.require(groups > 0 && shape[0] % groups == 0,
            "the {} outputs of the filter are not a multiple of the {} groups", shape[0], groups);
  const Sizes filter_sizes(shape.begin() + 2, shape.end());
  const WindowPlan plan = window_plan(n, filter_sizes, image_shape);
  const Tensor x = channels_last(n, image);
  if (rank == 4 && groups > 1 && groups == image_shape[1] && shape[1] == 1) {
    // A group for each channel: [outputs, 1, sizes...] is [sizes..., channels, multiplier] here.
    const Tensor by_channel = reshape(filter, {groups, shape[0] / groups, shape[2], shape[3]});
    const auto options = network::options_of<nn::DepthwiseConv2dOptions>(plan, bias);
    return channels_first(n,
                          nn::depthwise_conv2d(x, permute_dims(by_channel, {2, 3, 0, 1}), options));
  }
  const Tensor w = network::as_filter(filter);
  const auto in_groups = [&](auto options) {
    options.groups = groups;
    return options;
  };
  Tensor y;
  if (rank == 3) {
    y = nn::conv1d(x, w, in_groups(network::options_of<nn::Conv1dOptions>(plan, bias)));
  } else if (rank == 4) {
    y = nn::conv2d(x, w, in_groups(network::options_of<nn::Conv2dOptions>(plan, bias)));
  } else {
    y = nn::conv3d(x, w, in_groups(network::options_of<nn::Conv3dOptions>(plan, bias)));
  }
  return channels_first(n, y);
}

namespace network {
namespace {

Results convolution(const NodeCall& n) {
  return {convolved(n, n.x(0), n.x(1), n.has(2) ? n.x(2) : Tensor())};
}

// The filter with zeros between its elements: [sizes..., outputs, inputs].
Tensor dilated(const Tensor& filter, const Sizes& dilations) {
  Tensor out = filter;
  for (std::size_t i = 0; i < dilations.size(); ++i) {
    if (dilations[i] == 1) continue;
    const auto axis = static_cast<int>(i);
    const Shape shape = out.type()->shape();
    const int64_t size = shape[axis];
    Sizes widths(2 * static_cast<std::size_t>(shape.rank() + 1), 0), joined = shape.to_vector();
    widths[2 * (i + 1) + 1] = dilations[i] - 1;
    joined[i] = size * dilations[i];
    Sizes start(joined.size(), 0), stop = joined;
    stop[i] = (size - 1) * dilations[i] + 1;
    out = slice(reshape(pad(expand_dims(out, axis + 1), widths), joined), start, stop);
  }
  return out;
}

Tensor transposed_full(const Tensor& x, const Tensor& filter, const Sizes& strides) {
  const std::size_t axes = strides.size();
  if (axes == 1) return nn::conv_transpose1d(x, filter, {.strides = strides});
  if (axes == 2) return nn::conv_transpose2d(x, filter, {.strides = strides});
  return nn::conv_transpose3d(x, filter, {.strides = strides});
}

// The numbers of a transposed convolution, by axis: padding removes elements at both ends, and
// output_padding adds elements at the end.
struct Transposed {
  Sizes strides, dilations, further, begin, end;
};
Transposed transposed_plan(const NodeCall& n, const Shape& image, const Sizes& window) {
  const std::size_t axes = window.size();
  Transposed out{numbers_of(n, "strides", axes, 1), numbers_of(n, "dilations", axes, 1),
                 numbers_of(n, "output_padding", axes, 0), Sizes(axes, 0), Sizes(axes, 0)};
  const std::string mode = n.text("auto_pad", "NOTSET");
  const Sizes pads = mode == "NOTSET" ? numbers_of(n, "pads", 2 * axes, 0) : Sizes(2 * axes, 0);
  const bool has_shape = n.has("output_shape");
  const Sizes sizes = n.ints("output_shape", Sizes(axes, 0));
  n.require(sizes.size() == axes || sizes.size() == axes + 2, "output_shape has {} sizes",
            sizes.size());
  for (std::size_t i = 0; i < axes; ++i) {
    const int64_t size = image[static_cast<int>(i) + 2];
    n.require(size < (int64_t{1} << 31) && window[i] < (int64_t{1} << 31),
              "the window has the size {} along an axis of size {}", window[i], size);
    const int64_t whole =
        (size - 1) * out.strides[i] + (window[i] - 1) * out.dilations[i] + 1 + out.further[i];
    if (has_shape || mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      const int64_t wanted = has_shape ? sizes[sizes.size() - axes + i] : size * out.strides[i];
      n.require(wanted >= 0 && wanted < kMaxCount, "output_shape has the size {}", wanted);
      const int64_t cut = std::max<int64_t>(whole - wanted, 0);
      out.begin[i] = mode == "SAME_LOWER" ? cut - cut / 2 : cut / 2;
      out.end[i] = whole - out.begin[i] - wanted;
    } else {
      out.begin[i] = pads[i];
      out.end[i] = pads[i + axes];
    }
  }
  return out;
}

// y with padding removed and added along the axes of the image, which follow axis 0.
Tensor fitted(const NodeCall& n, const Tensor& y, const Transposed& plan) {
  Sizes stop = y.type()->shape().to_vector(), start(stop.size(), 0), widths(2 * stop.size(), 0);
  bool adds = false, cuts = false;
  for (std::size_t i = 0; i < plan.begin.size(); ++i) {
    const int64_t after = plan.further[i] - plan.end[i];
    n.require(stop[i + 1] - plan.begin[i] + after >= 0, "its padding removes more than there is");
    widths[2 * (i + 1) + 1] = std::max<int64_t>(after, 0);
    stop[i + 1] += after;
    start[i + 1] = plan.begin[i];
    adds = adds || after > 0;
    cuts = cuts || after < 0 || plan.begin[i] > 0;
  }
  const Tensor longer = adds ? pad(y, widths) : y;
  return cuts ? slice(longer, start, stop) : longer;
}

// All elements that the filter reaches are computed, then fitted.
Results transposed_convolution(const NodeCall& n) {
  const Shape image = n.shape(0), shape = n.shape(1);
  const int rank = shape.rank();
  n.require(rank >= 3 && rank <= 5 && image.rank() == rank,
            "its image has {} axes and its filter {}, but 3 to 5 are needed", image.rank(), rank);
  const int64_t groups = n.integer("group", 1);
  n.require(groups > 0 && image[1] % groups == 0 && shape[0] == image[1] && groups <= image[1],
            "the filter has {} inputs and {} groups, but the image has {} channels", shape[0],
            groups, image[1]);
  const Transposed plan = transposed_plan(n, image, Sizes(shape.begin() + 2, shape.end()));
  std::vector<Tensor> parts;
  const Tensor x = channels_last(n, n.x(0));
  const int64_t each = image[1] / groups;
  n.importer().need_steps(n, groups);
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t begin = g * each, end = begin + each;
    const Tensor filter = groups == 1 ? n.x(1) : span_of(n.x(1), 0, begin, end);
    // [inputs, outputs, sizes...] is [sizes..., outputs, inputs] here.
    parts.push_back(transposed_full(groups == 1 ? x : span_of(x, rank - 1, begin, end),
                                    dilated(as_filter(filter), plan.dilations), plan.strides));
  }
  Tensor y = fitted(n, groups == 1 ? parts[0] : concat(parts, {.axis = -1}), plan);
  if (n.has(2)) y = y + n.x(2);
  return {channels_first(n, y)};
}

// Loss of each target, with classes on axis 1; then its reduction.
struct Targets {
  Tensor loss, weights;
};
Targets picked(const NodeCall& n, const Tensor& log_probabilities) {
  const Tensor labels = as_dtype(n.x(1), kInt64);
  const int64_t classes = log_probabilities.type()->shape()[1];
  Tensor is_kept, at = labels;
  if (n.has("ignore_index")) {
    is_kept = labels != n.integer("ignore_index");
    at = where(is_kept, labels, 0);
  }
  const Tensor picked =
      squeeze(take_along_axis(log_probabilities, expand_dims(at, 1), {.axis = 1}), 1);
  Tensor weights;
  if (n.has(2)) {
    n.require(n.rank(2) == 1 && n.shape(2)[0] == classes, "there are {} weights for {} classes",
              n.shape(2).count(), classes);
    weights = take(n.x(2), at);
  }
  if (is_kept.has_value()) {
    const Tensor kept = astype(is_kept, log_probabilities.dtype());
    weights = weights.has_value() ? weights * kept : kept;
  }
  Tensor loss = -picked;
  if (weights.has_value()) loss = loss * weights;
  if (is_kept.has_value()) loss = where(is_kept, loss, zeros_like(loss));
  return {loss, weights};
}
Tensor reduced_loss(const NodeCall& n, const Targets& targets) {
  const std::string reduction = n.text("reduction", "mean");
  n.require(reduction == "none" || reduction == "sum" || reduction == "mean",
            "the reduction is '{}', not none, sum or mean", reduction);
  if (reduction == "none") return targets.loss;
  if (reduction == "sum") return sum(targets.loss);
  return targets.weights.has_value() ? sum(targets.loss) / sum(targets.weights)
                                     : mean(targets.loss);
}
Results likelihood_loss(const NodeCall& n) {
  n.require(n.rank(0) >= 2, "its operand has {} axes, but at least 2 are needed", n.rank(0));
  return {reduced_loss(n, picked(n, n.x(0)))};
}
Results cross_entropy_loss(const NodeCall& n) {
  n.require(n.rank(0) >= 2, "its operand has {} axes, but at least 2 are needed", n.rank(0));
  const Tensor logs = nn::log_softmax(n.x(0), {.axis = 1});
  return {reduced_loss(n, picked(n, logs)), logs};
}

}  // namespace
}  // namespace network

void add_network_imports(Imports& to) {
  using namespace network;
  to.insert(to.end(),
            {{"MatMul", "A B", "", product},
             {"Gemm", "A B C?", "alpha beta transA transB broadcast", general_product},
             {"Einsum", "Inputs...", "equation", einsum_of},
             {"Conv", "X W B?", "auto_pad dilations group kernel_shape pads strides", convolution},
             {"ConvTranspose", "X W B?",
              "auto_pad dilations group kernel_shape output_padding output_shape pads strides",
              transposed_convolution},
             {"NegativeLogLikelihoodLoss", "input target weight?", "ignore_index reduction",
              likelihood_loss},
             {"SoftmaxCrossEntropyLoss", "scores labels weights?", "ignore_index reduction",
              cross_entropy_loss}});
}

}  // namespace etude::onnx::importing
