// SPDX-License-Identifier: Apache-2.0
// Normalisation by given or own statistics, with scale and offset. Own statistics of rows or
// columns are one fused op, "standardize"; other shapes use public ops.
#include <algorithm>
#include <utility>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/kernels/cpu/reduce/standardize.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/network/standard.h"
#include "etude/ops/records.h"

namespace etude::ops {

using Ints = std::vector<int64_t>;

namespace {

Values lower_batch(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  const std::vector<int> axis = {normalize_axis(attrs.integer("axis"), x.rank())};
  const Tensor mean = along(in[1], "mean", x, axis), var = along(in[2], "var", x, axis);
  const Tensor offset = along(in[3], "offset", x, axis), scale = along(in[4], "scale", x, axis);
  const Tensor factor = rsqrt(var + attrs.real("epsilon")) * scale;
  return {(x - mean) * factor + offset};
}

// x [rows, n], scale [n] and offset [n], either absent: y, mean and variance.
Values standardize(const Tensor& x, const Tensor& scale, const Tensor& offset, bool columns,
                   double epsilon) {
  return run_all(op<"standardize">(), {&x, &scale, &offset}, {columns, epsilon});
}

bool are_last(const std::vector<int>& axes, int rank) {
  return axes.front() == rank - static_cast<int>(axes.size());  // they are sorted and distinct
}

Values lower_layer(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  std::vector<int> axes = normalize_axes(attrs.ints("axes"), x.rank());
  std::sort(axes.begin(), axes.end());
  ETUDE_REQUIRE(!axes.empty(), "the list of axes is empty. Name one axis at least");
  const Tensor scale = in.has(1) ? along(in[1], "scale", x, axes) : Tensor();
  const Tensor offset = in.has(2) ? along(in[2], "offset", x, axes) : Tensor();
  const double epsilon = attrs.real("epsilon");
  if (are_last(axes, x.rank())) {
    const int64_t n = reduced_count(x.shape(), axes);
    const int64_t rows = reduced_shape(x.shape(), axes, false).count();
    const auto flat = [n](const Tensor& t) { return t.has_value() ? reshaped(t, {n}) : t; };
    const Values out =
        standardize(reshaped(x, {rows, n}), flat(scale), flat(offset), false, epsilon);
    return {reshaped(out[0], x.shape())};
  }
  const Values moments = run_all(op<"moments">(), {&x}, {Ints(axes.begin(), axes.end()), true});
  Tensor y = (x - moments[0]) * rsqrt(moments[1] + epsilon);
  if (scale.has_value()) y = y * scale;
  if (offset.has_value()) y = y + offset;
  return {y};
}

Values lower_batch_standardize(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  const int axis = normalize_axis(attrs.integer("axis"), x.rank());
  const double epsilon = attrs.real("epsilon");
  shape_along(in[1], "offset", x, {axis});
  shape_along(in[2], "scale", x, {axis});
  if (axis == x.rank() - 1) {
    const int64_t n = x.shape()[axis];
    const int64_t rows = reduced_shape(x.shape(), {axis}, false).count();
    Values out = standardize(reshaped(x, {rows, n}), in[2], in[1], true, epsilon);
    return {reshaped(out[0], x.shape()), out[1], out[2]};
  }
  Ints others;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) others.push_back(i);
  }
  const Values moments = run_all(op<"moments">(), {&x}, {others, false});
  const Tensor y = nn::batch_normalize(x, moments[0], moments[1], in[1], in[2],
                                       {.axis = axis, .epsilon = epsilon});
  return {y, moments[0], moments[1]};
}

Types standardize_type(const TypeCall& call, std::size_t vectors) {
  const Shape& x = call.shape(0);
  ETUDE_REQUIRE(x.rank() == 2, "operand 'x' has shape {}, but must be [rows, n]", x.to_string());
  require_vectors(call, vectors, x[1]);
  const Type* kept = call.make(call.dtype(0), {x[call.attrs.flag("columns") ? 1 : 0]});
  return {call.types[0], kept, kept};
}

