// SPDX-License-Identifier: Apache-2.0
// Sums, extremes and other reductions over axes, and running sums.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "etude/stablehlo/conversions.h"

namespace etude::stablehlo::internal {
namespace {

// The reduction of x by the attributes `axis` and `keepdims`.
Term by_attributes(Call& call, const Term& x, std::string_view op, const Term& init) {
  const Sizes axes = call.axes();
  return call.attrs.flag("keepdims") ? reduce_keeping(x, op, init, axes)
                                     : reduce(x, op, init, axes);
}

// Sums and products of narrow integers and bools have a wider dtype.
template <bool is_sum>
Terms sum_or_product(Call& call) {
  const DType dtype = is_floating(call.in(0).dtype()) ? call.in(0).dtype() : call.result().dtype();
  return {by_attributes(call, convert(call.in(0), dtype), is_sum ? "add" : "multiply",
                        call.writer.number(is_sum ? 0 : 1, dtype))};
}

int64_t count_of(const Term& x, const Sizes& axes) {
  int64_t count = 1;
  for (const int64_t axis : axes) count *= x.shape()[static_cast<int>(axis)];
  return count;
}

Terms mean(Call& call) {
  const Term x = call.in(0);
  const Term sums = by_attributes(call, x, "add", call.number(0));
  return {sums / static_cast<double>(count_of(x, call.axes()))};
}

Terms max(Call& call) {
  const Term x = call.in(0);
  return {by_attributes(call, x, "maximum", lowest(call.writer, x.dtype()))};
}
Terms min(Call& call) {
  const Term x = call.in(0);
  return {by_attributes(call, x, "minimum", highest(call.writer, x.dtype()))};
}

Term is_nonzero(const Term& x) {
  return x.dtype() == kBool ? x : compare("NE", x, x.writer->number(0, x.dtype()));
}
Terms count_nonzero(Call& call) {
  const DType dtype = call.result().dtype();
  return {by_attributes(call, convert(is_nonzero(call.in(0)), dtype), "add",
                        call.writer.number(0, dtype))};
}
Terms any(Call& call) {
  return {by_attributes(call, is_nonzero(call.in(0)), "or", call.writer.number(0, kBool))};
}
Terms all(Call& call) {
  return {by_attributes(call, is_nonzero(call.in(0)), "and", call.writer.number(1, kBool))};
}

// Rows without a finite maximum have that maximum as their result.
Terms logsumexp_rows(Call& call) {
  const Term x = call.in(0);
  const Sizes axes = {x.rank() - 1};
  const Term most = max_keeping(x, axes);
  const Term is_finite = apply("is_finite", {most}, intern_type(kBool, most.shape()));
  const Term shift = where(is_finite, most, call.number(0));
  const Term out = apply("log", sum_keeping(apply("exponential", x - shift), axes)) + shift;
  return {reshape(out, call.result().shape())};
}

// The root of a sum of squares, which is an operand. Where it left the range, the largest element
// is taken out, so that no square overflows or vanishes.
Terms norm_root(Call& call) {
  const Term x = apply("abs", call.in(0)), squares = call.in(1);
  const Sizes axes = call.axes();
  const Term most = max_keeping(x, axes);
  const Term unit = where(most == 0.0, call.number(1), most);
  const Term scaled = x / unit;
  const Term root = apply("sqrt", sum_keeping(scaled * scaled, axes)) * unit;
  const Term is_in_range = (squares > 1e-30) & (squares < 1e30);
  return {where(is_in_range, apply("sqrt", squares), reshape(root, call.result().shape()))};
}

// The sum over the axes that broadcasting to `shape` added.
Terms sum_to(Call& call) {
  const Shape &from = call.shape(0), &to = call.result().shape();
  const int added = from.rank() - to.rank();
  Sizes axes;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (axis < added || (to[axis - added] == 1 && from[axis] != 1)) axes.push_back(axis);
  }
  return {reshape(sum(call.in(0), axes), to)};
}

// A window that ends, or with `reverse` begins, at each element.
Term running(Call& call, const Term& x, int64_t axis, std::string_view op, double init) {
  const auto rank = static_cast<std::size_t>(x.rank());
  Windows windows{Sizes(rank, 1), Sizes(rank, 1), Sizes(rank, 0), Sizes(rank, 0)};
  const int64_t size = x.shape()[static_cast<int>(axis)];
  windows.window[static_cast<std::size_t>(axis)] = size;
  Sizes& padded = call.attrs.flag("reverse") ? windows.high : windows.low;
  padded[static_cast<std::size_t>(axis)] = size - 1;
  return reduce_windows(x, op, call.writer.number(init, x.dtype()), windows);
}

// `exclusive` leaves out the element itself; include_initial is that and one more element.
template <bool is_sum>
Terms running_along(Call& call) {
  const double init = is_sum ? 0 : 1;
  const DType dtype = call.result().dtype();
  Term x = convert(call.in(0), is_floating(call.in(0).dtype()) ? call.in(0).dtype() : dtype);
  const int64_t axis = call.attrs.has("axis") ? call.axis() : 0;
  const bool is_longer = call.attrs.flag("include_initial");
  const bool is_shifted = call.attrs.flag("exclusive") || is_longer;
  if (is_shifted) {
    Sizes low(static_cast<std::size_t>(x.rank()), 0), high = low;
    const auto at = static_cast<std::size_t>(axis);
    const int64_t last = is_longer ? 0 : -1;
    low[at] = call.attrs.flag("reverse") ? last : 1;
    high[at] = call.attrs.flag("reverse") ? 1 : last;
    x = pad(x, call.writer.number(init, x.dtype()), low, high,
            Sizes(static_cast<std::size_t>(x.rank()), 0));
  }
  if (x.shape().count() == 0) return {x};
  return {running(call, x, axis, is_sum ? "add" : "multiply", init)};
}

}  // namespace

void add_reduction_conversions(Conversions& to) {
  constexpr DTypeSet kExact = kIntegers | kFloating;
  to.insert(to.end(),
            {{.op = "sum", .dtypes = kSummed | kBool, .write = sum_or_product<true>},
             {.op = "prod", .dtypes = kSummed | kBool, .write = sum_or_product<false>},
             {.op = "mean", .dtypes = kFullComplex, .write = mean},
             {.op = "max", .dtypes = kExact, .write = max},
             {.op = "min", .dtypes = kExact, .write = min},
             {.op = "count_nonzero", .write = count_nonzero},
             {.op = "any", .write = any},
             {.op = "all", .write = all},
             {.op = "internal.logsumexp_rows", .dtypes = kFull, .write = logsumexp_rows},
             {.op = "internal.norm_root", .dtypes = kFull, .write = norm_root},
             {.op = "sum_to", .dtypes = kSummed, .write = sum_to},
             {.op = "cumulative_sum", .dtypes = kSummed, .write = running_along<true>},
             {.op = "cumulative_prod", .dtypes = kSummed, .write = running_along<false>}});
}

}  // namespace etude::stablehlo::internal
