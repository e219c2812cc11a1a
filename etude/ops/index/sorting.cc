// SPDX-License-Identifier: Apache-2.0
// Order along an axis: sort, positions, extreme positions, and moving elements by positions.
#include "etude/kernels/cpu/index/sorting.h"

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/op/batching.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

constexpr std::string_view kPosition = "positions do not depend smoothly on elements";
constexpr std::string_view kTies = "neighbours may change places within the step of the check";

std::vector<ErrorCase> sorting_errors(
    std::vector<std::pair<std::string_view, AttrValue>> more = {}) {
  more.emplace_back("axis", int64_t{2});
  return {{{"float32[2,3]"}, "axis 2 is outside [-2, 2)", more, ErrorCode::kOutOfRange}};
}

// Cotangents of picked elements go back to where the elements were.
Tensor put_back(const Tensor& ct, const Tensor& places, const Shape& shape, int axis) {
  return run(op<"spread_along_axis">(), {&ct, &places}, {axis, shape[axis]});
}

Tensor average_ties(const Tensor& x, const Tensor& sorted, int axis) {
  return run(op<"average_ties">(), {&x, &sorted}, {axis});
}

// k tied elements share the cotangents of their places, 1/k each, as with max and min.
Values sort_vjp(const VjpCall& call) {
  const Tensor& x = call.in[0];
  const int axis = axis_of(call.attrs, x.shape());
  const Tensor places =
      run(op<"argsort">(), {&x}, {call.attrs.value("axis"), call.attrs.value("descending"), true});
  return {put_back(average_ties(call.ct(), call.out[0], axis), places, x.shape(), axis)};
}

Types same_axis_type(const TypeCall& call) {
  axis_of(call.attrs, call.shape(0));
  return {call.types[0]};
}

Types top_k_type(const TypeCall& call) {
  Shape shape = call.shape(0);
  const int axis = axis_of(call.attrs, shape);
  const int64_t k = call.attrs.integer("k");
  ETUDE_REQUIRE(k >= 0 && k <= shape[axis], "k is {}, but axis {} of operand 'x' has {} elements",
                k, axis, shape[axis]);
  shape.set(axis, k);
  return {call.make(call.dtype(0), shape), call.make(kInt64, shape)};
}

template <bool kLargest>
Types arg_extreme_type(const TypeCall& call) {
  const Shape& shape = call.shape(0);
  const bool keepdims = call.attrs.flag("keepdims");
  std::vector<int> axes;
  if (call.attrs.has("axis"))
    axes.push_back(axis_of(call.attrs, shape));
  else
    for (int axis = 0; axis < shape.rank(); ++axis) axes.push_back(axis);
  ETUDE_REQUIRE(reduced_count(shape, axes) != 0,
                "operand 'x' of shape {} has no element along the axis, and nothing is the {} of "
                "none. Check x.size() first",
                shape.to_string(), kLargest ? "largest" : "smallest");
  return {call.make(kInt64, reduced_shape(shape, axes, keepdims))};
}

template <bool kLargest>
void arg_extreme_kernel(const PrepareCall& call) {
  kernels::cpu::prepare_arg_extreme(
      call, call.attrs.has("axis") ? axis_of(call.attrs, call.shape(0)) : -1, kLargest);
}

template <bool kLargest>
OpDef arg_extreme(std::string_view name, std::string_view doc) {
  return {
      .name = name,
      .doc = doc,
      .operands = {"x"},
      .attrs = {{"axis", AttrKind::kInt, none}, {"keepdims", false}},
      .dtypes = kReal,
      .type = arg_extreme_type<kLargest>,
      .kernels = {.cpu = arg_extreme_kernel<kLargest>},
      .batch = batching::along_axis,
      .no_derivative = kPosition,
      .samples = {.calls = {{{"[2,3]"}},
                            {{"[4,5]"}, {{"axis", int64_t{0}}}},
                            {{"[2,3,4]"}, {{"axis", int64_t{1}}, {"keepdims", true}}},
                            {{"[]"}}}},
      .errors = {{{"float32[2,3]"},
                  "axis 2 is outside [-2, 2)",
                  {{"axis", int64_t{2}}},
                  ErrorCode::kOutOfRange},
                 {{"float32[2,0]"}, "has no element along the axis", {{"axis", int64_t{1}}}},
                 {{"float32[0]"}, "has no element along the axis"}},
  };
}

void prepare_sort(const PrepareCall& call) {
  kernels::cpu::prepare_sort(call, axis_of(call.attrs, call.shape(0)),
                             call.attrs.flag("descending"));
}

void prepare_argsort(const PrepareCall& call) {
  kernels::cpu::prepare_argsort(call, axis_of(call.attrs, call.shape(0)),
                                call.attrs.flag("descending"));
}

void prepare_top_k(const PrepareCall& call) {
  kernels::cpu::prepare_top_k(call, axis_of(call.attrs, call.shape(0)), call.attrs.integer("k"));
}