Values standardize_vjp(const VjpCall& call) {
  Values out(3);
  const Tensor& x = call.in[0];
  const Tensor scale = call.in.has(1) ? call.in[1] : Tensor();
  if (call.cotangents.has(0)) {
    out = run_all(op<"standardize_gradient">(), {&x, &scale, &call.ct()},
                  {call.attrs.value("columns"), call.attrs.value("epsilon")});
  }
  const int axis = call.attrs.flag("columns") ? 0 : 1;
  const auto share = [&](const Tensor& ct) {
    return with_axes(ct, x.shape(), {axis}) / static_cast<double>(x.shape()[axis]);
  };
  Tensor more;
  if (call.cotangents.has(1)) more = broadcasted(share(call.cotangents[1]), x.shape());
  if (call.cotangents.has(2)) {
    const Tensor away = x - with_axes(call.out[1], x.shape(), {axis});
    const Tensor by_variance = 2.0 * share(call.cotangents[2]) * away;
    add_to(more, by_variance);
  }
  if (more.has_value()) out[0] = out[0].has_value() ? out[0] + more : more;
  return wanted_of(call, std::move(out));
}

Types standardize_by_type(const TypeCall& call) {
  const Types forward = standardize_type(call, 2);
  for (std::size_t i = 3; i < 5; ++i) {
    ETUDE_REQUIRE(call.shape(i) == forward[1]->shape(), "operand '{}' has shape {}, but must be {}",
                  call.op.operand(i).name, call.shape(i).to_string(),
                  forward[1]->shape().to_string());
  }
  return {forward[0]};
}

// y = (x - mean) r scale + offset, r = 1 / sqrt(variance + epsilon).
Values standardize_by_vjp(const VjpCall& call) {
  const Tensor &x = call.in[0], &ct = call.ct();
  const int axis = call.attrs.flag("columns") ? 0 : 1;
  const auto wide = [&](const Tensor& t) { return with_axes(t, x.shape(), {axis}); };
  const auto sum_to = [](const Tensor& t, int64_t over) { return sum(t, {.axis = {over}}); };
  const Tensor away = x - wide(call.in[3]);
  const Tensor r = rsqrt(wide(call.in[4]) + call.attrs.real("epsilon"));
  const Tensor to_x = (call.in.has(1) ? ct * call.in[1] : ct) * r;
  Values out(5);
  if (call.wants(0)) out[0] = to_x;
  if (call.wants(1) && call.in.has(1)) out[1] = sum_to(ct * away * r, 0);
  if (call.wants(2) && call.in.has(2)) out[2] = sum_to(ct, 0);
  if (call.wants(3)) out[3] = -sum_to(to_x, axis);
  if (call.wants(4)) out[4] = -0.5 * sum_to(to_x * away * r * r, axis);
  return out;
}

Types standardize_gradient_type(const TypeCall& call) {
  standardize_type(call, 1);
  return standard_gradient_types(call, call.shape(0)[1]);
}

Values standardize_gradient_vjp(const VjpCall& call) {
  const Standard s(call.in[0], {call.attrs.flag("columns") ? 0 : 1}, call.attrs.real("epsilon"));
  const Tensor scale = call.in.has(1) ? call.in[1] : Tensor();
  std::vector<Tensor> cotangents;
  for (std::size_t i = 0; i < 3; ++i) {
    cotangents.push_back(call.cotangents.has(i) ? call.cotangents[i] : Tensor());
  }
  return standard_gradient_vjp(s, {scale, call.in[2], call.wants(1) && scale.has_value()},
                               cotangents);
}

