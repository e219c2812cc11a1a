// SPDX-License-Identifier: Apache-2.0
// Ops that put arrays together along an axis and take them apart again.
#include "etude/kernels/cpu/index/joining.h"

#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/batching.h"
#include "etude/ops.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

// -1: an empty list of axes, which flattens.
int concat_axis(const Attrs& attrs, int rank) {
  const Ints& axis = attrs.ints("axis");
  ETUDE_REQUIRE(axis.size() <= 1,
                "axis has {} entries. Join along one axis, or give none to flatten", axis.size());
  return axis.empty() ? -1 : normalize_axis(axis[0], rank);
}

Types concat_type(const TypeCall& call) {
  ETUDE_REQUIRE(!call.types.empty(), "there are no operands. Give at least one");
  const int axis = concat_axis(call.attrs, call.rank(0));
  Shape shape = axis < 0 ? Shape{0} : call.shape(0);
  int64_t joined = 0;
  for (std::size_t i = 0; i < call.types.size(); ++i) {
    const Shape& part = call.shape(i);
    const int64_t size = axis < 0 ? call.types[i]->count() : part.rank() > axis ? part[axis] : 0;
    joined += size;
    if (axis < 0) continue;
    bool fits = part.rank() == shape.rank();
    for (int a = 0; fits && a < part.rank(); ++a) fits = a == axis || part[a] == shape[a];
    ETUDE_REQUIRE(
        fits,
        "operand {} has shape {} and operand 0 has shape {}; they must agree in rank and on all "
        "axes but {}. Reshape one of them",
        i, part.to_string(), call.shape(0).to_string(), axis);
  }
  shape.set(axis < 0 ? 0 : axis, joined);
  return {call.make(call.dtype(0), shape)};
}

void prepare_concat(const PrepareCall& call) {
  const int axis = concat_axis(call.attrs, call.shape(0).rank());
  Ints sizes;
  for (std::size_t i = 0; i < call.types.size(); ++i) {
    sizes.push_back(axis < 0 ? call.types[i]->count() : call.shape(i)[axis]);
  }
  if (call.types.size() == 1) return call.view(0);
  kernels::cpu::prepare_join(call, std::max(axis, 0), sizes);
}

Tensor concat_back(Operands in, int wrt, const Tensor& ct, const Attrs& attrs) {
  const int axis = concat_axis(attrs, in[0].rank());
  int64_t start = 0;
  const auto size_of = [&](int i) {
    const Tensor& x = in[static_cast<std::size_t>(i)];
    return axis < 0 ? x.size() : x.shape()[axis];
  };
  for (int i = 0; i < wrt; ++i) start += size_of(i);
  Ints starts(static_cast<std::size_t>(ct.rank()), 0), stops = ct.shape().to_vector();
  const auto at = static_cast<std::size_t>(std::max(axis, 0));
  starts[at] = start;
  stops[at] = start + size_of(wrt);
  const Tensor part = slice(ct, starts, stops);
  return axis < 0 ? reshape(part, in[static_cast<std::size_t>(wrt)].shape()) : part;
}

Types stack_type(const TypeCall& call) {
  ETUDE_REQUIRE(!call.types.empty(), "there are no operands. Give at least one");
  for (std::size_t i = 1; i < call.types.size(); ++i) {
    ETUDE_REQUIRE(call.shape(i) == call.shape(0),
                  "operand {} has shape {} and operand 0 has shape {}; all shapes must be equal", i,
                  call.shape(i).to_string(), call.shape(0).to_string());
  }
  const int axis = normalize_axis(call.attrs.integer("axis"), call.rank(0) + 1);
  Shape shape;
  for (int a = 0; a <= call.rank(0); ++a) {
    if (a == axis) shape.push_back(static_cast<int64_t>(call.types.size()));
    if (a < call.rank(0)) shape.push_back(call.shape(0)[a]);
  }
  return {call.make(call.dtype(0), shape)};
}

void prepare_stack(const PrepareCall& call) {
  const Shape& shape = call.out.results[0]->shape();
  const int axis = normalize_axis(call.attrs.integer("axis"), shape.rank());
  if (call.types.size() == 1) return call.view(0);
  kernels::cpu::prepare_join(call, axis, Ints(call.types.size(), 1));
}

Tensor stack_back(Operands, int wrt, const Tensor& ct, const Attrs& attrs) {
  const int axis = normalize_axis(attrs.integer("axis"), ct.rank());
  Ints starts(static_cast<std::size_t>(ct.rank()), 0), stops = ct.shape().to_vector();
  starts[static_cast<std::size_t>(axis)] = wrt;
  stops[static_cast<std::size_t>(axis)] = wrt + 1;
  return squeeze(slice(ct, starts, stops), axis);
}

