// SPDX-License-Identifier: Apache-2.0
// Sorting, positions of extremes, and maps along one axis that are linear.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "etude/core/context/context.h"
#include "etude/ops.h"
#include "etude/stablehlo/conversions.h"

namespace etude::stablehlo::internal {
namespace {

// Whether a comes before b; NaN comes last.
Term comes_first(const Term& a, const Term& b, bool descending) {
  const Term is_before = descending ? a > b : a < b;
  if (!is_floating(a.dtype())) return is_before;
  return is_before | (compare("EQ", a, a) & compare("NE", b, b));
}

// The elements in order along an axis, and their positions.
Terms sorted(Call& call, bool descending) {
  const Term x = call.in(0);
  const Term places = counted(call.writer, x.shape(), static_cast<int>(call.axis()), kInt64);
  const Type *element = intern_type(x.dtype(), Shape{}), *place = intern_type(kInt64, Shape{});
  const std::string body = call.writer.region(
      {element, element, place, place},
      [&](const Terms& in) { return Terms{comes_first(in[0], in[1], descending)}; });
  return call.writer.add(
      fmt::format("\"stablehlo.sort\"({}) <{{dimension = {} : i64, is_stable = true}}> ({}) : {} "
                  "-> {}",
                  name_list({x, places}), call.axis(), body, type_list({x, places}),
                  type_list({x, places})),
      {x.type, places.type});
}
Terms sort(Call& call) { return {sorted(call, call.attrs.flag("descending"))[0]}; }
Terms argsort(Call& call) { return {sorted(call, call.attrs.flag("descending"))[1]}; }
Terms top_k(Call& call) {
  Terms out = sorted(call, true);
  const Sizes begin(static_cast<std::size_t>(call.rank(0)), 0), step(begin.size(), 1);
  for (Term& part : out) part = slice(part, begin, call.result().shape().to_vector(), step);
  return out;
}
bool has_axis(const CallFacts& call) { return call.shape(0).rank() > 0; }

// The first position of the extreme, or of NaN.
template <bool of_largest>
Terms extreme_position(Call& call) {
  const bool is_flat = !call.attrs.has("axis");
  const Term x = is_flat ? reshape(call.in(0), Shape{call.shape(0).count()}) : call.in(0);
  const int64_t axis = is_flat ? 0 : call.axis();
  const Term init = of_largest ? lowest(call.writer, x.dtype()) : highest(call.writer, x.dtype());
  const Term extreme = reduce_keeping(x, of_largest ? "maximum" : "minimum", init, {axis});
  Term is_extreme = x == extreme;
  if (is_floating(x.dtype())) is_extreme = is_extreme | compare("NE", x, x);
  const Term places = counted(call.writer, x.shape(), static_cast<int>(axis), kInt64);
  const Term none = highest(call.writer, kInt64);
  return {reshape(reduce(where(is_extreme, places, none), "minimum", none, {axis}),
                  call.result().shape())};
}

// The number of elements of `sorted` that come before x; with "right", equal elements count, too.
Terms searchsorted(Call& call) {
  Sizes column = call.shape(1).to_vector();
  column.push_back(1);
  Sizes wide = column;
  wide.back() = call.shape(0)[0];
  const Term x = broadcast(reshape(call.in(1), Shape(column)), Shape(wide));
  const Term all = broadcast(call.in(0), Shape(wide));
  const bool is_left = call.attrs.text("side") == "left";
  const Term is_before = is_left ? comes_first(all, x, false) : !comes_first(x, all, false);
  return {sum(convert(is_before, kInt64), {call.rank(1)})};
}

// A linear map along one axis is a product with a matrix: the results of the op for the unit
// vectors.
Terms by_matrix(Call& call) {
  const int rank = call.rank(0);
  std::vector<AttrValue> values(call.attrs.values().begin(), call.attrs.values().end());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (call.attrs.defs()[i].name == "axis") values[i] = int64_t{1};
  }
  const Term x = call.in(0);
  const BottomScope at_once(eager_context());
  const Tensor units = eye(call.shape(0)[static_cast<int>(call.axis())], {.dtype = x.dtype()});
  const Term map = call.evaluate({&units, 1}, call.op.attrs(values));
  const Sizes last = last_swapped(rank, call.axis());
  return {transpose(dot(transpose(x, last), map, {.x_contracted = {rank - 1}, .y_contracted = {0}}),
                    last)};
}

// The means of x over the elements whose sorted values are equal.
Terms average_ties(Call& call) {
  const int rank = call.rank(0);
  const Sizes last = last_swapped(rank, call.axis());
  const Term x = transpose(call.in(0), last), sorted = transpose(call.in(1), last);
  Sizes rows = sorted.shape().to_vector();
  rows.push_back(1);
  Sizes columns = sorted.shape().to_vector();
  columns.insert(columns.end() - 1, 1);
  const Term is_tie = reshape(sorted, Shape(rows)) == reshape(sorted, Shape(columns));
  const Term weights = convert(is_tie, x.dtype());
  const Term sums = sum(weights * reshape(x, Shape(columns)), {rank});
  return {transpose(sums / sum(weights, {rank}), last)};
}

}  // namespace

void add_order_conversions(Conversions& to) {
  constexpr DTypeSet kOrdered = kReal;
  to.insert(to.end(), {{.op = "sort", .dtypes = kOrdered, .write = sort, .fits = has_axis},
                       {.op = "argsort", .dtypes = kOrdered, .write = argsort, .fits = has_axis},
                       {.op = "top_k", .dtypes = kOrdered, .write = top_k, .fits = has_axis},
                       {.op = "argmax", .dtypes = kOrdered, .write = extreme_position<true>},
                       {.op = "argmin", .dtypes = kOrdered, .write = extreme_position<false>},
                       {.op = "searchsorted", .dtypes = kOrdered, .write = searchsorted},
                       {.op = "internal.resize_axis", .dtypes = kFull, .write = by_matrix},
                       {.op = "internal.filter_axis", .dtypes = kFull, .write = by_matrix},
                       {.op = "internal.average_ties", .dtypes = kFull, .write = average_ties}});
}

}  // namespace etude::stablehlo::internal
