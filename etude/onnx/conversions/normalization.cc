// SPDX-License-Identifier: Apache-2.0
// Normalisation of rows, columns, channels and groups.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "etude/onnx/conversions.h"
#include "etude/onnx/write.h"

namespace etude::onnx::internal {
namespace {

Term mean_over(const Term& x, const std::vector<int64_t>& axes, bool keeps_axes = true) {
  Call& call = *x.call;
  const int64_t keepdims = keeps_axes ? 1 : 0;
  if (call.opset() >= 18) {
    return call.node("ReduceMean", {x, call.ints(axes)}, {{"keepdims", keepdims}});
  }
  return call.node("ReduceMean", {x}, {{"axes", axes}, {"keepdims", keepdims}});
}

// (x - mean) / sqrt(variance + epsilon); absent factors and terms leave it as it is.
Term normalised(const Term& x, const Term& mean, const Term& variance, double epsilon,
                const Term& scale, const Term& offset) {
  Term out = (x - mean) / apply("Sqrt", variance + epsilon);
  if (!scale.is_absent()) out = out * scale;
  if (!offset.is_absent()) out = out + offset;
  return out;
}

// The scale, or ones of the sizes from an axis on.
Term scale_or_ones(Call& call, const Term& x, int first) {
  if (call.has(1)) return call.in(1);
  std::vector<int64_t> sizes;
  for (int axis = first; axis < call.rank(0); ++axis) sizes.push_back(call.shape(0)[axis]);
  return call.node("Expand", {call.number(1, x.dtype), call.ints(sizes)});
}

std::vector<Term> standardize(Call& call) {
  const std::vector<int64_t> axes = {call.attrs.flag("columns") ? 0 : 1};
  const Term x = call.in(0);
  const Term mean = mean_over(x, axes), gap = x - mean;
  const Term variance = mean_over(gap * gap, axes);
  const double epsilon = call.attrs.real("epsilon");
  Term y;
  if (call.attrs.flag("columns")) {
    y = normalised(x, mean, variance, epsilon, call.in(1), call.in(2));
  } else {
    y = call.node("LayerNormalization", {x, scale_or_ones(call, x, 1), call.in(2)},
                  {{"axis", int64_t{1}}, {"epsilon", epsilon}});
  }
  const auto flat = [&](const Term& t) {
    return call.reshape(t, call.result(1).shape().to_vector());
  };
  return {y, flat(mean), flat(variance)};
}

// Groups of adjacent features of [examples, rows, features].
std::vector<Term> standardize_groups(Call& call) {
  const std::vector<int64_t> sizes = call.shape(0).to_vector();
  const int64_t groups = call.attrs.integer("groups");
  const std::vector<int64_t> split = {sizes[0], sizes[1], groups, sizes[2] / groups};
  const Term x = call.reshape(call.in(0), split);
  const Term mean = mean_over(x, {1, 3}), gap = x - mean;
  const Term variance = mean_over(gap * gap, {1, 3});
  Term y = call.reshape(normalised(x, mean, variance, call.attrs.real("epsilon"), {}, {}), sizes);
  if (call.has(1)) y = y * call.in(1);
  if (call.has(2)) y = y + call.in(2);
  return {y};
}

// Over trailing axes, all of them in `axes`, with a scale of their shape.
bool is_layer_norm(const CallFacts& call) {
  const int rank = call.shape(0).rank();
  std::vector<int64_t> axes = axes_from_front(call.attrs.ints("axes"), rank);
  std::sort(axes.begin(), axes.end());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != rank - static_cast<int64_t>(axes.size() - i)) return false;
  }
  for (const std::size_t i : {1, 2}) {
    if (!call.has(i)) continue;
    if (call.shape(i).rank() != static_cast<int>(axes.size())) return false;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      const auto axis = static_cast<int>(axes[a]);
      if (call.shape(i)[static_cast<int>(a)] != call.shape(0)[axis]) return false;
    }
  }
  return !axes.empty();
}
std::vector<Term> layer_normalize(Call& call) {
  const Shape& shape = call.shape(0);
  const auto count = static_cast<int>(call.attrs.ints("axes").size());
  const Term x = call.in(0), scale = scale_or_ones(call, x, shape.rank() - count);
  return {call.node(
      "LayerNormalization", {x, scale, call.in(2)},
      {{"axis", int64_t{shape.rank() - count}}, {"epsilon", call.attrs.real("epsilon")}})};
}

// The orders of axes that move the channels to axis 1, where the operators have them, and back.
struct ChannelOrders {
  explicit ChannelOrders(Call& call) : back(static_cast<std::size_t>(call.rank(0))) {
    const int rank = call.rank(0);
    const int64_t axis = axis_from_front(call.attrs.integer("axis"), rank);
    to = {0, axis};
    for (int i = 1; i < rank; ++i) {
      if (i != axis) to.push_back(i);
    }
    for (std::size_t i = 0; i < to.size(); ++i) {
      back[static_cast<std::size_t>(to[i])] = static_cast<int64_t>(i);
    }
  }
  std::vector<int64_t> to, back;
};

std::vector<Term> batch_normalize(Call& call) {
  const ChannelOrders orders(call);
  const Term x = call.transpose(call.in(0), orders.to);
  const Term y =
      call.node("BatchNormalization", {x, call.in(4), call.in(3), call.in(1), call.in(2)},
                {{"epsilon", call.attrs.real("epsilon")}});
  return {call.transpose(y, orders.back)};
}
bool is_batch_norm(const CallFacts& call) {
  const int rank = call.shape(0).rank();
  if (rank < 2 || axis_from_front(call.attrs.integer("axis"), rank) == 0) return false;
  for (std::size_t i = 1; i < 5; ++i) {
    if (!call.has(i) || call.shape(i).rank() != 1) return false;
  }
  return true;
}

