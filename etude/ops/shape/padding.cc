// SPDX-License-Identifier: Apache-2.0
// Borders around an array: constant ones, or elements of the array itself.
#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/index/copy.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/records.h"
#include "etude/ops/shape/fill.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

// Before and after each axis: one number for all, a pair for all, or a pair per axis.
Ints widths_of(const Attrs& attrs, int rank) {
  const Ints& given = attrs.ints("widths");
  const std::size_t all = 2 * at(rank);
  ETUDE_REQUIRE(given.size() == 1 || given.size() == 2 || given.size() == all,
                "widths has {} entries, but operand 'x' has rank {}. Give before and after for "
                "each axis, one such pair "
                "for all axes, or one number",
                given.size(), rank);
  Ints widths;
  for (std::size_t i = 0; i < all; ++i) widths.push_back(given[i % given.size()]);
  for (const int64_t w : widths) {
    ETUDE_REQUIRE(w >= 0 && w <= kMaxCount, "a width is {}. Widths are 0 or more", w);
  }
  return widths;
}

Values pad_batch(const BatchCall& call) {
  Ints widths = widths_of(call.attrs, call.rank(0));
  widths.insert(widths.begin(), {0, 0});
  return batching::call_again(call, {call.in[0]}, {{"widths", widths}});
}

Types constant_type(const TypeCall& call) {
  const Ints widths = widths_of(call.attrs, call.rank(0));
  Shape shape = call.shape(0);
  for (int a = 0; a < shape.rank(); ++a) {
    shape.set(a, shape[a] + widths[at(2 * a)] + widths[at(2 * a + 1)]);
  }
  return {call.make(call.dtype(0), shape)};
}

void prepare_pad(const PrepareCall& call) {
  const Shape &from = call.shape(0), &to = call.out.results[0]->shape();
  if (from == to) return call.view(0);
  const Ints widths = widths_of(call.attrs, from.rank());
  const int64_t item = itemsize(call.dtype(0));
  const kernels::cpu::Strides in = kernels::cpu::dense_strides(from),
                              out = kernels::cpu::dense_strides(to);
  int64_t offset = 0;
  for (int a = 0; a < from.rank(); ++a) offset += widths[at(2 * a)] * out[at(a)] * item;
  kernels::cpu::prepare_copy_into(call, kernels::cpu::plan_copy(from.sizes(), in, out, item),
                                  offset, call.attrs.real("value"));
}

Tensor constant_pad(const Tensor& x, const Ints& widths, double value) {
  return run(op<"pad_constant">(), {&x}, {widths, value});
}

Values constant_vjp(const VjpCall& call) {
  const Ints widths = widths_of(call.attrs, call.in[0].rank());
  Ints starts, stops;
  for (int a = 0; a < call.in[0].rank(); ++a) {
    starts.push_back(widths[at(2 * a)]);
    stops.push_back(widths[at(2 * a)] + call.in[0].shape()[a]);
  }
  return {slice(call.ct(), starts, stops)};
}

// Checks all of a call before its first axis is filled: modes, widths, and the size of the result.
Types pad_type(const TypeCall& call) {
  const std::string& mode = call.attrs.text("mode");
  ETUDE_REQUIRE(mode == "constant" || mode == "reflect" || mode == "symmetric" || mode == "edge" ||
                    mode == "wrap",
                "mode is \"{}\", but must be constant, reflect, symmetric, edge or wrap", mode);
  const Ints widths = widths_of(call.attrs, call.rank(0));
  for (int a = 0; mode != "constant" && a < call.rank(0); ++a) {
    const int64_t before = widths[at(2 * a)], after = widths[at(2 * a + 1)], n = call.shape(0)[a];
    if (before == 0 && after == 0) continue;
    const int64_t limit = mode == "reflect"     ? n - 1
                          : mode == "symmetric" ? n
                          : n == 0              ? 0
                                                : kMaxCount;
    ETUDE_REQUIRE(std::max(before, after) <= limit,
                  "widths {} and {} on axis {} of size {} are too large for mode \"{}\", which has "
                  "{} elements to show",
                  before, after, a, n, mode, std::max<int64_t>(limit, 0));
  }
  return constant_type(call);
}