void define_standardize(Registry& r) {
  const std::vector<Sample> samples = {{{"[4,3]", "[3]", "[3]"}, {{"columns", true}}},
                                       {{"[3,5]", "[5]", "[5]"}, {{"columns", false}}},
                                       {{"[2,70]", "-", "-"}, {{"columns", false}}},
                                       {{"[19,17]", "-", "[17]"}, {{"columns", true}}}};
  const std::vector<Sample> by_samples = {
      {{"[4,3]", "[3]", "[3]", "[3]", "[3]"}, {{"columns", true}}},
      {{"[3,5]", "[5]", "[5]", "[3]", "[3]"}, {{"columns", false}}},
      {{"[2,70]", "-", "-", "[2]", "[2]"}, {{"columns", false}}},
      {{"[19,17]", "-", "[17]", "[17]", "[17]"}, {{"columns", true}}}};
  r.define({
      .name = "standardize",
      .space = "internal",
      .doc = "The rows or columns of x with mean 0 and variance 1, times scale, plus offset; and "
             "their means and variances.",
      .operands = {"x", "scale?", "offset?"},
      .attrs = {{"columns", AttrKind::kFlag}, {"epsilon", 0.001}},
      .results = {"y", "mean", "variance"},
      .dtypes = kFloating,
      .type = [](const TypeCall& call) { return standardize_type(call, 2); },
      .kernels = {.cpu = kernels::cpu::prepare_standardize},
      .vjp = standardize_vjp,
      .is_cheap = true,
      .again = "standardize_by",
      .samples = {.calls = samples, .ulp = 32},
      .errors = {{{"float32[3]", "-", "-"}, "must be [rows, n]", {{"columns", true}}},
                 {{"float32[2,3]", "float32[2]", "-"}, "must be [3]", {{"columns", true}}}},
  });
  r.define({
      .name = "standardize_by",
      .space = "internal",
      .doc = "The first result of standardize from its operands and its other results.",
      .operands = {"x", "scale?", "offset?", "mean", "variance"},
      .attrs = {{"columns", AttrKind::kFlag}, {"epsilon", 0.001}},
      .dtypes = DTypeSet(kFloat32) | kFloat64,
      .type = standardize_by_type,
      .kernels = {.cpu = kernels::cpu::prepare_standardize_by},
      .vjp = standardize_by_vjp,
      .is_cheap = true,
      .samples = {.calls = by_samples,
                  .ranges = {{-2, 2}, {-2, 2}, {-2, 2}, {-1, 1}, {0.5, 2}},
                  .ulp = 32},
      .errors = {{{"float32[2,3]", "-", "-", "float32[2]", "float32[3]"},
                  "operand 'mean' has shape [2], but must be [3]",
                  {{"columns", true}}},
                 {{"float32[2,3]", "-", "-", "float32[2]", "float32[3]"},
                  "operand 'variance' has shape [3], but must be [2]",
                  {{"columns", false}}}},
  });
  r.define({
      .name = "standardize_gradient",
      .space = "internal",
      .doc = "The cotangents of x, scale and offset of standardize, from that of its first result.",
      .operands = {"x", "scale?", "ct"},
      .attrs = {{"columns", AttrKind::kFlag}, {"epsilon", 0.001}},
      .results = {"dx", "to_scale", "to_offset"},
      .dtypes = kFloating,
      .type = standardize_gradient_type,
      .kernels = {.cpu = kernels::cpu::prepare_standardize_gradient},
      .vjp = standardize_gradient_vjp,
      .samples = {.calls = standard_gradient_samples(samples), .ulp = 64},
      .errors = {{{"float32[2,3]", "-", "float32[2,2]"},
                  "they must be equal",
                  {{"columns", true}}}},
  });
}

}  // namespace

void define_normalization(Registry& r) {
  define_standardize(r);
  r.define({
      .name = "batch_normalize",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "(x - mean) / sqrt(var + epsilon) * scale + offset. mean, var, scale and offset have "
             "one number for each index of `axis`. The statistics are the moments over the other "
             "axes, or running statistics.",
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
      .name = "batch_standardize",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "batch_normalize with the mean and variance of x over the other axes, computed in one "
             "fused step for the last axis. Also returns this mean and variance.",
      .operands = {"x", "offset", "scale"},
      .attrs = {{"axis", -1}, {"epsilon", 0.001}},
      .results = {"y", "mean", "var"},
      .dtypes = kFloating,
      .lower = lower_batch_standardize,
      .samples = {.calls = {{{"[4,3]", "[3]", "[3]"}},
                            {{"[2,3,2,5]", "[5]", "[5]"}},
                            {{"[2,3,2]", "[3]", "[3]"}, {{"axis", int64_t{1}}}}},
                  .ulp = 32},
      .errors = {{{"float32[4,3]", "float32[4]", "float32[3]"}, "needs offset of shape [3]"},
                 {{"float32[4,3]", "float32[3]", "float32[3]"},
                  "axis 2 is outside [-2, 2)",
                  {{"axis", int64_t{2}}},
                  ErrorCode::kOutOfRange}},
  });
  r.define({
      .name = "layer_normalize",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "x less its mean over `axes`, divided by sqrt(variance + epsilon), times scale, plus "
             "offset. scale and offset have the sizes of x on `axes`, in ascending order. They may "
             "be absent.",
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
