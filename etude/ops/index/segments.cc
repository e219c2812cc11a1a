// SPDX-License-Identifier: Apache-2.0
// Reductions of the rows that share an id. Ids outside [0, num) drop their rows.
#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/batching.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/index/index_plan.h"
#include "etude/ops/reduce/group_products.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;
using kernels::cpu::Update;

// The shape of a row of x: without the axes of the ids.
Shape row_shape(const Shape& x, const Shape& ids) {
  bool fits = x.rank() >= ids.rank();
  for (int a = 0; fits && a < ids.rank(); ++a) fits = x[a] == ids[a];
  ETUDE_REQUIRE(fits, "ids have shape {}, but operand 'x' has shape {}, which must start with it",
                ids.to_string(), x.to_string());
  return x.sizes().subspan(static_cast<std::size_t>(ids.rank()));
}

Shape with_rows(int64_t rows, const Shape& row) {
  Shape shape{rows};
  for (const int64_t size : row) shape.push_back(size);
  return shape;
}

Types segment_type(const TypeCall& call) {
  const int64_t num = call.attrs.integer("num");
  ETUDE_REQUIRE(num >= 0, "num is {}. The number of segments is 0 or more", num);
  return {call.make(call.dtype(0), with_rows(num, row_shape(call.shape(0), call.shape(1))))};
}

IndexRegion row_region(int rank) {
  IndexRegion region = IndexRegion::whole(rank);
  region.axes = {0};
  return region;
}

// The walk over the rows of the table that the ids select, for rows of `value`.
kernels::cpu::IndexWalk row_walk(const PrepareCall& call, const Shape& table, const Shape& value,
                                 DType dtype) {
  kernels::cpu::IndexWalk walk =
      plan_walk(row_region(table.rank()), table, value, itemsize(dtype), call.types.subspan(1));
  walk.drops_outside = true;
  return walk;
}

template <Update kMode>
void prepare_segment(const PrepareCall& call) {
  const DType dtype = kernels::cpu::segment_dtype(call.dtype(0));
  kernels::cpu::prepare_segments(
      call, row_walk(call, call.out.results[0]->shape(), call.shape(0), dtype), kMode);
}

Tensor number(int64_t value) { return internal::cast(Tensor(value), kInt64); }

Tensor are_outside(const Tensor& ids, int64_t num) {
  return logical_or(less(ids, number(0)), greater_equal(ids, number(num)));
}

// The ids of all examples in one array: example e has the rows from e * num on. Ids outside stay
// outside.
Tensor ids_of_batch(const BatchCall& call, int64_t num) {
  const Tensor ids = internal::cast(batching::leading(call, 1), kInt64);
  Ints column(static_cast<std::size_t>(ids.rank()), 1);
  column[0] = call.size;
  const Tensor first =
      reshape(arange(static_cast<double>(call.size), {.dtype = kInt64}), column) * number(num);
  return where(are_outside(ids, num), number(-1), ids + first);
}

Values segment_batch(const BatchCall& call) {
  const int64_t num = call.attrs.integer("num");
  Values out = batching::call_again(call, {batching::leading(call, 0), ids_of_batch(call, num)},
                                    {{"num", call.size * num}});
  const Shape row = row_shape(call.shape(0), call.shape(1));
  return {reshape(out[0], batching::behind(call.size, with_rows(num, row).sizes()))};
}

Values segment_rows_batch(const BatchCall& call) {
  const Tensor tables = batching::leading(call, 0);
  const Shape example = call.shape(0);
  const Ints joined = with_rows(call.size * example[0], example.sizes().subspan(1)).to_vector();
  return batching::call_again(call, {reshape(tables, joined), ids_of_batch(call, example[0])});
}

// Row ids[i] of x for each i, zeros where the id is outside.
Tensor rows_of(const Tensor& x, const Tensor& ids) { return run(op<"segment_rows">(), {&x, &ids}); }

void prepare_rows(const PrepareCall& call) {
  kernels::cpu::prepare_gather(
      call, row_walk(call, call.shape(0), call.out.results[0]->shape(), call.dtype(0)));
}

Types rows_type(const TypeCall& call) {
  ETUDE_REQUIRE(call.rank(0) >= 1, "operand 'x' is a scalar and has no rows");
  Shape shape = call.shape(1);
  for (int a = 1; a < call.rank(0); ++a) shape.push_back(call.shape(0)[a]);
  return {call.make(call.dtype(0), shape)};
}

void define_sums(Registry& r) {
  r.define({
      .name = "segment_sum",
      .kind = Kind::kLinear,
      .doc = "Row k of the result is the sum of the rows of x whose id is k. `ids` has the leading "
             "axes of x.",
      .operands = {"x", {"ids", kIntegers}},
      .attrs = {{"num", AttrKind::kInt}},
      .dtypes = kNumeric,
      .type = segment_type,
      .kernels = {.cpu = prepare_segment<Update::kAdd>},
      .transpose = [](Operands in, int, const Tensor& ct,
                      const Attrs&) { return rows_of(ct, in[1]); },
      .batch = segment_batch,
      .samples = {.calls = {{{"[4,3]", "int32[4]"}, {{"num", int64_t{3}}}, {{-2, 2}, {-1, 3}}},
                            {{"[2,2]", "int64[2,2]"}, {{"num", int64_t{2}}}, {{-2, 2}, {0, 1}}},
                            {{"[0,3]", "int32[0]"}, {{"num", int64_t{2}}}}}},
      .errors = {{{"float32[4]", "int32[3]"},
                  "ids have shape [3], but operand 'x' has shape [4]",
                  {{"num", int64_t{2}}}},
                 {{"float32[4]", "int32[4]"}, "num is -1", {{"num", int64_t{-1}}}}},
  });
  r.define({
      .name = "segment_rows",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "Row ids[i] of x for each i, zeros where the id is outside: the transpose of "
             "segment_sum.",
      .operands = {"x", {"ids", kIntegers}},
      .type = rows_type,
      .kernels = {.cpu = prepare_rows},
      .transpose =
          [](Operands in, int, const Tensor& ct, const Attrs&) {
            return run(op<"segment_sum">(), {&ct, &in[1]}, {in[0].shape()[0]});
          },
      .batch = segment_rows_batch,
      .samples = {.calls = {{{"[3,2]", "int32[4]"}, {}, {{-2, 2}, {-1, 3}}}}},
  });
}

