// SPDX-License-Identifier: Apache-2.0
// Convolutions. Both gradients are linear ops whose transposes are each other and the convolution,
// so that derivatives of every order exist.
#include "etude/base/check.h"
#include "etude/base/internal/checked_int.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/conv/conv.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/image/windows.h"

namespace etude::ops {
namespace {

using internal::CheckedInt;
using kernels::cpu::ConvPlan;

ConvPlan plan_of(const Attrs& attrs, const Shape& x, const Shape& filter) {
  const Window2d window =
      resolve_window(attrs, x, {filter[0], filter[1]}, pair_attr(attrs, "strides"));
  const std::array<int64_t, 2> dilations = pair_attr(attrs, "dilations");
  ConvPlan p;
  p.n = x[0], p.h = x[1], p.w = x[2], p.c = x[3];
  p.kh = filter[0], p.kw = filter[1], p.o = filter[3];
  p.oh = window[0].output, p.ow = window[1].output;
  p.groups = attrs.integer("groups");
  p.sh = window[0].stride, p.sw = window[1].stride;
  p.dh = dilations[0], p.dw = dilations[1];
  p.top = window[0].before, p.left = window[1].before;
  return p;
}

Shape result_shape(const ConvPlan& p) { return {p.n, p.oh, p.ow, p.o}; }

Types conv_type(const TypeCall& call) {
  const Shape &x = call.shape(0), &filter = call.shape(1);
  ETUDE_REQUIRE(x.rank() == 4, "operand 'x' has shape {}, but must be [n, height, width, channels]",
                x.to_string());
  ETUDE_REQUIRE(
      filter.rank() == 4,
      "operand 'filter' has shape {}, but must be [height, width, channels / groups, outputs]",
      filter.to_string());
  const int64_t groups = call.attrs.integer("groups");
  ETUDE_REQUIRE(groups >= 1, "groups is {}, but must be at least 1", groups);
  ETUDE_REQUIRE(x[3] % groups == 0 && x[3] / groups == filter[2],
                "operand 'x' has shape {} and operand 'filter' has shape {}: {} channels in {} "
                "groups need a filter "
                "with {} channels, not {}",
                x.to_string(), filter.to_string(), x[3], groups, x[3] / groups, filter[2]);
  ETUDE_REQUIRE(filter[3] % groups == 0,
                "the {} outputs of operand 'filter' of shape {} do not divide by {} groups",
                filter[3], filter.to_string(), groups);
  ETUDE_REQUIRE(filter[0] >= 1 && filter[1] >= 1,
                "operand 'filter' has shape {}: its window is empty", filter.to_string());
  ETUDE_REQUIRE(!call.has(2) || call.shape(2) == Shape{filter[3]},
                "operand 'bias' has shape {}, but the {} outputs of operand 'filter' need [{}]",
                call.has(2) ? call.shape(2).to_string() : "", filter[3], filter[3]);
  return {call.make(call.dtype(0), result_shape(plan_of(call.attrs, x, filter)))};
}

// Attributes of the gradients: the attributes of the convolution with its padding in numbers, and
// the sizes of the missing operand.
std::vector<AttrDef> gradient_attrs() {
  return {{"strides", std::vector<int64_t>{1}},
          {"explicit_padding", AttrKind::kInts},
          {"dilations", std::vector<int64_t>{1}},
          {"groups", 1},
          {"size", AttrKind::kInts}};
}

std::vector<AttrValue> without_size(const Attrs& attrs) {
  return {attrs.value("strides"), attrs.value("explicit_padding"), attrs.value("dilations"),
          attrs.value("groups")};
}

// Attributes of a gradient, from the attributes of a convolution of these shapes.
std::vector<AttrValue> gradient_values(const Attrs& attrs, const Shape& x, const Shape& filter) {
  const Window2d window =
      resolve_window(attrs, x, {filter[0], filter[1]}, pair_attr(attrs, "strides"));
  return {attrs.value("strides"), explicit_padding(window), attrs.value("dilations"),
          attrs.value("groups")};
}

Tensor conv2d(const Tensor& x, const Tensor& filter, const Attrs& attrs) {
  const Tensor bias;
  return run(op<"conv2d">(), {&x, &filter, &bias},
             {attrs.value("strides"), none, attrs.value("explicit_padding"),
              attrs.value("dilations"), attrs.value("groups")});
}

// size: [height, width] of the image, or of the filter.
Tensor input_gradient(const Tensor& ct, const Tensor& filter, std::vector<AttrValue> values,
                      const Shape& x) {
  values.emplace_back(std::vector<int64_t>{x[1], x[2]});
  const Tensor turned = internal::conj(filter);
  return run(op<"conv2d_input_gradient">(), {&ct, &turned}, values);
}
Tensor filter_gradient(const Tensor& x, const Tensor& ct, std::vector<AttrValue> values,
                       const Shape& filter) {
  values.emplace_back(std::vector<int64_t>{filter[0], filter[1]});
  const Tensor turned = internal::conj(x);
  return run(op<"conv2d_filter_gradient">(), {&turned, &ct}, values);
}

Values conv_vjp(const VjpCall& call) {
  const Shape &x = call.in[0].shape(), &filter = call.in[1].shape();
  Values out(call.in.size());
  const std::vector<AttrValue> values = gradient_values(call.attrs, x, filter);
  if (call.wants(0)) out[0] = input_gradient(call.ct(), call.in[1], values, x);
  if (call.wants(1)) out[1] = filter_gradient(call.in[0], call.ct(), values, filter);
  if (call.in.has(2) && call.wants(2)) out[2] = internal::sum_to(call.ct(), call.in[2].shape());
  return out;
}

Values conv_jvp(const JvpCall& call) {
  Values out(1);
  const auto add = [&](const Tensor& part) {
    out[0] = out[0].has_value() ? internal::add(std::move(out[0]), part) : part;
  };
  const Tensor bias;
  const auto conv = [&](const Tensor& x, const Tensor& filter) {
    return run(op<"conv2d">(), {&x, &filter, &bias}, call.attrs);
  };
  if (call.tangents[0].has_value()) add(conv(call.tangents[0], call.in[1]));
  if (call.tangents[1].has_value()) add(conv(call.in[0], call.tangents[1]));
  if (call.tangents.has(2)) {
    if (!out[0].has_value()) out[0] = internal::full(call.out[0].type(), 0);
    add(call.tangents[2]);
  }
  return out;
}

std::vector<int64_t> ints(std::initializer_list<int64_t> list) { return list; }

// Checks the operands of a gradient, so that no kernel reads beyond them.
void require_gradient(const TypeCall& call, const ConvPlan& p, std::size_t ct) {
  ETUDE_REQUIRE(call.shape(ct) == result_shape(p),
                "operand 'ct' has shape {}, but the result of this convolution has {}",
                call.shape(ct).to_string(), result_shape(p).to_string());
}
void require_images(const TypeCall& call) {
  ETUDE_REQUIRE(call.rank(0) == 4 && call.rank(1) == 4,
                "operands have shapes {} and {}, but both must have 4 axes",
                call.shape(0).to_string(), call.shape(1).to_string());
  const std::vector<int64_t>& size = call.attrs.ints("size");
  ETUDE_REQUIRE(size.size() == 2 && size[0] >= 1 && size[1] >= 1,
                "size must be two numbers of at least 1: height and width");
  const int64_t groups = call.attrs.integer("groups");
  ETUDE_REQUIRE(groups >= 1 && groups <= kMaxCount, "groups is {}, but must be at least 1", groups);
}

ConvPlan input_gradient_plan(const Attrs& attrs, const Shape& ct, const Shape& filter) {
  const std::vector<int64_t>& size = attrs.ints("size");
  const int64_t channels = (CheckedInt(filter[2]) * attrs.integer("groups")).value();
  return plan_of(attrs, {ct[0], size[0], size[1], channels}, filter);
}

ConvPlan filter_gradient_plan(const Attrs& attrs, const Shape& x, const Shape& ct) {
  const std::vector<int64_t>& size = attrs.ints("size");
  return plan_of(attrs, x, {size[0], size[1], x[3] / attrs.integer("groups"), ct[3]});
}

void prepare_conv2d_input_gradient(const PrepareCall& call) {
  kernels::cpu::prepare_conv2d_input_gradient(
      call, input_gradient_plan(call.attrs, call.shape(0), call.shape(1)));
}

void prepare_conv2d_filter_gradient(const PrepareCall& call) {
  kernels::cpu::prepare_conv2d_filter_gradient(
      call, filter_gradient_plan(call.attrs, call.shape(0), call.shape(1)));
}

void define_gradients(Registry& r) {
  r.define({
      .name = "conv2d_input_gradient",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "The transpose of conv2d in x, for images of `size`.",
      .operands = {"ct", "filter"},
      .attrs = gradient_attrs(),
      .dtypes = kNumeric,
      .type =
          [](const TypeCall& call) {
            require_images(call);
            const ConvPlan p = input_gradient_plan(call.attrs, call.shape(0), call.shape(1));
            require_gradient(call, p, 0);
            return Types{call.make(call.dtype(0), {p.n, p.h, p.w, p.c})};
          },
      .kernels = {.cpu = prepare_conv2d_input_gradient},
      .transpose =
          [](Operands in, int wrt, const Tensor& ct, const Attrs& attrs) {
            if (wrt == 0) return conv2d(ct, internal::conj(in[1]), attrs);
            const Shape& filter = in[1].shape();
            return internal::conj(filter_gradient(ct, in[0], without_size(attrs), filter));
          },
      .batch = batching::joined<0b01>,
      .samples = {.calls = {{{"[2,3,4,2]", "[2,3,3,2]"},
                             {{"explicit_padding", ints({0, 0, 1, 1})}, {"size", ints({4, 4})}}}}},
      .errors = {{{"float32[2,3,3]", "float32[2,2,3,2]"},
                  "both must have 4 axes",
                  {{"explicit_padding", ints({0, 0, 0, 0})}, {"size", ints({4, 4})}}},
                 {{"float32[2,9,3,2]", "float32[2,2,3,2]"},
                  "operand 'ct' has shape [2,9,3,2]",
                  {{"explicit_padding", ints({0, 0, 0, 0})}, {"size", ints({4, 4})}}}},
  });
  r.define({
      .name = "conv2d_filter_gradient",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "The transpose of conv2d in filter, for filters of `size`.",
      .operands = {"x", "ct"},
      .attrs = gradient_attrs(),
      .dtypes = kNumeric,
      .type =
          [](const TypeCall& call) {
            require_images(call);
            const int64_t groups = call.attrs.integer("groups");
            ETUDE_REQUIRE(call.shape(0)[3] % groups == 0 && call.shape(1)[3] % groups == 0,
                          "the channels of operands 'x' {} and 'ct' {} do not divide by {} groups",
                          call.shape(0).to_string(), call.shape(1).to_string(), groups);
            const ConvPlan p = filter_gradient_plan(call.attrs, call.shape(0), call.shape(1));
            require_gradient(call, p, 1);
            return Types{call.make(call.dtype(0), {p.kh, p.kw, p.group_inputs(), p.o})};
          },
      .kernels = {.cpu = prepare_conv2d_filter_gradient},
      .transpose =
          [](Operands in, int wrt, const Tensor& ct, const Attrs& attrs) {
            if (wrt == 0)
              return input_gradient(internal::conj(in[1]), internal::conj(ct), without_size(attrs),
                                    in[0].shape());
            return conv2d(internal::conj(in[0]), ct, attrs);
          },
      .samples = {.calls = {{{"[2,4,4,3]", "[2,3,4,2]"},
                             {{"explicit_padding", ints({0, 0, 1, 1})}, {"size", ints({2, 3})}}}}},
      .errors = {{{"float32[2,4,4,3]", "float32[2,9,3,2]"},
                  "operand 'ct' has shape [2,9,3,2]",
                  {{"explicit_padding", ints({0, 0, 0, 0})}, {"size", ints({2, 2})}}}},
  });
}

std::vector<Sample> samples() {
  return {
      {{"[2,5,4,3]", "[3,2,3,4]", "-"}},
      {{"[1,5,6,2]", "[3,3,2,3]", "[3]"},
       {{"padding", std::string("same")}, {"strides", ints({2})}}},
      {{"[2,6,5,4]", "[2,2,2,6]", "[6]"}, {{"groups", int64_t{2}}, {"dilations", ints({2, 1})}}},
      {{"[1,4,4,1]", "[3,2,1,2]", "-"},
       {{"explicit_padding", ints({1, 0, 0, 2})}, {"strides", ints({1, 2})}}},
      {{"[0,4,4,2]", "[2,2,2,3]", "[3]"}},
  };
}

std::vector<ErrorCase> errors() {
  return {
      {{"float32[1,5,5,3]", "float32[3,3,2,4]", "-"},
       "3 channels in 1 groups need a filter with 3 channels, not 2"},
      {{"float32[1,5,5,3]", "float32[7,3,3,4]", "-"}, "no result is left"},
      {{"float32[5,5,3]", "float32[3,3,3,4]", "-"}, "operand 'x' has shape [5,5,3]"},
      {{"float32[1,5,5,3]", "float32[3,3,3]", "-"}, "operand 'filter' has shape [3,3,3]"},
      {{"float32[1,5,5,3]", "float32[3,3,3,4]", "float32[3]"}, "operand 'bias' has shape [3]"},
      {{"float32[1,5,5,4]", "float32[3,3,2,3]", "-"},
       "do not divide by 2 groups",
       {{"groups", int64_t{2}}}},
      {{"float32[1,5,5,4]", "float32[3,3,2,3]", "-"}, "groups is 0", {{"groups", int64_t{0}}}},
      {{"float32[1,5,5,3]", "float32[3,3,3,4]", "-"}, "strides is 0", {{"strides", ints({0})}}},
      {{"float32[1,5,5,3]", "float32[3,3,3,4]", "-"},
       "explicit_padding has 2 numbers",
       {{"explicit_padding", ints({1, 1})}}},
      {{"float32[1,5,5,3]", "float32[3,3,3,4]", "-"},
       "padding is 'full'",
       {{"padding", std::string("full")}}},
  };
}

void prepare_conv2d(const PrepareCall& call) {
  kernels::cpu::prepare_conv2d(call, plan_of(call.attrs, call.shape(0), call.shape(1)));
}

}  // namespace

void define_convolution(Registry& r) {
  r.define({
      .name = "conv2d",
      .space = "nn",
      .doc = "Convolution of x [n, height, width, channels] with filter [height, width, channels / "
             "groups, outputs], plus bias [outputs]. padding is \"valid\", \"same\" or "
             "explicit_padding {top, bottom, left, right}. strides and dilations are one number or "
             "two. Winograd's filtering may compute float32 filters of 3 by 3 with at least 16 "
             "channels, four pixels at a time. A result that is not finite then makes its "
             "neighbours not finite.",
      .operands = {"x", "filter", "bias?"},
      .attrs = {{"strides", std::vector<int64_t>{1}},
                {"padding", "valid"},
                {"explicit_padding", AttrKind::kInts, none},
                {"dilations", std::vector<int64_t>{1}},
                {"groups", 1}},
      .dtypes = kNumeric,
      .type = conv_type,
      .kernels = {.cpu = prepare_conv2d},
      .vjp = conv_vjp,
      .jvp = conv_jvp,
      .batch = batching::joined<0b001>,
      .samples = {.calls = samples()},
      .errors = errors(),
  });
  define_gradients(r);
}

}  // namespace etude::ops