// The indices of the elements of an axis of size n at the places from -before to n + after.
Tensor sources(const std::string& mode, int64_t before, int64_t n, int64_t after) {
  const Tensor places = arange(static_cast<double>(-before),
                               {.stop = static_cast<double>(n + after), .dtype = kInt64});
  const auto number = [](int64_t value) { return astype(Tensor(value), kInt64); };
  if (mode == "wrap") return places % number(n);
  if (mode == "edge") return minimum(maximum(places, number(0)), number(n - 1));
  if (mode == "reflect") return number(n - 1) - abs(number(n - 1) - abs(places));
  // The edges themselves are mirrored: the axes of symmetry lie between two elements.
  const Tensor halves = abs(number(2) * places + number(1));
  return floor_divide(number(2 * n) - abs(number(2 * n) - halves), number(2));
}

Values lower_pad(Operands in, const Attrs& attrs) {
  const std::string& mode = attrs.text("mode");
  const Ints widths = widths_of(attrs, in[0].rank());
  if (mode == "constant") {
    require_fill("value", attrs.real("value"), in[0].dtype());
    return {constant_pad(in[0], widths, attrs.real("value"))};
  }
  Tensor x = in[0];
  for (int a = 0; a < x.rank(); ++a) {
    const int64_t before = widths[at(2 * a)], after = widths[at(2 * a + 1)], n = x.shape()[a];
    if (before == 0 && after == 0) continue;
    x = take(x, sources(mode, before, n, after), {.axis = a});
  }
  return {x};
}

}  // namespace

void define_padding(Registry& r) {
  r.define({
      .name = "pad_constant",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "x with a border of one value.",
      .operands = {"x"},
      .attrs = {{"widths", AttrKind::kInts}, {"value", AttrKind::kReal}},
      .type = constant_type,
      .kernels = {.cpu = prepare_pad},
      .vjp = constant_vjp,
      .jvp =
          [](const JvpCall& call) {
            return Values{constant_pad(call.tangents[0], call.attrs.ints("widths"), 0)};
          },
      .batch = pad_batch,
      .samples = {.calls = {{{"[2,3]"}, {{"widths", Ints{1, 0, 0, 2}}, {"value", 1.0}}},
                            {{"[0]"}, {{"widths", Ints{1, 1}}, {"value", 0.0}}}}},
      .errors = {{{"float32[2]"}, "Widths are 0 or more", {{"widths", Ints{-1}}, {"value", 0.0}}}},
  });
  r.define({
      .name = "pad",
      .kind = Kind::kComposition,
      .doc = "x with a border. widths: the widths before and after each axis in turn, one pair for "
             "all axes, or one number. mode: constant (`value`), reflect (mirrored without the "
             "edge), symmetric (mirrored with the edge), edge or wrap.",
      .operands = {"x"},
      .attrs = {{"widths", AttrKind::kInts}, {"mode", "constant"}, {"value", 0.0}},
      .type = pad_type,
      .lower = lower_pad,
      .samples = {.calls = {{{"[2,3]"}, {{"widths", Ints{1, 0, 0, 2}}}},
                            {{"[2,3]"}, {{"widths", Ints{1}}, {"mode", std::string("reflect")}}},
                            {{"[2,3]"}, {{"widths", Ints{2}}, {"mode", std::string("symmetric")}}},
                            {{"[2,3]"}, {{"widths", Ints{0, 2}}, {"mode", std::string("edge")}}},
                            {{"[3]"}, {{"widths", Ints{4, 1}}, {"mode", std::string("wrap")}}}}},
      .errors = {{{"float32[2]"},
                  "are too large for mode \"reflect\"",
                  {{"widths", Ints{2}}, {"mode", std::string("reflect")}}},
                 {{"float32[2]"},
                  "must be constant, reflect",
                  {{"widths", Ints{2}}, {"mode", std::string("mirror")}}},
                 {{"float32[2,3]"},
                  "widths has 3 entries, but operand 'x' has rank 2",
                  {{"widths", Ints{1, 2, 3}}}},
                 {{"float32[2,3]"},
                  "multiply to more than 2^48",
                  {{"widths", Ints{int64_t{1} << 40}}, {"mode", std::string("wrap")}}}},
  });
}

}  // namespace etude::ops