// Rows that attain the extreme of their segment share its cotangent equally.
Values segment_extreme_vjp(const VjpCall& call) {
  Values out(2);
  const Tensor &x = call.in[0], &ids = call.in[1];
  const int64_t num = call.attrs.integer("num");
  const Type* scalar = intern_type(x.dtype(), {});
  const Tensor wins = where(equal(rows_of(call.out[0], ids), x), internal::full(scalar, 1),
                            internal::full(scalar, 0));
  out[0] = rows_of(call.ct() / segment_sum(wins, ids, num), ids) * wins;
  return out;
}

// The product of the other rows of a segment. Rows outside count as ones, so that no NaN of theirs
// meets a zero.
Values segment_prod_vjp(const VjpCall& call) {
  Values out(2);
  const Tensor &x = call.in[0], &ids = call.in[1];
  const Shape row = row_shape(x.shape(), ids.shape());
  const int64_t count = ids.shape().count();
  const Tensor groups = internal::cast(reshaped(ids, {count}), kInt64);
  const Tensor outside = reshape(are_outside(groups, call.attrs.integer("num")),
                                 with_rows(count, Shape(Ints(row.sizes().size(), 1))).to_vector());
  const Tensor one = internal::full(intern_type(x.dtype(), {}), 1);
  const Tensor rows = where(outside, one, reshaped(x, with_rows(count, row)));
  const Tensor others = reshaped(products_of_others(rows, groups), x.shape());
  out[0] = rows_of(call.ct(), ids) * internal::conj(others);
  return out;
}

Values lower_mean(Operands in, const Attrs& attrs) {
  const Tensor &x = in[0], &ids = in[1];
  const int64_t num = attrs.integer("num");
  const Tensor sums = segment_sum(x, ids, num);
  const Tensor counts =
      segment_sum(internal::full(intern_type(x.dtype(), ids.shape()), 1), ids, num);
  const Type* scalar = intern_type(x.dtype(), {});
  const Tensor divisor =
      where(equal(counts, internal::full(scalar, 0)), internal::full(scalar, 1), counts);
  Ints shape(static_cast<std::size_t>(sums.rank()), 1);
  shape[0] = num;
  return {sums / reshape(divisor, shape)};
}

template <Update kMode>
OpDef extreme(std::string_view name, std::string_view doc, DTypeSet dtypes, VjpRule vjp) {
  return {
      .name = name,
      .kind = Kind::kGeneral,
      .doc = doc,
      .operands = {"x", {"ids", kIntegers}},
      .attrs = {{"num", AttrKind::kInt}},
      .dtypes = dtypes,
      .type = segment_type,
      .kernels = {.cpu = prepare_segment<kMode>},
      .vjp = vjp,
      .batch = segment_batch,
      .samples = {.calls = {{{"[4,3]", "int32[4]"}, {{"num", int64_t{3}}}, {{-2, 2}, {-1, 3}}}}},
      .errors = {{{"float32[4]", "int32[3]"}, "ids have shape [3]", {{"num", int64_t{2}}}}},
  };
}

void define_others(Registry& r) {
  r.define({
      .name = "segment_mean",
      .kind = Kind::kComposition,
      .doc = "Row k of the result is the mean of the rows of x whose id is k, or zeros without "
             "such rows.",
      .operands = {"x", {"ids", kIntegers}},
      .attrs = {{"num", AttrKind::kInt}},
      .dtypes = kFloatingComplex,
      .lower = lower_mean,
      .samples = {.calls = {{{"[4,3]", "int32[4]"}, {{"num", int64_t{3}}}, {{-2, 2}, {-1, 3}}}}},
      .errors = {{{"float32[4]", "int32[3]"}, "ids have shape [3]", {{"num", int64_t{2}}}}},
  });
  r.define(extreme<Update::kMax>(
      "segment_max",
      "Row k of the result is the element-wise maximum of the rows of x whose id is k. Without "
      "such rows, it is the lowest value of the dtype.",
      kReal, segment_extreme_vjp));
  r.define(extreme<Update::kMin>(
      "segment_min",
      "Row k of the result is the element-wise minimum of the rows of x whose id is k. Without "
      "such rows, it is the highest value of the dtype.",
      kReal, segment_extreme_vjp));
  r.define(extreme<Update::kMultiply>("segment_prod",
                                      "Row k of the result is the product of the rows of x whose "
                                      "id is k, or ones without such rows.",
                                      kNumeric, segment_prod_vjp));
}

}  // namespace

void define_segments(Registry& r) {
  define_sums(r);
  define_others(r);
}

}  // namespace etude::ops
