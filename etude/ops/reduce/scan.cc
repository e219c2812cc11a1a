// SPDX-License-Identifier: Apache-2.0
// Cumulative sums and products, and the ops that their derivatives are made of.
#include "etude/kernels/cpu/reduce/scan.h"

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/reduce/reduce.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

std::vector<AttrDef> scan_attrs() {
  return {{"axis", AttrKind::kInt, none},
          {"exclusive", false},
          {"reverse", false},
          {"include_initial", false}};
}

// The axis of a scan: only a value with one axis may leave it open.
int scan_axis(const Attrs& attrs, const Shape& shape) {
  if (attrs.has("axis")) return normalize_axis(attrs.integer("axis"), shape.rank());
  ETUDE_REQUIRE(shape.rank() == 1, "operand 'x' of shape {} has {} axes, so 'axis' is required",
                shape.to_string(), shape.rank());
  return 0;
}

Types cumulative_type(const TypeCall& call) {
  Shape shape = call.shape(0);
  const int axis = scan_axis(call.attrs, shape);
  const bool longer = call.attrs.flag("include_initial");
  ETUDE_REQUIRE(!longer || !call.attrs.flag("exclusive"),
                "exclusive and include_initial are both true. Choose one: include_initial is the "
                "exclusive result and "
                "then the total");
  if (longer) shape.set(axis, shape[axis] + 1);
  return {call.make(kernels::cpu::reduced_dtype(kernels::cpu::Reduce::kSum, call.dtype(0)), shape)};
}

template <kernels::cpu::Scan kScan>
void scan_kernel(const PrepareCall& call) {
  kernels::cpu::prepare_scan(call, kScan,
                             {.axis = scan_axis(call.attrs, call.shape(0)),
                              .reverse = call.attrs.flag("reverse"),
                              .exclusive = call.attrs.flag("exclusive"),
                              .include_initial = call.attrs.flag("include_initial")});
}

Tensor run_scan(std::string_view name, const Tensor& x, int64_t axis, bool exclusive,
                bool reverse) {
  return run(op(name), {&x}, {axis, exclusive, reverse, false});
}

// Elements [start, start + size) along an axis.
Tensor part_along(const Tensor& x, int axis, int64_t start, int64_t size) {
  Ints from(static_cast<std::size_t>(x.rank()), 0), to = x.shape().to_vector();
  from[static_cast<std::size_t>(axis)] = start;
  to[static_cast<std::size_t>(axis)] = start + size;
  return run(op<"slice">(), {&x}, {from, to, none});
}

Tensor shift(const Tensor& x, int64_t axis, int64_t by) {
  return run(op<"shift_along">(), {&x}, {axis, by});
}

Tensor linear_scan(const Tensor& a, const Tensor& b, int64_t axis, bool reverse) {
  return run(op<"linear_scan">(), {&a, &b}, {axis, reverse});
}

// The transpose of a running sum is a running sum in the other direction.
Tensor cumulative_sum_transpose(Operands in, int, const Tensor& ct, const Attrs& attrs) {
  const int axis = scan_axis(attrs, in[0].shape());
  const bool reverse = attrs.flag("reverse"), longer = attrs.flag("include_initial");
  const bool exclusive = longer ? !reverse : attrs.flag("exclusive");
  const Tensor g = internal::cast(ct, in[0].dtype());
  if (!longer) return run_scan("cumulative_sum", g, axis, exclusive, !reverse);
  return part_along(run_scan("cumulative_sum", g, axis, exclusive, !reverse), axis, 0,
                    in[0].shape()[axis]);
}

// d/dx_k is (product before k) times sum_i ct_i (product of the elements between k and i): the
// second factor is a linear recurrence, so there is no division and zeros need no special case.
Values cumulative_prod_vjp(const VjpCall& call) {
  const Tensor& x = call.in[0];
  const int axis = scan_axis(call.attrs, x.shape());
  const bool reverse = call.attrs.flag("reverse"), longer = call.attrs.flag("include_initial");
  const int64_t back = reverse ? 1 : -1;  // brings the next element here
  Tensor ct = call.ct();
  if (longer) ct = part_along(ct, axis, reverse ? 0 : 1, x.shape()[axis]);
  if (call.attrs.flag("exclusive")) ct = shift(ct, axis, back);
  const Tensor before = internal::conj(run_scan("cumulative_prod", x, axis, true, reverse));
  const Tensor next = internal::conj(shift(x, axis, back));
  return {before * linear_scan(next, ct, axis, !reverse)};
}

// With r the result and l its cotangent carried on, l[i] = ct[i] + a[i + 1] l[i + 1], the
// cotangents are l for b and l[i] r[i - 1] for a.
Values linear_vjp(const VjpCall& call) {
  const int64_t axis = call.attrs.integer("axis");
  const bool reverse = call.attrs.flag("reverse");
  const int64_t back = reverse ? 1 : -1;
  const Tensor next = internal::conj(shift(call.in[0], axis, back));
  const Tensor carried = linear_scan(next, call.ct(), axis, !reverse);
  Values out(2);
  if (call.wants(0)) out[0] = carried * internal::conj(shift(call.out[0], axis, -back));
  if (call.wants(1)) out[1] = carried;
  return out;
}

