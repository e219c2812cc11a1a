// SPDX-License-Identifier: Apache-2.0
// Tensors made by a rule from few numbers: ranges, identity matrices, grids; and triangles.
#include "etude/kernels/cpu/index/patterns.h"

#include <algorithm>
#include <cmath>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/batching.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/records.h"
#include "etude/ops/shape/fill.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

// Doubles beyond this do not hold every integer.
constexpr double kExact = 9007199254740992.0;

struct Range {
  double start = 0, stop = 0, step = 1;
  int64_t count = 0;
  DType dtype = DType::kFloat32;
};

// arange(stop) counts from 0. Whole numbers give integers, as the literals of Python do.
Range range_of(const Attrs& attrs) {
  Range r;
  r.start = attrs.has("stop") ? attrs.real("start") : 0;
  r.stop = attrs.has("stop") ? attrs.real("stop") : attrs.real("start");
  r.step = attrs.real("step");
  ETUDE_REQUIRE(r.step != 0, "step is 0. Give a positive or negative one");
  ETUDE_REQUIRE(std::isfinite(r.start) && std::isfinite(r.stop) && std::isfinite(r.step),
                "start {}, stop {} and step {} must be finite", r.start, r.stop, r.step);
  const double count = std::ceil((r.stop - r.start) / r.step);
  ETUDE_REQUIRE(count <= static_cast<double>(kMaxCount),
                "the range from {} to {} by {} has too many elements", r.start, r.stop, r.step);
  r.count = count > 0 ? static_cast<int64_t>(count) : 0;
  const auto is_whole = [](double v) { return v == std::floor(v); };
  const bool whole = is_whole(r.start) && is_whole(r.stop) && is_whole(r.step);
  const bool wide = std::abs(r.start) > 2147483647.0 || std::abs(r.stop) > 2147483648.0;
  r.dtype = attrs.has("dtype") ? attrs.dtype("dtype") : !whole ? kFloat32 : wide ? kInt64 : kInt32;
  ETUDE_REQUIRE(!is_integer(r.dtype) || std::max(std::abs(r.start), std::abs(r.stop)) <= kExact,
                "integers beyond 2^53 cannot be given exactly. Make a smaller range and add to it");
  return r;
}

void prepare_arange(const PrepareCall& call) {
  const Range r = range_of(call.attrs);
  kernels::cpu::prepare_range(call, {.start = r.start, .step = r.step});
}

Types weights_type(const TypeCall& call) {
  const int64_t num = call.attrs.integer("num");
  ETUDE_REQUIRE(num >= 0, "num is {}. It is the number of elements, 0 or more", num);
  return {call.make(call.attrs.dtype("dtype"), Shape{num})};
}

// i / (num - 1), or i / num without the endpoint: the share of `stop` in element i.
void prepare_weights(const PrepareCall& call) {
  const bool has_end = call.attrs.flag("endpoint");
  const int64_t num = call.attrs.integer("num"), gaps = has_end ? num - 1 : num;
  kernels::cpu::prepare_range(
      call,
      {.step = gaps > 0 ? 1.0 / static_cast<double>(gaps) : 0, .last = 1, .has_last = has_end});
}

Tensor weights(const Attrs& attrs, DType dtype) {
  return run(op<"linspace_weights">(), OperandList(),
             {attrs.integer("num"), attrs.flag("endpoint"), dtype});
}

Values lower_linspace(Operands in, const Attrs& attrs) {
  ETUDE_REQUIRE(in[0].rank() == 0 && in[1].rank() == 0,
                "start and stop must be scalars, but have shapes {} and {}",
                in[0].shape().to_string(), in[1].shape().to_string());
  const Tensor w = weights(attrs, in[0].dtype());
  // Both ends are exact: the weights there are 0 and 1.
  return {in[0] * (internal::full(w.type(), 1) - w) + in[1] * w};
}

Types eye_type(const TypeCall& call) {
  const int64_t rows = call.attrs.integer("rows");
  const int64_t columns = call.attrs.has("cols") ? call.attrs.integer("cols") : rows;
  ETUDE_REQUIRE(rows >= 0 && columns >= 0, "a matrix cannot have {} rows and {} columns", rows,
                columns);
  Shape shape = shape_of(call.attrs, "batch_shape");
  shape.push_back(rows);
  shape.push_back(columns);
  return {call.make(call.attrs.dtype("dtype"), shape)};
}

void prepare_eye(const PrepareCall& call) {
  kernels::cpu::prepare_eye(call, call.attrs.integer("k"));
}

