// SPDX-License-Identifier: Apache-2.0
// Sums, extremes and other reductions over axes, and running sums.
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/onnx/conversions.h"

namespace etude::onnx::internal {
namespace {

// A reduction over axes. The axes are an operand of ReduceSum, and of the others from opset 18 on.
Term reduce(const Term& x, std::string_view op, const std::vector<int64_t>& axes, bool keeps_axes) {
  if (axes.empty()) return apply("Identity", x);
  const int64_t keepdims = keeps_axes ? 1 : 0;
  Call& call = *x.call;
  if (op == "ReduceSum" || call.opset() >= 18) {
    return call.node(op, {x, call.ints(axes)}, {{"keepdims", keepdims}});
  }
  return call.node(op, {x}, {{"axes", axes}, {"keepdims", keepdims}});
}

// The reduction of x by the attributes `axis` and `keepdims`.
Term reduce(Call& call, const Term& x, std::string_view op) {
  const int rank = call.rank(0);
  const std::vector<int64_t> axes =
      call.attrs.has("axis") ? axes_from_front(call.attrs.ints("axis"), rank) : all_axes(rank);
  return reduce(x, op, axes, call.attrs.flag("keepdims"));
}

// Sums and products of narrow integers and bools have a wider dtype.
template <bool is_sum>
std::vector<Term> sum(Call& call) {
  const Term x = call.in(0);
  const DType wide = kHalfToDouble.contains(x.dtype) ? x.dtype : kInt64;
  return {reduce(call, call.cast(x, wide), is_sum ? "ReduceSum" : "ReduceProd")};
}
std::vector<Term> mean(Call& call) { return {reduce(call, call.in(0), "ReduceMean")}; }
std::vector<Term> max(Call& call) { return {reduce(call, call.in(0), "ReduceMax")}; }
std::vector<Term> min(Call& call) { return {reduce(call, call.in(0), "ReduceMin")}; }

Term is_nonzero(const Term& x) { return x.dtype == kBool ? x : inverse(x == 0.0); }
// The number of elements that are not zero, or that are.
Term count(Call& call, bool of_zeros) {
  const Term flags = is_nonzero(call.in(0));
  return reduce(call, call.cast(of_zeros ? inverse(flags) : flags, kInt64), "ReduceSum");
}
std::vector<Term> count_nonzero(Call& call) { return {count(call, false)}; }
std::vector<Term> any(Call& call) { return {count(call, false) > 0.0}; }
std::vector<Term> all(Call& call) { return {count(call, true) == 0.0}; }

std::vector<Term> logsumexp(Call& call) { return {reduce(call, call.in(0), "ReduceLogSumExp")}; }
std::vector<Term> logsumexp_rows(Call& call) {
  return {reduce(call.in(0), "ReduceLogSumExp", {call.rank(0) - 1}, false)};
}

// The root of a sum of squares, which is an operand. Where it left the range, the largest element
// is taken out, so that no square overflows or vanishes.
std::vector<Term> norm_root(Call& call) {
  const Term x = apply("Abs", call.in(0)), squares = call.in(1);
  const int rank = call.rank(0);
  const std::vector<int64_t> axes =
      call.attrs.has("axis") ? axes_from_front(call.attrs.ints("axis"), rank) : all_axes(rank);
  const Term most = reduce(x, "ReduceMax", axes, true);
  const Term unit = where(most == 0.0, call.number(1, x.dtype), most);
  const Term scaled = x / unit;
  const Term root = apply("Sqrt", reduce(scaled * scaled, "ReduceSum", axes, true)) * unit;
  const Term scaled_root = call.reshape(root, call.result().shape().to_vector());
  const Term is_in_range = both(squares > 1e-30, squares < 1e30);
  return {where(is_in_range, apply("Sqrt", squares), scaled_root)};
}

// The sum over the axes that broadcasting to `shape` added.
std::vector<Term> sum_to(Call& call) {
  const Shape &from = call.shape(0), &to = call.result().shape();
  const int added = from.rank() - to.rank();
  std::vector<int64_t> axes;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (axis < added || (to[axis - added] == 1 && from[axis] != 1)) axes.push_back(axis);
  }
  const Term x = call.in(0);
  const Term sums = reduce(x, "ReduceSum", axes, true);
  return {added == 0 ? sums : call.reshape(sums, to.to_vector())};
}

// With include_initial the result is one longer: a running sum that leaves out the element itself,
// of x and a further zero.
std::vector<Term> cumulative_sum(Call& call) {
  const int rank = call.rank(0);
  const int64_t axis =
      call.attrs.has("axis") ? axis_from_front(call.attrs.integer("axis"), rank) : 0;
  const bool is_longer = call.attrs.flag("include_initial");
  const bool is_reverse = call.attrs.flag("reverse");
  Term x = call.in(0);
  if (is_longer) {
    std::vector<int64_t> widths(static_cast<std::size_t>(2 * rank), 0);
    widths[static_cast<std::size_t>(is_reverse ? axis : axis + rank)] = 1;
    x = call.node("Pad", {x, call.ints(widths), call.number(0, x.dtype)});
  }
  const int64_t exclusive = call.attrs.flag("exclusive") || is_longer ? 1 : 0;
  return {call.node("CumSum", {x, call.number(static_cast<double>(axis), kInt64)},
                    {{"exclusive", exclusive}, {"reverse", int64_t{is_reverse}}})};
}

}  // namespace

void add_reduction_conversions(Conversions& to) {
  constexpr DTypeSet kFloats = kHalfToDouble;
  constexpr DTypeSet kExact = DTypeSet(kInt32) | kInt64 | kFloats;
  to.insert(to.end(),
            {{.op = "sum", .dtypes = kExact | kIntegersBool, .write = sum<true>},
             {.op = "prod", .dtypes = kExact | kIntegersBool, .write = sum<false>},
             {.op = "mean", .dtypes = kFloats, .write = mean},
             {.op = "max", .dtypes = kExact, .write = max},
             {.op = "min", .dtypes = kExact, .write = min},
             {.op = "count_nonzero", .dtypes = kExact | kBool, .write = count_nonzero},
             {.op = "any", .dtypes = kExact | kBool, .write = any},
             {.op = "all", .dtypes = kExact | kBool, .write = all},
             {.op = "logsumexp", .dtypes = kFloats, .write = logsumexp},
             {.op = "internal.logsumexp_rows", .dtypes = kFloats, .write = logsumexp_rows},
             {.op = "internal.norm_root", .dtypes = kFloats, .write = norm_root},
             {.op = "sum_to", .dtypes = kExact, .write = sum_to},
             {.op = "cumulative_sum", .dtypes = kExact, .write = cumulative_sum}});
}

}  // namespace etude::onnx::internal
