// SPDX-License-Identifier: Apache-2.0
// Sorting, positions of extremes, and maps along one axis that are linear.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "etude/core/call/run.h"
#include "etude/core/context/context.h"
#include "etude/onnx/conversions.h"
#include "etude/ops.h"

namespace etude::onnx::internal {
namespace {

// The k first elements along an axis, and their positions.
std::vector<Term> first_elements(Call& call, const Term& x, int64_t k, int64_t axis,
                                 bool descending) {
  return call.nodes("TopK", {x, call.ints({k})},
                    {{"axis", axis}, {"largest", int64_t{descending}}, {"sorted", int64_t{1}}},
                    {x.dtype, kInt64});
}

std::vector<Term> sorted(Call& call) {
  const int64_t axis = axis_from_front(call.attrs.integer("axis"), call.rank(0));
  return first_elements(call, call.in(0), call.shape(0)[static_cast<int>(axis)], axis,
                        call.attrs.flag("descending"));
}
std::vector<Term> sort(Call& call) { return {sorted(call)[0]}; }
std::vector<Term> argsort(Call& call) { return {sorted(call)[1]}; }
std::vector<Term> top_k(Call& call) {
  const int64_t axis = axis_from_front(call.attrs.integer("axis"), call.rank(0));
  return first_elements(call, call.in(0), call.attrs.integer("k"), axis, true);
}
bool has_axis(const CallFacts& call) { return call.shape(0).rank() > 0; }

template <bool of_largest>
std::vector<Term> extreme_position(Call& call) {
  const bool is_flat = !call.attrs.has("axis");
  Term x = call.in(0);
  if (is_flat) x = call.node("Reshape", {x, call.ints({-1})});
  const int64_t axis = is_flat ? 0 : axis_from_front(call.attrs.integer("axis"), call.rank(0));
  const bool keeps = call.attrs.flag("keepdims") && !is_flat;
  const Term out = call.node_of(kInt64, of_largest ? "ArgMax" : "ArgMin", {x},
                                {{"axis", axis}, {"keepdims", int64_t{keeps}}});
  return {is_flat ? call.reshape(out, call.result().shape().to_vector()) : out};
}

// A linear map along one axis is a product with a matrix: the results of the op for the unit
// vectors.
std::vector<Term> by_matrix(Call& call) {
  const int rank = call.rank(0);
  const int64_t axis = axis_from_front(call.attrs.integer("axis"), rank);
  std::vector<AttrValue> values(call.attrs.values().begin(), call.attrs.values().end());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (call.attrs.defs()[i].name == "axis") values[i] = int64_t{1};
  }
  const Term x = call.in(0);
  const int64_t size = call.shape(0)[static_cast<int>(axis)];
  const int64_t made = call.result().shape()[static_cast<int>(axis)];
  call.need_bytes(size, std::max(size, made), x.dtype);
  const BottomScope at_once(eager_context());
  const Tensor units = eye(size, {.dtype = x.dtype});
  const Term map = call.evaluate({&units, 1}, call.op().attrs(values));
  std::vector<int64_t> last = all_axes(rank);
  std::swap(last[static_cast<std::size_t>(axis)], last.back());
  return {call.transpose(call.node("MatMul", {call.transpose(x, last), map}), last)};
}

// The number of elements of `sorted` that are below x, or at most x.
std::vector<Term> searchsorted(Call& call) {
  const Term x = call.unsqueeze(call.in(1), {call.rank(1)});
  const bool is_left = call.attrs.text("side") == "left";
  const Term counts = call.node_of(kBool, is_left ? "Less" : "LessOrEqual", {call.in(0), x});
  return {call.node("ReduceSum", {call.cast(counts, kInt64), call.ints({-1})},
                    {{"keepdims", int64_t{0}}})};
}
bool is_flat_search(const CallFacts& call) { return call.shape(0).rank() == 1; }

}  // namespace

void add_order_conversions(Conversions& to) {
  constexpr DTypeSet kOrdered = DTypeSet(kInt32) | kInt64 | kFloat32 | kFloat64;
  constexpr DTypeSet kMapped = DTypeSet(kFloat32) | kFloat64;
  to.insert(
      to.end(),
      {{.op = "sort", .dtypes = kOrdered, .write = sort, .fits = has_axis},
       {.op = "argsort", .dtypes = kOrdered, .write = argsort, .fits = has_axis},
       {.op = "top_k", .dtypes = kOrdered, .write = top_k, .fits = has_axis},
       {.op = "argmax", .dtypes = kOrdered, .write = extreme_position<true>},
       {.op = "argmin", .dtypes = kOrdered, .write = extreme_position<false>},
       {.op = "searchsorted", .dtypes = kOrdered, .write = searchsorted, .fits = is_flat_search},
       {.op = "internal.resize_axis", .dtypes = kMapped, .write = by_matrix, .is_formula = true},
       {.op = "internal.filter_axis", .dtypes = kMapped, .write = by_matrix, .is_formula = true},
       {.op = "internal.shift_along", .dtypes = kMapped, .write = by_matrix, .is_formula = true}});
}

}  // namespace etude::onnx::internal