void define_sorts(Registry& r) {
  const Samples samples = {.calls = {{{"[5]"}},
                                     {{"[3,4]"}, {{"axis", int64_t{0}}}},
                                     {{"[2,3,4]"}, {{"axis", int64_t{1}}, {"descending", true}}}},
                           .no_gradient_check = kTies};
  r.define({
      .name = "sort",
      .doc = "x in ascending or descending order along an axis. NaN comes last. Equal elements "
             "keep their order and share their cotangents equally.",
      .operands = {"x"},
      .attrs = {{"axis", -1}, {"descending", false}, {"stable", true}},
      .dtypes = kReal,
      .type = same_axis_type,
      .kernels = {.cpu = prepare_sort},
      .vjp = sort_vjp,
      .batch = batching::along_axis,
      .samples = samples,
      .errors = sorting_errors(),
  });
  r.define({
      .name = "average_ties",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "x, in which elements are replaced by their mean where those of `sorted`, in order "
             "along an axis, are equal: linear in x, and its own transpose.",
      .operands = {"x", "sorted"},
      .attrs = {{"axis", AttrKind::kInt}},
      .dtypes = kFloating,
      .type =
          [](const TypeCall& call) {
            ETUDE_REQUIRE(call.types[0] == call.types[1],
                          "operands 'x' and 'sorted' are {} and {}, but must be alike",
                          call.types[0]->to_string(), call.types[1]->to_string());
            axis_of(call.attrs, call.shape(0));
            return Types{call.types[0]};
          },
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        kernels::cpu::prepare_average_ties(call,
                                                           axis_of(call.attrs, call.shape(0)));
                      }},
      .vjp =
          [](const VjpCall& call) {
            Values out(2);
            const int axis = axis_of(call.attrs, call.in[1].shape());
            if (call.wants(0)) out[0] = average_ties(call.ct(), call.in[1], axis);
            return out;
          },
      .jvp = [](const JvpCall& call) -> Values {
        if (!call.tangents[0].has_value()) return Values(1);
        return {
            average_ties(call.tangents[0], call.in[1], axis_of(call.attrs, call.in[1].shape()))};
      },
      .batch = batching::along_axis,
      .samples = {.calls = {{{"[5]", "[5]"}, {{"axis", int64_t{0}}}, {{-2, 2}, {1, 1}}},
                            {{"[2,3,2]", "[2,3,2]"}, {{"axis", int64_t{1}}}, {{-2, 2}, {1, 1}}}},
                  .no_gradient_check = kTies},
      .errors = {{{"float32[2]", "float32[3]"}, "must be alike", {{"axis", int64_t{0}}}}},
  });
  r.define({
      .name = "argsort",
      .doc = "Positions, as int64, that sort x along an axis. NaN comes last. Equal elements keep "
             "their order.",
      .operands = {"x"},
      .attrs = {{"axis", -1}, {"descending", false}, {"stable", true}},
      .dtypes = kReal,
      .type =
          [](const TypeCall& call) {
            axis_of(call.attrs, call.shape(0));
            return Types{call.make(kInt64, call.shape(0))};
          },
      .kernels = {.cpu = prepare_argsort},
      .batch = batching::along_axis,
      .no_derivative = kPosition,
      .samples = samples,
      .errors = sorting_errors(),
  });
  std::vector<ErrorCase> errors = sorting_errors({{"k", int64_t{1}}});
  errors.push_back(
      {{"float32[2,3]"}, "k is 4, but axis 1 of operand 'x' has 3 elements", {{"k", int64_t{4}}}});
  r.define({
      .name = "top_k",
      .doc = "The k largest elements along an axis, largest first, and their positions as int64. "
             "Cotangents go to these positions, even if other positions have equal elements.",
      .operands = {"x"},
      .attrs = {{"k", AttrKind::kInt}, {"axis", -1}},
      .results = {"values", "indices"},
      .dtypes = kReal,
      .type = top_k_type,
      .kernels = {.cpu = prepare_top_k},
      .vjp =
          [](const VjpCall& call) {
            Values out(1);
            if (!call.cotangents[0].has_value()) return out;
            const Shape& shape = call.in[0].shape();
            out[0] = put_back(call.ct(), call.out[1], shape, axis_of(call.attrs, shape));
            return out;
          },
      .batch = batching::along_axis,
      .samples = {.calls = {{{"[5]"}, {{"k", int64_t{2}}}},
                            {{"[3,4]"}, {{"k", int64_t{3}}, {"axis", int64_t{0}}}},
                            {{"[2,3]"}, {{"k", int64_t{0}}}}},
                  .no_gradient_check = kTies},
      .errors = errors,
  });
  r.define(
      arg_extreme<true>("argmax",
                        "Position of the first largest element along an axis, as int64. Without an "
                        "axis, the position in the flat x. NaN counts as the largest element."));
  r.define(arg_extreme<false>(
      "argmin",
      "Position of the first smallest element along an axis, as int64. Without an axis, the "
      "position in the flat x. NaN counts as the smallest element."));
}

}  // namespace

void define_sorting(Registry& r) { define_sorts(r); }

}  // namespace etude::ops