Types one_hot_type(const TypeCall& call) {
  const int64_t depth = call.attrs.integer("depth");
  ETUDE_REQUIRE(depth >= 0, "depth is {}. It is the number of classes, 0 or more", depth);
  const int axis = normalize_axis(call.attrs.integer("axis"), call.rank(0) + 1);
  Shape shape;
  for (int a = 0; a <= call.rank(0); ++a) {
    if (a == axis) shape.push_back(depth);
    if (a < call.rank(0)) shape.push_back(call.shape(0)[a]);
  }
  const DType dtype = call.attrs.dtype("dtype");
  require_fill("on", call.attrs.real("on"), dtype);
  require_fill("off", call.attrs.real("off"), dtype);
  return {call.make(dtype, shape)};
}

void prepare_one_hot(const PrepareCall& call) {
  const int axis = normalize_axis(call.attrs.integer("axis"), call.shape(0).rank() + 1);
  kernels::cpu::prepare_one_hot(call, axis, call.attrs.real("on"), call.attrs.real("off"));
}

template <bool kLower>
void prepare_triangle(const PrepareCall& call) {
  kernels::cpu::prepare_triangle(call, kLower, call.attrs.integer("k"));
}

Types matrix_type(const TypeCall& call) {
  ETUDE_REQUIRE(call.rank(0) >= 2, "operand 'x' has shape {}, but a matrix needs two axes",
                call.shape(0).to_string());
  return {call.types[0]};
}

Values lower_meshgrid(Operands in, const Attrs& attrs) {
  const std::string& indexing = attrs.text("indexing");
  ETUDE_REQUIRE(indexing == "xy" || indexing == "ij", "indexing is \"{}\", but must be xy or ij",
                indexing);
  const auto rank = static_cast<int>(in.size());
  const bool swaps = indexing == "xy" && rank >= 2;
  const auto axis_of = [&](int i) { return swaps && i < 2 ? 1 - i : i; };
  Ints shape(in.size(), 1);
  for (int i = 0; i < rank; ++i) {
    const Tensor& x = in[static_cast<std::size_t>(i)];
    ETUDE_REQUIRE(x.rank() == 1, "operand {} has shape {}, but coordinates have one axis", i,
                  x.shape().to_string());
    shape[static_cast<std::size_t>(axis_of(i))] = x.shape()[0];
  }
  Values out;
  for (int i = 0; i < rank; ++i) {
    Ints own(in.size(), 1);
    own[static_cast<std::size_t>(axis_of(i))] = in[static_cast<std::size_t>(i)].shape()[0];
    out.push_back(broadcast_to(reshape(in[static_cast<std::size_t>(i)], own), shape));
  }
  return out;
}

// On the device of x.
Tensor positions(int64_t size, DType dtype, const Tensor& x) {
  const std::string device = x.device().to_string();
  return run(op<"positions">(), OperandList(),
             {size, dtype, x.device().is_home() ? AttrView(none) : AttrView(device)});
}

Values lower_arange_like(Operands in, const Attrs& attrs) {
  const Shape& shape = in[0].shape();
  return {positions(shape[axis_of(attrs, shape)], attrs.dtype("dtype"), in[0])};
}

// The axis along which steps are counted; by default the axis after the axes of the lengths.
int mask_axis(const Shape& lengths, const Shape& x, const Attrs& attrs) {
  if (attrs.has("axis")) return axis_of(attrs, x);
  bool fits = lengths.rank() < x.rank();
  for (int a = 0; fits && a < lengths.rank(); ++a) fits = lengths[a] == x[a];
  ETUDE_REQUIRE(fits,
                "operand 'lengths' has shape {} and operand 'x' has shape {}, which must have the "
                "axes of the lengths in front and one more. Or give the axis of the steps",
                lengths.to_string(), x.to_string());
  return lengths.rank();
}

Values lower_sequence_mask(Operands in, const Attrs& attrs) {
  const Shape &lengths = in[0].shape(), &x = in[1].shape();
  const DType wide = in[0].dtype() == kUInt64 ? kUInt64 : kInt64;  // holds all lengths and steps
  const Tensor steps = positions(x[mask_axis(lengths, x, attrs)], wide, in[0]);
  return {steps < expand_dims(internal::cast(in[0], wide), {-1})};
}

template <bool kLower>
OpDef triangle(std::string_view name, std::string_view doc) {
  return {
      .name = name,
      .kind = Kind::kLinear,
      .doc = doc,
      .operands = {"x"},
      .attrs = {{"k", 0}},
      .type = matrix_type,
      .kernels = {.cpu = prepare_triangle<kLower>},
      .transpose =
          [](Operands, int, const Tensor& ct, const Attrs& attrs) {
            return run(kLower ? op<"tril">() : op<"triu">(), {&ct}, attrs);
          },
      .batch = batching::same,
      .samples = {.calls = {{{"[3,4]"}},
                            {{"[2,3,3]"}, {{"k", int64_t{1}}}},
                            {{"[3,2]"}, {{"k", int64_t{-1}}}}}},
      .errors = {{{"float32[3]"}, "a matrix needs two axes"}},
  };
}