// Scale or offset of the channels on an axis, or a number for all of them.
Term by_channel(Call& call, std::size_t i, double otherwise) {
  if (call.has(i)) return call.in(i);
  const auto axis = static_cast<int>(axis_from_front(call.attrs.integer("axis"), call.rank(0)));
  const DType dtype = call.in(0).dtype;
  return call.node("Expand", {call.number(otherwise, dtype), call.ints({call.shape(0)[axis]})});
}
bool is_on_last_axis(const CallFacts& call) {
  const int rank = call.shape(0).rank();
  return axis_from_front(call.attrs.integer("axis"), rank) == rank - 1;
}
// The operators need an axis after the channels.
bool has_inner_axes(const CallFacts& call) { return call.shape(0).rank() >= 3; }
bool is_image(const CallFacts& call) { return has_inner_axes(call) && is_on_last_axis(call); }

std::vector<Term> instance_normalize(Call& call) {
  const ChannelOrders orders(call);
  const Term x = call.transpose(call.in(0), orders.to);
  const Term y =
      call.node("InstanceNormalization", {x, by_channel(call, 1, 1), by_channel(call, 2, 0)},
                {{"epsilon", call.attrs.real("epsilon")}});
  return {call.transpose(y, orders.back)};
}

// The operator computes in float32 unless an attribute states another dtype.
std::vector<Term> group_normalize(Call& call) {
  const ChannelOrders orders(call);
  const Term x = call.transpose(call.in(0), orders.to);
  std::vector<Attribute> attributes = {{"num_groups", call.attrs.integer("groups")},
                                       {"epsilon", call.attrs.real("epsilon")}};
  if (x.dtype == kFloat64) attributes.push_back({"stash_type", type_number(kFloat64)});
  const Term y = call.node("GroupNormalization",
                           {x, by_channel(call, 1, 1), by_channel(call, 2, 0)}, attributes);
  return {call.transpose(y, orders.back)};
}

// Before opset 21 each group is a channel of InstanceNormalization.
std::vector<Term> group_normalize_by_instances(Call& call) {
  const ChannelOrders orders(call);
  const int64_t groups = call.attrs.integer("groups");
  std::vector<int64_t> sizes;
  int64_t each = 1;
  for (const int64_t axis : orders.to) sizes.push_back(call.shape(0)[static_cast<int>(axis)]);
  for (std::size_t i = 1; i < sizes.size(); ++i) each *= sizes[i];
  const Term x = call.transpose(call.in(0), orders.to);
  const Term rows = call.reshape(x, {sizes[0], groups, each / groups});
  call.need_bytes(2, groups, x.dtype);
  const auto numbers = [&](float value) {
    return call.constant(Tensor(std::vector<float>(static_cast<std::size_t>(groups), value)));
  };
  const Term unit = call.node("InstanceNormalization", {rows, numbers(1), numbers(0)},
                              {{"epsilon", call.attrs.real("epsilon")}});
  Term y = call.transpose(call.reshape(unit, sizes), orders.back);
  const int64_t axis = axis_from_front(call.attrs.integer("axis"), call.rank(0));
  std::vector<int64_t> along(static_cast<std::size_t>(call.rank(0) - axis), 1);
  along[0] = sizes[1];
  const auto channels = [&](std::size_t i) {
    return along.size() == 1 ? call.in(i) : call.reshape(call.in(i), along);
  };
  if (call.has(1)) y = y * channels(1);
  if (call.has(2)) y = y + channels(2);
  return {y};
}

}  // namespace

void add_normalization_conversions(Conversions& to) {
  constexpr DTypeSet kFloats = kHalfToDouble, kFull = DTypeSet(kFloat32) | kFloat64;
  to.insert(
      to.end(),
      {{.op = "internal.standardize", .dtypes = kFull, .write = standardize, .is_formula = true},
       {.op = "internal.standardize_groups",
        .dtypes = kFull,
        .write = standardize_groups,
        .is_formula = true},
       {.op = "nn.layer_normalize",
        .dtypes = kFull,
        .write = layer_normalize,
        .fits = is_layer_norm},
       {.op = "nn.batch_normalize",
        .dtypes = kFloats,
        .write = batch_normalize,
        .fits = is_batch_norm},
       // An import has channels on the last axis; the metadata of a formula names another axis.
       {.op = "nn.instance_normalize",
        .dtypes = kFloat32,
        .write = instance_normalize,
        .fits = is_image},
       {.op = "nn.instance_normalize",
        .dtypes = kFloat32,
        .write = instance_normalize,
        .fits = has_inner_axes,
        .is_formula = true},
       {.op = "nn.group_normalize",
        .dtypes = kFull,
        .write = group_normalize,
        .fits = is_image,
        .opset = 21},
       {.op = "nn.group_normalize",
        .dtypes = kFull,
        .write = group_normalize,
        .fits = has_inner_axes,
        .opset = 21,
        .is_formula = true},
       {.op = "nn.group_normalize",
        .dtypes = kFloat32,
        .write = group_normalize_by_instances,
        .is_formula = true}});
}

}  // namespace etude::onnx::internal
