// SPDX-License-Identifier: Apache-2.0
// Normalisation of groups of features, and by mean squares. Statistics belong to each example, so
// training and inference are the same.
#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

// A parameter with one number for each index of `axes`, in the shape in which it broadcasts to x.
Tensor along(const Tensor& parameter, const char* name, const Tensor& x,
             const std::vector<int>& axes) {
  Shape own, wide(Ints(static_cast<std::size_t>(x.rank()), 1));
  for (const int axis : axes) {
    own.push_back(x.shape()[axis]);
    wide.set(axis, x.shape()[axis]);
  }
  ETUDE_REQUIRE(parameter.shape() == own,
                "operand '{}' has shape {}, but x of shape {} needs {} of shape {}", name,
                parameter.shape().to_string(), x.shape().to_string(), name, own.to_string());
  return reshaped(parameter, wide);
}

Tensor scaled(Tensor y, Operands in, const std::vector<int>& axes) {
  if (in.has(1)) y = y * along(in[1], "scale", in[0], axes);
  if (in.size() > 2 && in.has(2)) y = y + along(in[2], "offset", in[0], axes);
  return y;
}

// x about the means and over the deviations of `groups` groups of features of each example: the
// numbers of a group are made adjacent, so that they are one row of a fused pass each way.
Tensor by_groups(const Tensor& x, int axis, int64_t groups, double epsilon) {
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

int feature_axis(const Attrs& attrs, const Tensor& x) {
  ETUDE_REQUIRE(x.rank() >= 2, "operand 'x' has shape {}, but must be [n, .., features]",
                x.shape().to_string());
  const int axis = normalize_axis(attrs.integer("axis"), x.rank());
  ETUDE_REQUIRE(axis != 0, "axis 0 is that of the examples. Name the axis of the features");
  return axis;
}

Values lower_group(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  const int axis = feature_axis(attrs, x);
  const int64_t groups = attrs.integer("groups");
  ETUDE_REQUIRE(groups >= 1 && x.shape()[axis] % groups == 0,
                "{} groups do not divide the {} features on axis {} of operand 'x' of shape {}",
                groups, x.shape()[axis], axis, x.shape().to_string());
  return {scaled(by_groups(x, axis, groups, attrs.real("epsilon")), in, {axis})};
}

Values lower_instance(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  const int axis = feature_axis(attrs, x);
  return {scaled(by_groups(x, axis, x.shape()[axis], attrs.real("epsilon")), in, {axis})};
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

void define_groups(Registry& r) {
  r.define({
      .name = "group_normalize",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "x [n, .., features] less its mean and divided by sqrt(variance + epsilon), both over "
             "all that belongs to "
             "one example and one group of adjacent features, times scale, plus offset, which have "
             "one number for each "
             "feature and may be left out.",
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
                  "axis 0 is that of the examples",
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
      .doc = "As group_normalize with one group for each feature: each feature of each example by "
             "itself.",
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
  define_groups(r);
  r.define({
      .name = "rms_normalize",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "x divided by the root of its mean square over `axes`, plus epsilon under the root, "
             "times scale, which has "
             "the sizes of x on `axes`, in ascending order, and may be left out.",
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
      .doc = "x divided by its Euclidean length along an axis; lengths below sqrt(epsilon) count "
             "as that.",
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