void define_positions(Registry& r) {
  r.define({
      .name = "positions",
      .space = "internal",
      .doc = "0, 1, 2, ... up to before `size`. The size is a whole number, so that a graph for "
             "many sizes has a formula for it.",
      .operands = {},
      .attrs = {{"size", AttrKind::kInt}, {"dtype", kInt64}, {"device", AttrKind::kText, none}},
      .type =
          [](const TypeCall& call) {
            const int64_t size = call.attrs.integer("size");
            ETUDE_REQUIRE(size >= 0, "size is {}. It is the number of elements, 0 or more", size);
            return Types{call.make(call.attrs.dtype("dtype"), Shape{size})};
          },
      .kernels = {.cpu = [](const PrepareCall& call) { kernels::cpu::prepare_range(call, {}); }},
      .no_derivative = "there are no operands",
      .samples = {.calls = {{{}, {{"size", int64_t{5}}}},
                            {{}, {{"size", int64_t{3}}, {"dtype", kFloat32}}}}},
      .errors = {{{}, "size is -1", {{"size", int64_t{-1}}}}},
  });
  r.define({
      .name = "arange_like",
      .kind = Kind::kComposition,
      .doc = "0, 1, 2, ... for the indices along an axis of x, as int64 unless another dtype is "
             "given. Only the shape of x matters. Host code does not read the shape, so the size "
             "may be open in a staged function.",
      .operands = {"x"},
      .attrs = {{"axis", 0}, {"dtype", kInt64}},
      .lower = lower_arange_like,
      .no_derivative = "positions do not depend on elements",
      .samples = {.calls = {{{"[4]"}},
                            {{"[2,3]"}, {{"axis", int64_t{-1}}, {"dtype", kFloat32}}},
                            {{"[0,2]"}}}},
      .errors = {{{"float32[2,3]"},
                  "axis 2 is outside [-2, 2)",
                  {{"axis", int64_t{2}}},
                  ErrorCode::kOutOfRange},
                 {{"float32[]"}, "axis 0 is outside", {}, ErrorCode::kOutOfRange}},
  });
}

void define_sequence_mask(Registry& r) {
  r.define({
      .name = "sequence_mask",
      .kind = Kind::kComposition,
      .doc = "The mask of padded sequences: true at step t of a sequence if t is below its "
             "length. shapes: lengths [..], result bool [.., steps]. The number of steps "
             "is the size of an axis of x: by default the axis after the axes of the "
             "lengths. Only the shape of x matters, and its sizes may be open in a staged "
             "function.",
      .operands = {{"lengths", kIntegers}, "x"},
      .attrs = {{"axis", AttrKind::kInt, none}},
      .lower = lower_sequence_mask,
      .no_derivative = kPiecewiseConstant,
      .samples =
          {.calls = {{{"int32[2]", "float32[2,4]"}, {}, {{0, 5}, {-2, 2}}},
                     {{"int64[]", "float32[3]"}, {}, {{0, 3}, {-2, 2}}},
                     {{"int32[2,3]", "float32[5,2]"}, {{"axis", int64_t{0}}}, {{0, 5}, {-2, 2}}}}},
      .errors = {{{"int32[3]", "float32[2,4]"}, "operand 'lengths' has shape [3]"},
                 {{"int32[2]", "float32[2]"}, "Or give the axis of the steps"},
                 {{"int32[2]", "float32[2,4]"},
                  "axis 2 is outside [-2, 2)",
                  {{"axis", int64_t{2}}},
                  ErrorCode::kOutOfRange}},
  });
}