Samples scan_samples() {
  Samples samples;
  samples.calls = {
      {{"[5]"}},
      {{"[2,3,4]"}, {{"axis", int64_t{1}}}},
      {{"[2,3]"}, {{"axis", int64_t{0}}, {"reverse", true}}},
      {{"[3,4]"}, {{"axis", int64_t{-1}}, {"exclusive", true}}},
      {{"[3,4]"}, {{"axis", int64_t{-1}}, {"exclusive", true}, {"reverse", true}}},
      {{"[4]"}, {{"include_initial", true}}},
      {{"[2,4]"}, {{"axis", int64_t{1}}, {"include_initial", true}, {"reverse", true}}}};
  return samples;
}

std::vector<ErrorCase> scan_errors() {
  return {{{"float32[2,3]"}, "so 'axis' is required"},
          {{"float32[2,3]"},
           "axis 2 is outside [-2, 2)",
           {{"axis", int64_t{2}}},
           ErrorCode::kOutOfRange},
          {{"float32[3]"},
           "exclusive and include_initial are both true",
           {{"exclusive", true}, {"include_initial", true}}}};
}

void define_running(Registry& r) {
  r.define({
      .name = "cumulative_sum",
      .kind = Kind::kLinear,
      .doc = "Running sums along an axis. `exclusive` leaves out the element itself. `reverse` "
             "starts at the end. include_initial puts 0 in front, so the result is longer by one.",
      .operands = {"x"},
      .attrs = scan_attrs(),
      .dtypes = kNumeric,
      .type = cumulative_type,
      .kernels = {.cpu = scan_kernel<kernels::cpu::Scan::kSum>},
      .transpose = cumulative_sum_transpose,
      .batch = batching::along_axis,
      .samples = scan_samples(),
      .errors = scan_errors(),
  });
  r.define({
      .name = "cumulative_prod",
      .doc = "Running products along an axis. `exclusive` leaves out the element itself. `reverse` "
             "starts at the end. include_initial puts 1 in front, so the result is longer by one.",
      .operands = {"x"},
      .attrs = scan_attrs(),
      .dtypes = kNumeric,
      .type = cumulative_type,
      .kernels = {.cpu = scan_kernel<kernels::cpu::Scan::kProd>},
      .vjp = cumulative_prod_vjp,
      .batch = batching::along_axis,
      .samples = scan_samples(),
      .errors = scan_errors(),
  });
}

void prepare_linear_scan(const PrepareCall& call) {
  kernels::cpu::prepare_linear_scan(
      call, normalize_axis(call.attrs.integer("axis"), call.shape(0).rank()),
      call.attrs.flag("reverse"));
}

void prepare_shift_along(const PrepareCall& call) {
  kernels::cpu::prepare_shift(call,
                              normalize_axis(call.attrs.integer("axis"), call.shape(0).rank()),
                              call.attrs.integer("by"));
}

}  // namespace

void define_scan(Registry& r) {
  define_running(r);
  r.define({
      .name = "linear_scan",
      .space = "internal",
      .doc =
          "The recurrence r[i] = b[i] + a[i] r[i - 1] along an axis, or r[i + 1] in reverse. Where "
          "a[i] is 0, r[i] is b[i], also after an infinity or a NaN.",
      .operands = {"a", "b"},
      .attrs = {{"axis", AttrKind::kInt}, {"reverse", false}},
      .dtypes = kFloatingComplex,
      .type =
          [](const TypeCall& call) {
            ETUDE_REQUIRE(call.types[0] == call.types[1],
                          "operands 'a' and 'b' are {} and {}, but must be alike",
                          call.types[0]->to_string(), call.types[1]->to_string());
            normalize_axis(call.attrs.integer("axis"), call.rank(0));
            return Types{call.types[0]};
          },
      .kernels = {.cpu = prepare_linear_scan},
      .vjp = linear_vjp,
      .batch = batching::along_axis,
      .samples = {.calls = {{{"[5]", "[5]"}, {{"axis", int64_t{0}}}},
                            {{"[2,3,2]", "[2,3,2]"}, {{"axis", int64_t{1}}, {"reverse", true}}}}},
      .errors = {{{"float32[2]", "float32[3]"}, "must be alike", {{"axis", int64_t{0}}}}},
  });
  r.define({
      .name = "shift_along",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "y[i] = x[i - by] along an axis, and 0 where there is no such element.",
      .operands = {"x"},
      .attrs = {{"axis", AttrKind::kInt}, {"by", AttrKind::kInt}},
      .dtypes = kFloatingComplex,
      .type =
          [](const TypeCall& call) {
            normalize_axis(call.attrs.integer("axis"), call.rank(0));
            return Types{call.types[0]};
          },
      .kernels = {.cpu = prepare_shift_along},
      .transpose =
          [](Operands, int, const Tensor& ct, const Attrs& attrs) {
            return shift(ct, attrs.integer("axis"), -attrs.integer("by"));
          },
      .batch = batching::along_axis,
      .samples = {.calls = {{{"[5]"}, {{"axis", int64_t{0}}, {"by", int64_t{1}}}},
                            {{"[2,3,2]"}, {{"axis", int64_t{1}}, {"by", int64_t{-2}}}},
                            {{"[3]"}, {{"axis", int64_t{0}}, {"by", int64_t{7}}}}}},
      .errors = {{{"float32[2]"},
                  "axis 1 is outside",
                  {{"axis", int64_t{1}}, {"by", int64_t{1}}},
                  ErrorCode::kOutOfRange}},
  });
}

}  // namespace etude::ops
