// SPDX-License-Identifier: Apache-2.0
// Normalisation of groups of features, and by mean squares. Statistics belong to each example, so
// training and inference are the same. With the features last it is one fused op,
// "standardize_groups"; else rows of "standardize".
#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/reduce/standardize.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/network/standard.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

Tensor scaled(Tensor y, Operands in, const std::vector<int>& axes) {
  if (in.has(1)) y = y * along(in[1], "scale", in[0], axes);
  if (in.size() > 2 && in.has(2)) y = y + along(in[2], "offset", in[0], axes);
  return y;
}

// x about the means and over the deviations of `groups` groups of features of each example: the
// numbers of a group are made adjacent, so that they are one row of a fused pass each way.
Tensor by_rows(const Tensor& x, int axis, int64_t groups, double epsilon) {
  const Shape& s = x.shape();
  int64_t before = 1, behind = 1;
  for (int i = 1; i < axis; ++i) before *= s[i];
  for (int i = axis + 1; i < s.rank(); ++i) behind *= s[i];
  const int64_t size = s[axis] / groups * behind;
  const auto normalized = [&](const Tensor& t) {
    const Tensor rows = reshaped(t, {s[0] * groups, before * size});
    return reshaped(nn::layer_normalize(rows, {1}, {.epsilon = epsilon}), t.shape());
  };
  if (before == 1) return normalized(x);
  const Tensor parts = permute_dims(reshaped(x, {s[0], before, groups, size}), {0, 2, 1, 3});
  return reshaped(permute_dims(normalized(parts), {0, 2, 1, 3}), s);
}

Tensor by_groups(Operands in, int axis, int64_t groups, double epsilon) {
  const Tensor& x = in[0];
  const Shape& s = x.shape();
  if (axis == 1 || axis + 1 < s.rank()) {
    return scaled(by_rows(x, axis, groups, epsilon), in, {axis});
  }
  const Tensor scale = in.has(1) ? in[1] : Tensor(), offset = in.has(2) ? in[2] : Tensor();
  if (scale.has_value()) shape_along(scale, "scale", x, {axis});
  if (offset.has_value()) shape_along(offset, "offset", x, {axis});
  int64_t between = 1;
  for (int i = 1; i < axis; ++i) between *= s[i];
  const Tensor rows = reshaped(x, {s[0], between, s[axis]});
  const Tensor y = run(op<"standardize_groups">(), {&rows, &scale, &offset}, {groups, epsilon});
  return reshaped(y, s);
}

int feature_axis(const Attrs& attrs, const Tensor& x) {
  ETUDE_REQUIRE(x.rank() >= 2, "operand 'x' has shape {}, but must be [n, .., features]",
                x.shape().to_string());
  const int axis = normalize_axis(attrs.integer("axis"), x.rank());
  ETUDE_REQUIRE(axis != 0, "axis 0 counts the examples. Name the axis of the features");
  return axis;
}

Values lower_group(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  const int axis = feature_axis(attrs, x);
  const int64_t groups = attrs.integer("groups");
  ETUDE_REQUIRE(groups >= 1 && x.shape()[axis] % groups == 0,
                "{} groups do not divide the {} features on axis {} of operand 'x' of shape {}",
                groups, x.shape()[axis], axis, x.shape().to_string());
  return {by_groups(in, axis, groups, attrs.real("epsilon"))};
}

Values lower_instance(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  const int axis = feature_axis(attrs, x);
  const int64_t features = x.shape()[axis];
  // Of no features there is one group, in which nothing is.
  return {by_groups(in, axis, features == 0 ? 1 : features, attrs.real("epsilon"))};
}

Values lower_rms(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  std::vector<int> axes = normalize_axes(attrs.ints("axes"), x.rank());
  std::sort(axes.begin(), axes.end());
  ETUDE_REQUIRE(!axes.empty(), "the list of axes is empty. Name one axis at least");
  const Tensor squares = mean(x * x, {.axis = Ints(axes.begin(), axes.end()), .keepdims = true});
  return {scaled(x * rsqrt(squares + attrs.real("epsilon")), in, axes)};
}

Values lower_l2(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  const int axis = normalize_axis(attrs.integer("axis"), x.rank());
  const Tensor squares = sum(x * x, {.axis = axis, .keepdims = true});
  return {x * rsqrt(maximum(squares, attrs.real("epsilon")))};
}