void define_ranges(Registry& r) {
  r.define({
      .name = "arange",
      .kind = Kind::kGeneral,
      .doc = "start, start + step, ... up to the last number before stop. arange(n) counts from 0 "
             "to n - 1. If start, stop and step are whole numbers, the dtype defaults to int32, or "
             "to int64 if int32 is too narrow. Otherwise it defaults to float32.",
      .operands = {},
      .attrs = {{"start", AttrKind::kReal},
                {"stop", AttrKind::kReal, none},
                {"step", 1.0},
                {"dtype", AttrKind::kDType, none},
                {"device", AttrKind::kText, none}},
      .type =
          [](const TypeCall& call) {
            const Range range = range_of(call.attrs);
            return Types{call.make(range.dtype, Shape{range.count})};
          },
      .kernels = {.cpu = prepare_arange},
      .no_derivative = "there are no operands",
      .samples = {.calls = {{{}, {{"start", 5.0}}},
                            {{}, {{"start", 1.0}, {"stop", 0.0}, {"step", -0.25}}}}},
      .errors = {{{}, "step is 0", {{"start", 5.0}, {"step", 0.0}}}},
  });
  r.define({
      .name = "linspace_weights",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "`num` equally spaced numbers from 0 to 1.",
      .operands = {},
      .attrs = {{"num", AttrKind::kInt}, {"endpoint", true}, {"dtype", kFloat32}},
      .type = weights_type,
      .kernels = {.cpu = prepare_weights},
      .no_derivative = "there are no operands",
      .samples = {.calls = {{{}, {{"num", int64_t{5}}}}}},
      .errors = {{{}, "num is -1", {{"num", int64_t{-1}}}}},
  });
  r.define({
      .name = "linspace",
      .kind = Kind::kComposition,
      .doc = "`num` equally spaced numbers from start to stop, both exact. Without `endpoint`, "
             "stop is left out.",
      .operands = {"start", "stop"},
      .attrs = {{"num", AttrKind::kInt}, {"endpoint", true}},
      .dtypes = kFloatingComplex,
      .casts_integers = true,
      .lower = lower_linspace,
      .samples = {.calls = {{{"[]", "[]"}, {{"num", int64_t{5}}}},
                            {{"[]", "[]"}, {{"num", int64_t{4}}, {"endpoint", false}}},
                            {{"[]", "[]"}, {{"num", int64_t{1}}}},
                            {{"[]", "[]"}, {{"num", int64_t{0}}}}}},
      .errors = {{{"float32[]", "float32[]"}, "num is -1", {{"num", int64_t{-1}}}},
                 {{"float32[2]", "float32[]"}, "must be scalars", {{"num", int64_t{2}}}}},
  });
}

void define_matrices(Registry& r) {
  r.define({
      .name = "eye",
      .kind = Kind::kGeneral,
      .doc = "Matrices with ones on diagonal k and zeros elsewhere.",
      .operands = {},
      .attrs = {{"rows", AttrKind::kInt},
                {"cols", AttrKind::kInt, none},
                {"k", 0},
                {"batch_shape", Ints{}},
                {"dtype", kFloat32},
                {"device", AttrKind::kText, none}},
      .type = eye_type,
      .kernels = {.cpu = prepare_eye},
      .no_derivative = "there are no operands",
      .samples = {.calls = {{{}, {{"rows", int64_t{3}}}},
                            {{},
                             {{"rows", int64_t{2}},
                              {"cols", int64_t{3}},
                              {"k", int64_t{1}},
                              {"batch_shape", Ints{2}}}}}},
      .errors = {{{}, "cannot have -1 rows", {{"rows", int64_t{-1}}}},
                 {{},
                  "batch_shape [-1] has a negative size",
                  {{"rows", int64_t{2}}, {"batch_shape", Ints{-1}}}}},
  });
  r.define({
      .name = "one_hot",
      .kind = Kind::kGeneral,
      .doc = "`on` at the index along a new axis of size `depth`, `off` elsewhere. An index out of "
             "range makes all elements `off`.",
      .operands = {{"indices", kIntegers}},
      .attrs =
          {{"depth", AttrKind::kInt}, {"on", 1.0}, {"off", 0.0}, {"axis", -1}, {"dtype", kFloat32}},
      .type = one_hot_type,
      .kernels = {.cpu = prepare_one_hot},
      .batch = batching::along_new_axis,
      .no_derivative = "indices are integers",
      .samples =
          {.calls = {{{"int32[4]"}, {{"depth", int64_t{3}}}, {{-1, 3}}},
                     {{"int64[2,2]"}, {{"depth", int64_t{3}}, {"axis", int64_t{0}}}, {{0, 2}}}}},
      .errors = {{{"int32[2]"}, "depth is -1", {{"depth", int64_t{-1}}}}},
  });
  r.define(triangle<true>("tril", "x with zeros above diagonal k of its last two axes."));
  r.define(triangle<false>("triu", "x with zeros below diagonal k of its last two axes."));
  r.define({
      .name = "meshgrid",
      .kind = Kind::kComposition,
      .doc = "Coordinates of all points of a grid: one array per operand, with axes in the order "
             "of the operands (ij) or "
             "with the first two swapped (xy).",
      .operands = {"xs..."},
      .attrs = {{"indexing", "xy"}},
      .results = {"ys..."},
      .lower = lower_meshgrid,
      .samples = {.calls = {{{"[2]", "[3]"}},
                            {{"[2]", "[3]", "[2]"}, {{"indexing", std::string("ij")}}}}},
      .errors = {{{"float32[2,2]"}, "coordinates have one axis"},
                 {{"float32[2]"}, "must be xy or ij", {{"indexing", std::string("yx")}}}},
  });
}

}  // namespace

void define_patterns(Registry& r) {
  define_ranges(r);
  define_positions(r);
  define_sequence_mask(r);
  define_matrices(r);
}

}  // namespace etude::ops
