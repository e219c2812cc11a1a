// SPDX-License-Identifier: Apache-2.0
// Normalisation by given or own statistics, with scale and offset.
#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/builtin.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

// A parameter of the sizes that x has on `axes`, shaped to broadcast to x.
Tensor along(const Tensor& parameter, const char* name, const Tensor& x,
             const std::vector<int>& axes) {
  Shape own, wide(std::vector<int64_t>(static_cast<std::size_t>(x.rank()), 1));
  for (const int axis : axes) {
    own.push_back(x.shape()[axis]);
    wide.set(axis, x.shape()[axis]);
  }
  ETUDE_REQUIRE(parameter.shape() == own,
                "operand '{}' has shape {}, but x of shape {} needs {} of shape {}", name,
                parameter.shape().to_string(), x.shape().to_string(), name, own.to_string());
  return reshaped(parameter, wide);
}

Values lower_batch(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  const std::vector<int> axis = {normalize_axis(attrs.integer("axis"), x.rank())};
  const Tensor mean = along(in[1], "mean", x, axis), var = along(in[2], "var", x, axis);
  const Tensor offset = along(in[3], "offset", x, axis), scale = along(in[4], "scale", x, axis);
  const Tensor factor = rsqrt(var + attrs.real("epsilon")) * scale;
  return {(x - mean) * factor + offset};
}

Values lower_layer(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  std::vector<int> axes = normalize_axes(attrs.ints("axes"), x.rank());
  std::sort(axes.begin(), axes.end());
  ETUDE_REQUIRE(!axes.empty(), "the list of axes is empty. Name one axis at least");
  const Op& op = internal::op("moments");
  const Values moments =
      execute(op, OperandList({&x}).view(), op.attrs({Ints(axes.begin(), axes.end()), true}), {});
  Tensor y = (x - moments[0]) * rsqrt(moments[1] + attrs.real("epsilon"));
  if (in.has(1)) y = y * along(in[1], "scale", x, axes);
  if (in.has(2)) y = y + along(in[2], "offset", x, axes);
  return {y};
}

}  // namespace

void define_normalization(Registry& r) {
  r.define({
      .name = "batch_normalize",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "(x - mean) / sqrt(var + epsilon) * scale + offset, with one number of each for every "
             "index of `axis`. "
             "The statistics are those of moments over the other axes, or running ones.",
      .operands = {"x", "mean", "var", "offset", "scale"},
      .attrs = {{"axis", -1}, {"epsilon", 0.001}},
      .dtypes = kFloating,
      .lower = lower_batch,
      .samples = {.calls = {{{"[4,3]", "[3]", "[3]", "[3]", "[3]"}},
                            {{"[2,3,2]", "[3]", "[3]", "[3]", "[3]"}, {{"axis", int64_t{1}}}}},
                  .ranges = {{-2, 2}, {-1, 1}, {0.5, 2}, {-1, 1}, {0.5, 2}},
                  .ulp = 8},
      .errors = {{{"float32[4,3]", "float32[4]", "float32[3]", "float32[3]", "float32[3]"},
                  "needs mean of shape [3]"},
                 {{"float32[4,3]", "float32[3]", "float32[3]", "float32[3]", "float32[3]"},
                  "axis 2 is outside [-2, 2)",
                  {{"axis", int64_t{2}}},
                  ErrorCode::kOutOfRange}},
  });
  r.define({
      .name = "layer_normalize",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "x less its mean over `axes` and divided by sqrt(variance + epsilon), times scale, "
             "plus offset; these two "
             "have the sizes of x on `axes`, in ascending order, and may be left out.",
      .operands = {"x", "scale?", "offset?"},
      .attrs = {{"axes", AttrKind::kInts}, {"epsilon", 0.001}},
      .dtypes = kFloating,
      .lower = lower_layer,
      .samples = {.calls = {{{"[3,5]", "-", "-"}, {{"axes", Ints{-1}}}},
                            {{"[2,3,4]", "[3,4]", "[3,4]"}, {{"axes", Ints{1, 2}}}},
                            {{"[3,4]", "[3]", "-"}, {{"axes", Ints{0}}}}},
                  .ulp = 16},
      .errors = {{{"float32[2,3]", "float32[2]", "-"},
                  "needs scale of shape [3]",
                  {{"axes", Ints{1}}}},
                 {{"float32[2,3]", "-", "-"}, "the list of axes is empty", {{"axes", Ints{}}}}},
  });
}

}  // namespace etude::ops