constexpr int64_t kMaxResults = int64_t{1} << 20;

// One entry: that many equal parts. More entries: their sizes.
Ints split_sizes(const Attrs& attrs, int64_t size) {
  const Ints& given = attrs.ints("parts_or_sizes");
  ETUDE_REQUIRE(!given.empty(), "parts_or_sizes is empty. Give a number of parts or their sizes");
  if (given.size() == 1) {
    ETUDE_REQUIRE(given[0] > 0 && size % given[0] == 0,
                  "size {} does not divide into {} equal parts. Give their sizes", size, given[0]);
    ETUDE_REQUIRE(given[0] <= kMaxResults, "{} parts are more than the limit of {}. Make fewer",
                  given[0], kMaxResults);
    return Ints(static_cast<std::size_t>(given[0]), size / given[0]);
  }
  int64_t sum = 0;
  for (const int64_t part : given) {
    ETUDE_REQUIRE(part >= 0, "a part has size {}. Sizes are 0 or more", part);
    ETUDE_REQUIRE(part <= size, "a part has size {}, but the axis has size {}", part, size);
    sum += part;
  }
  ETUDE_REQUIRE(sum == size, "the sizes {} add up to {}, but the axis has size {}",
                to_string(AttrValue(given)), sum, size);
  return given;
}

Types split_type(const TypeCall& call) {
  const int axis = normalize_axis(call.attrs.integer("axis"), call.rank(0));
  Types out;
  for (const int64_t size : split_sizes(call.attrs, call.shape(0)[axis])) {
    Shape shape = call.shape(0);
    shape.set(axis, size);
    out.push_back(call.make(call.dtype(0), shape));
  }
  return out;
}

void prepare_split(const PrepareCall& call) {
  const int axis = normalize_axis(call.attrs.integer("axis"), call.shape(0).rank());
  kernels::cpu::prepare_split(call, axis, split_sizes(call.attrs, call.shape(0)[axis]));
}

std::vector<Tensor> present(const VjpCall& call) {
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < call.out.size(); ++i) {
    parts.push_back(call.cotangents.has(i) ? call.cotangents[i]
                                           : internal::full(call.out[i].type(), 0));
  }
  return parts;
}

Values split_vjp(const VjpCall& call) {
  return {concat(present(call), {.axis = call.attrs.integer("axis")})};
}

Types unstack_type(const TypeCall& call) {
  const int axis = normalize_axis(call.attrs.integer("axis"), call.rank(0));
  Shape shape;
  for (int a = 0; a < call.rank(0); ++a) {
    if (a != axis) shape.push_back(call.shape(0)[a]);
  }
  const int64_t parts = call.shape(0)[axis];
  ETUDE_REQUIRE(parts >= 0, "the size of axis {} of {} is not known", axis,
                call.shape(0).to_string());
  ETUDE_REQUIRE(parts <= kMaxResults,
                "axis {} of {} has {} slices, more than the limit of {}. Slice x first", axis,
                call.shape(0).to_string(), parts, kMaxResults);
  const Type* const type = call.make(call.dtype(0), shape);
  Types out;
  for (int64_t i = 0; i < parts; ++i) out.push_back(type);
  return out;
}

void prepare_unstack(const PrepareCall& call) {
  const int axis = normalize_axis(call.attrs.integer("axis"), call.shape(0).rank());
  kernels::cpu::prepare_split(call, axis, Ints(call.out.results.size(), 1));
}

Values unstack_vjp(const VjpCall& call) {
  return {stack(present(call), {.axis = call.attrs.integer("axis")})};
}

Values split_jvp(const JvpCall& call) {
  std::vector<Tensor> parts = split(call.tangents[0], call.attrs.ints("parts_or_sizes"),
                                    {.axis = call.attrs.integer("axis")});
  return Values(parts.begin(), parts.end());
}

Values unstack_jvp(const JvpCall& call) {
  std::vector<Tensor> parts = unstack(call.tangents[0], {.axis = call.attrs.integer("axis")});
  return Values(parts.begin(), parts.end());
}

Values concat_batch(const BatchCall& call) {
  const Ints& given = call.attrs.ints("axis");
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    parts.push_back(batching::leading(call, i));
    if (given.empty()) parts.back() = reshape(parts.back(), {call.size, -1});
  }
  const int64_t axis = given.empty() ? 1 : normalize_axis(given[0], call.rank(0)) + 1;
  return batching::call_again(call, parts, {{"axis", Ints{axis}}});
}