Types groups_type(const TypeCall& call, std::size_t vectors) {
  const Shape& x = call.shape(0);
  ETUDE_REQUIRE(x.rank() == 3, "operand 'x' has shape {}, but must be [examples, rows, features]",
                x.to_string());
  const int64_t groups = call.attrs.integer("groups");
  ETUDE_REQUIRE(groups >= 1 && x[2] % groups == 0, "{} groups do not divide {} features", groups,
                x[2]);
  require_vectors(call, vectors, x[2]);
  return {call.types[0]};
}

Types groups_gradient_type(const TypeCall& call) {
  groups_type(call, 1);
  return standard_gradient_types(call, call.shape(0)[2]);
}

Values groups_vjp(const VjpCall& call) {
  const Tensor& x = call.in[0];
  const Tensor scale = call.in.has(1) ? call.in[1] : Tensor();
  return wanted_of(call, run_all(op<"standardize_groups_gradient">(), {&x, &scale, &call.ct()},
                                 {call.attrs.value("groups"), call.attrs.value("epsilon")}));
}

// On [examples, rows, groups, features of one].
Values groups_gradient_vjp(const VjpCall& call) {
  const Shape& x = call.in[0].shape();
  const int64_t groups = call.attrs.integer("groups"), size = x[2] / groups;
  const Shape wide = {x[0], x[1], groups, size}, narrow = {groups, size};
  const auto view = [&](Operands list, std::size_t i) {
    if (!list.has(i)) return Tensor();
    return reshaped(list[i], list[i].rank() == 3 ? wide : narrow);
  };
  const Standard s(view(call.in, 0), {1, 3}, call.attrs.real("epsilon"));
  const Tensor scale = view(call.in, 1), ct = view(call.in, 2);
  const std::vector<Tensor> cotangents = {view(call.cotangents, 0), view(call.cotangents, 1),
                                          view(call.cotangents, 2)};
  Values out =
      standard_gradient_vjp(s, {scale, ct, call.wants(1) && scale.has_value()}, cotangents);
  for (std::size_t i = 0; i < 3; ++i) {
    if (out[i].has_value()) out[i] = reshaped(out[i], call.in[i].shape());
  }
  return out;
}

void define_standardize_groups(Registry& r) {
  const auto groups = [](int64_t n) {
    return std::vector<std::pair<std::string_view, AttrValue>>{{"groups", n}};
  };
  const std::vector<Sample> samples = {{{"[2,5,6]", "[6]", "[6]"}, groups(3)},
                                       {{"[2,70,4]", "-", "[4]"}, groups(2)},
                                       {{"[1,3,19]", "[19]", "-"}, groups(19)}};
  r.define({
      .name = "standardize_groups",
      .space = "internal",
      .doc = "x with mean 0 and variance 1 over the rows and each of `groups` groups of adjacent "
             "features of each example, times scale, plus offset.",
      .operands = {"x", "scale?", "offset?"},
      .attrs = {{"groups", AttrKind::kInt}, {"epsilon", 0.001}},
      .dtypes = kFloating,
      .type = [](const TypeCall& call) { return groups_type(call, 2); },
      .kernels = {.cpu = kernels::cpu::prepare_standardize_groups},
      .vjp = groups_vjp,
      .batch = batching::joined<1>,
      .samples = {.calls = samples, .ulp = 64},
      .errors = {{{"float32[2,6]", "-", "-"}, "must be [examples, rows, features]", groups(2)},
                 {{"float32[2,3,6]", "-", "-"}, "4 groups do not divide 6 features", groups(4)},
                 {{"float32[2,3,6]", "-", "float32[3]"},
                  "operand 'offset' has shape [3], but must be [6]",
                  groups(2)}},
  });
  r.define({
      .name = "standardize_groups_gradient",
      .space = "internal",
      .doc = "The cotangents of x, scale and offset of standardize_groups, from that of its "
             "result.",
      .operands = {"x", "scale?", "ct"},
      .attrs = {{"groups", AttrKind::kInt}, {"epsilon", 0.001}},
      .results = {"dx", "to_scale", "to_offset"},
      .dtypes = kFloating,
      .type = groups_gradient_type,
      .kernels = {.cpu = kernels::cpu::prepare_standardize_groups_gradient},
      .vjp = groups_gradient_vjp,
      .samples = {.calls = standard_gradient_samples(samples), .ulp = 64},
      .errors = {{{"float32[2,3,6]", "-", "float32[2,3,5]"}, "they must be equal", groups(2)}},
  });
}