void define_joins(Registry& r) {
  r.define({
      .name = "concat",
      .kind = Kind::kLinear,
      .doc =
          "The operands joined along an axis. An empty list of axes flattens the operands first.",
      .operands = {"xs..."},
      .attrs = {{"axis", Ints{0}}},
      .type = concat_type,
      .kernels = {.cpu = prepare_concat},
      .transpose = concat_back,
      .batch = concat_batch,
      .rewrites = {{.name = "concat_of_one",
                    .when = [](const RewriteCall& call) { return call.types.size() == 1; },
                    .sample = "graph f(x: T[2,3]) -> (T[2,3])\n"
                              "  %1 = concat(x)\n"
                              "  return %1"}},
      .samples = {.calls = {{{"[2,3]", "[1,3]"}},
                            {{"[2,3]", "[2,0]", "[2,1]"}, {{"axis", Ints{-1}}}},
                            {{"[2,3]", "[2]"}, {{"axis", Ints{}}}},
                            {{"[2]"}}}},
      .errors = {{{"float32[2,3]", "float32[2,3,4]"},
                  "operand 1 has shape [2,3,4] and operand 0 has shape [2,3]"},
                 {{"float32[2,3]", "float32[2,4]"}, "all axes but 0"},
                 {{"int64[2]", "uint64[2]"}, "do not promote"},
                 {{"float32[2]"}, "axis 1", {{"axis", Ints{1}}}, ErrorCode::kOutOfRange}},
  });
  r.define({
      .name = "stack",
      .kind = Kind::kLinear,
      .doc = "Operands of one shape joined along a new axis.",
      .operands = {"xs..."},
      .attrs = {{"axis", 0}},
      .type = stack_type,
      .kernels = {.cpu = prepare_stack},
      .transpose = stack_back,
      .batch = batching::along_new_axis,
      .samples = {.calls = {{{"[2,3]", "[2,3]"}},
                            {{"[2]", "[2]", "[2]"}, {{"axis", int64_t{-1}}}},
                            {{"[]"}}}},
      .errors = {{{"float32[2]", "float32[3]"}, "all shapes must be equal"}},
  });
}

void define_splits(Registry& r) {
  r.define({
      .name = "split",
      .kind = Kind::kGeneral,
      .doc = "Parts of x along an axis: a given number of equal parts, or parts of the "
             "listed sizes.",
      .operands = {"x"},
      .attrs = {{"parts_or_sizes", AttrKind::kInts}, {"axis", 0}},
      .results = {"ys..."},
      .type = split_type,
      .kernels = {.cpu = prepare_split},
      .vjp = split_vjp,
      .jvp = split_jvp,
      .batch = batching::along_axis,
      .samples = {.calls = {{{"[4,3]"}, {{"parts_or_sizes", Ints{2}}}},
                            {{"[2,3]"},
                             {{"parts_or_sizes", Ints{1, 0, 2}}, {"axis", int64_t{1}}}}}},
      .errors = {{{"float32[3]"},
                  "size 3 does not divide into 2 equal parts",
                  {{"parts_or_sizes", Ints{2}}}},
                 {{"float32[0]"},
                  "parts are more than the limit",
                  {{"parts_or_sizes", Ints{int64_t{1} << 40}}}},
                 {{"float32[3]"},
                  "add up to 2, but the axis has size 3",
                  {{"parts_or_sizes", Ints{1, 1}}}}},
  });
  r.define({
      .name = "unstack",
      .kind = Kind::kGeneral,
      .doc = "The slices of x along an axis, without that axis.",
      .operands = {"x"},
      .attrs = {{"axis", 0}},
      .results = {"ys..."},
      .type = unstack_type,
      .kernels = {.cpu = prepare_unstack},
      .vjp = unstack_vjp,
      .jvp = unstack_jvp,
      .batch = batching::along_axis,
      .samples = {.calls = {{{"[2,3]"}}, {{"[2,3]"}, {{"axis", int64_t{1}}}}}},
      .errors = {{{"float32[2]"}, "axis 1", {{"axis", int64_t{1}}}, ErrorCode::kOutOfRange},
                 {{"float32[1048577,0]"}, "has 1048577 slices, more than the limit of 1048576"}},
  });
}

}  // namespace

void define_joining(Registry& r) {
  define_joins(r);
  define_splits(r);
}

}  // namespace etude::ops