void define_groups(Registry& r) {
  r.define({
      .name = "group_normalize",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "x [n, .., features] less its mean, divided by sqrt(variance + epsilon), times scale, "
             "plus offset. Mean and variance are over one example and one group of adjacent "
             "features. scale and offset have one number for each feature, and may be absent.",
      .operands = {"x", "scale?", "offset?"},
      .attrs = {{"groups", AttrKind::kInt}, {"axis", -1}, {"epsilon", 0.001}},
      .dtypes = kFloating,
      .lower = lower_group,
      .samples = {.calls = {{{"[2,3,2,6]", "[6]", "[6]"}, {{"groups", int64_t{3}}}},
                            {{"[2,4,3]", "[4]", "-"},
                             {{"groups", int64_t{2}}, {"axis", int64_t{1}}}},
                            {{"[3,6]", "-", "[6]"}, {{"groups", int64_t{1}}}}},
                  .ulp = 64},
      .errors = {{{"float32[6]", "-", "-"}, "must be [n, .., features]", {{"groups", int64_t{2}}}},
                 {{"float32[2,6]", "-", "-"},
                  "axis 0 counts the examples",
                  {{"groups", int64_t{2}}, {"axis", int64_t{0}}}},
                 {{"float32[2,6]", "-", "-"},
                  "4 groups do not divide the 6 features on axis 1",
                  {{"groups", int64_t{4}}}},
                 {{"float32[2,6]", "float32[3]", "-"},
                  "needs scale of shape [6]",
                  {{"groups", int64_t{2}}}}},
  });
  r.define({
      .name = "instance_normalize",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "As group_normalize with one group for each feature. Each feature of each example is "
             "normalised separately.",
      .operands = {"x", "scale?", "offset?"},
      .attrs = {{"axis", -1}, {"epsilon", 0.001}},
      .dtypes = kFloating,
      .lower = lower_instance,
      .samples = {.calls = {{{"[2,3,4,2]", "[2]", "[2]"}},
                            {{"[2,3,5]", "-", "-"}, {{"axis", int64_t{1}}}}},
                  .ulp = 64},
      .errors = {{{"float32[2,3,4]", "-", "float32[3]"}, "needs offset of shape [4]"}},
  });
}

}  // namespace

void define_group_normalization(Registry& r) {
  define_standardize_groups(r);
  define_groups(r);
  r.define({
      .name = "rms_normalize",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "x / sqrt(mean square + epsilon) * scale, with the mean over `axes`. scale has the "
             "sizes of x on `axes`, in ascending order, and may be absent.",
      .operands = {"x", "scale?"},
      .attrs = {{"axes", AttrKind::kInts}, {"epsilon", 0.001}},
      .dtypes = kFloating,
      .lower = lower_rms,
      .samples = {.calls = {{{"[3,5]", "[5]"}, {{"axes", Ints{-1}}}},
                            {{"[2,3,4]", "-"}, {{"axes", Ints{1, 2}}}}},
                  .ulp = 16},
      .errors = {{{"float32[2,3]", "float32[2]"}, "needs scale of shape [3]", {{"axes", Ints{1}}}},
                 {{"float32[2,3]", "-"}, "the list of axes is empty", {{"axes", Ints{}}}}},
  });
  r.define({
      .name = "l2_normalize",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "x divided by its Euclidean length along an axis. A length below sqrt(epsilon) counts "
             "as sqrt(epsilon).",
      .operands = {"x"},
      .attrs = {{"axis", -1}, {"epsilon", 1e-12}},
      .dtypes = kFloating,
      .lower = lower_l2,
      .samples = {.calls = {{{"[3,5]"}}, {{"[2,3,2]"}, {{"axis", int64_t{1}}}}}, .ulp = 16},
      .errors = {{{"float32[2,3]"},
                  "axis 2 is outside [-2, 2)",
                  {{"axis", int64_t{2}}},
                  ErrorCode::kOutOfRange}},
  });
}

}  // namespace etude::ops
