// SPDX-License-Identifier: Apache-2.0
// Elements and rows by indices, and updates of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "etude/core/internal/convert.h"
#include "etude/core/internal/host_door.h"
#include "etude/onnx/conversions.h"

namespace etude::onnx::internal {
namespace {

constexpr int64_t kLast = std::numeric_limits<int64_t>::max();

int64_t product(const std::vector<int64_t>& sizes) { return Shape(sizes).count(); }

// 0, 1, 2, ... below the number of elements, in this shape.
Term flat_places(Call& call, const std::vector<int64_t>& sizes) {
  const auto whole = [&](int64_t n) { return call.reshape(call.ints({n}), {}); };
  return call.reshape(call.node("Range", {whole(0), whole(product(sizes)), whole(1)}), sizes);
}

Term zeros(Call& call, const std::vector<int64_t>& sizes, DType dtype, double value = 0) {
  return call.node("Expand", {call.number(value, dtype), call.ints(sizes)});
}

std::vector<Term> take(Call& call) {
  const int64_t axis = axis_from_front(call.attrs.integer("axis"), call.rank(0));
  return {call.node("Gather", {call.in(0), call.cast(call.in(1), kInt64)}, {{"axis", axis}})};
}

// The other axes broadcast.
std::vector<Term> take_along_axis(Call& call) {
  const int rank = call.rank(0);
  const int64_t axis = axis_from_front(call.attrs.integer("axis"), rank);
  std::vector<int64_t> x = call.shape(0).to_vector(), indices = call.shape(1).to_vector();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i == static_cast<std::size_t>(axis)) continue;
    x[i] = indices[i] = call.result().shape()[static_cast<int>(i)];
  }
  const auto expanded = [&](const Term& t, const std::vector<int64_t>& to, const Shape& from) {
    return to == from.to_vector() ? t : call.node("Expand", {t, call.ints(to)});
  };
  return {call.node("GatherElements",
                    {expanded(call.in(0), x, call.shape(0)),
                     expanded(call.cast(call.in(1), kInt64), indices, call.shape(1))},
                    {{"axis", axis}})};
}

std::vector<Term> spread_along_axis(Call& call) {
  const int64_t axis = axis_from_front(call.attrs.integer("axis"), call.rank(0));
  const Term x = call.in(0);
  return {call.node(
      "ScatterElements",
      {zeros(call, call.result().shape().to_vector(), x.dtype), call.cast(call.in(1), kInt64), x},
      {{"axis", axis}, {"reduction", std::string("add")}})};
}

// The row for each id; ids outside of [0, num) have row `num`, which is one too many.
Term clipped_ids(Call& call, const Term& ids, int64_t num) {
  const Term flat = call.reshape(call.cast(ids, kInt64), {call.shape(1).count()});
  const double last = static_cast<double>(num);
  const Term is_inside = both(inverse(flat < 0.0), flat < last);
  return where(is_inside, flat, call.number(last, kInt64));
}

// Rows of x by segment, with a further row for ids outside, which is cut off.
template <bool is_sum>
std::vector<Term> segments(Call& call) {
  std::vector<int64_t> rows = call.result().shape().to_vector();
  const int64_t num = rows[0];
  rows[0] = num + 1;
  std::vector<int64_t> flat = rows;
  flat[0] = call.shape(1).count();
  const Term ids = call.unsqueeze(clipped_ids(call, call.in(1), num), {1});
  const Term x = call.in(0);
  const Term all = call.node(
      "ScatterND", {zeros(call, rows, x.dtype, is_sum ? 0 : 1), ids, call.reshape(x, flat)},
      {{"reduction", std::string(is_sum ? "add" : "mul")}});
  return {call.node("Slice", {all, call.ints({0}), call.ints({num}), call.ints({0})})};
}

std::vector<Term> segment_rows(Call& call) {
  const int64_t num = call.shape(0)[0];
  const Term x = call.in(0);
  std::vector<int64_t> widths(static_cast<std::size_t>(2 * call.rank(0)), 0);
  widths[static_cast<std::size_t>(call.rank(0))] = 1;
  const Term padded = call.node("Pad", {x, call.ints(widths), call.number(0, x.dtype)});
  const Term rows =
      call.node("Gather", {padded, clipped_ids(call, call.in(1), num)}, {{"axis", int64_t{0}}});
  return {call.reshape(rows, call.result().shape().to_vector())};
}

std::vector<Term> row_numbers(Call& call) {
  const Term flat = call.reshape(call.cast(call.in(0), kInt64), {call.shape(0).count()});
  const auto limit = static_cast<double>(call.attrs.integer("limit"));
  return {where(flat < 0.0, flat + limit, flat)};
}

// The region of an x that slices and index arrays select. `first` is the operand of the first
// array. Axes without arrays are sliced, axes with arrays come first for GatherND, and the points
// move to their place before sliced axis `at`.
Term region(Call& call, const Term& x, std::size_t first) {
  const std::vector<int64_t>& axes = call.attrs.ints("axes");
  const int rank = call.rank(0);
  std::vector<int64_t> starts, stops, steps, sliced;
  for (int axis = 0; axis < rank; ++axis) {
    if (std::ranges::find(axes, axis) != axes.end()) continue;
    const auto i = static_cast<std::size_t>(axis);
    const int64_t start = call.attrs.ints("starts")[i], step = call.attrs.ints("steps")[i];
    sliced.push_back(axis);
    starts.push_back(start);
    stops.push_back(step != 0 ? call.attrs.ints("stops")[i] : start == -1 ? kLast : start + 1);
    steps.push_back(step != 0 ? step : 1);
  }
  Term part = x;
  if (!sliced.empty()) {
    part = call.node("Slice",
                     {x, call.ints(starts), call.ints(stops), call.ints(sliced), call.ints(steps)});
  }
  if (axes.empty()) return part;
  std::vector<int64_t> order = axes;
  order.insert(order.end(), sliced.begin(), sliced.end());
  part = call.transpose(part, order);
  std::vector<Term> arrays;
  Term sum;  // has the shape of the points
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Term array = call.cast(call.in(first + i), kInt64);
    sum = i == 0 ? array : sum + array;
    arrays.push_back(array);
  }
  const Term shape = call.node_of(kInt64, "Shape", {sum});
  int points = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    points = std::max(points, call.rank(first + i));
    arrays[i] = call.node("Expand", {arrays[i], shape});
    arrays[i] = call.node("Unsqueeze", {arrays[i], call.ints({-1})});
  }
  const Term all =
      call.node("GatherND", {part, call.node("Concat", arrays, {{"axis", int64_t{-1}}})});
  std::vector<int64_t> back;
  const int64_t at = call.attrs.integer("at"), kept = static_cast<int64_t>(sliced.size());
  for (int64_t i = 0; i < at; ++i) back.push_back(points + i);
  for (int64_t i = 0; i < points; ++i) back.push_back(i);
  for (int64_t i = at; i < kept; ++i) back.push_back(points + i);
  return call.transpose(all, back);
}

std::vector<Term> index_get(Call& call) { return {region(call, call.in(0), 1)}; }

// The positions of the region in x laid out flat, as ScatterND takes them.
std::vector<Term> index_update(Call& call) {
  const std::string& mode = call.attrs.text("mode");
  const std::vector<int64_t> sizes = call.shape(0).to_vector();
  const Term places = region(call, flat_places(call, sizes), 2);
  const Term value = call.node("Expand", {call.in(1), call.node_of(kInt64, "Shape", {places})});
  const Term x = call.in(0);
  const Term flat = call.node("Reshape", {x, call.ints({-1})});
  const Term indices = call.node("Reshape", {places, call.ints({-1, 1})});
  const Term updates = call.node("Reshape", {value, call.ints({-1})});
  const std::string reduction = mode == "set" ? "none" : mode;
  const Term out = call.node("ScatterND", {flat, indices, updates}, {{"reduction", reduction}});
  return {call.reshape(out, sizes)};
}
// min and max came with opset 18.
bool updates(const CallFacts& call) {
  const std::string& mode = call.attrs.text("mode");
  return call.opset >= 18 || (mode != "min" && mode != "max");
}

// The numbers of a matrix of this shape.
Term matrix(Call& call, int64_t rows, int64_t columns, DType dtype,
            double (*number)(int64_t, int64_t, int64_t), int64_t offset) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) numbers.push_back(number(i, j, offset));
  }
  Tensor out = etude::internal::make_tensor(intern_type(dtype, {rows, columns}));
  etude::internal::convert_elements(etude::internal::host_elements_for_writing(out), dtype,
                                    numbers.data(), kFloat64, rows * columns);
  return call.constant(out);
}

// Elements of diagonal `offset`, as rows of the last two axes laid out flat.
std::vector<Term> diagonal(Call& call) {
  const Shape& shape = call.shape(0);
  const int rank = shape.rank();
  const int64_t columns = shape[rank - 1], offset = call.attrs.integer("offset");
  const int64_t count = call.result().shape()[rank - 2];
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) {
    places.push_back((i + std::max<int64_t>(-offset, 0)) * columns + i +
                     std::max<int64_t>(offset, 0));
  }
  std::vector<int64_t> flat = shape.to_vector();
  flat.pop_back();
  flat.back() *= columns;
  return {call.node("Gather", {call.reshape(call.in(0), flat), call.ints(places)},
                    {{"axis", int64_t{rank - 2}}})};
}

std::vector<Term> set_diagonal(Call& call) {
  const Shape& shape = call.shape(0);
  const int rank = shape.rank();
  const int64_t rows = shape[rank - 2], columns = shape[rank - 1];
  const int64_t offset = call.attrs.integer("offset");
  const auto on = [](int64_t i, int64_t j, int64_t k) { return j - i == k ? 1.0 : 0.0; };
  const auto place = [](int64_t i, int64_t j, int64_t k) {
    return j - i == k ? static_cast<double>(std::min(i, j)) : 0.0;
  };
  const Term mask = matrix(call, rows, columns, kBool, on, offset);
  const Term places = matrix(call, rows, columns, kInt64, place, offset);
  const Term spread =
      call.node("Gather", {call.in(1), places}, {{"axis", int64_t{call.rank(1) - 1}}});
  return {where(mask, spread, call.in(0))};
}
bool has_diagonal(const CallFacts& call) {
  const Shape& v = call.shape(1);
  return v.rank() > 0 && v[v.rank() - 1] > 0;
}

}  // namespace

void add_index_conversions(Conversions& to) {
  // Runtimes add to elements in these dtypes.
  constexpr DTypeSet kAdded = DTypeSet(kInt32) | kInt64 | kFloat32 | kFloat64;
  constexpr DTypeSet kUpdated = kIntegersBool | kFloat32 | kFloat64;
  to.insert(to.end(),
            {{.op = "take", .write = take},
             {.op = "take_along_axis", .dtypes = kCopied, .write = take_along_axis},
             {.op = "internal.spread_along_axis", .dtypes = kAdded, .write = spread_along_axis},
             {.op = "segment_sum", .dtypes = kAdded, .write = segments<true>},
             {.op = "segment_prod", .dtypes = kAdded, .write = segments<false>},
             {.op = "internal.segment_rows", .dtypes = kPadded, .write = segment_rows},
             {.op = "internal.row_numbers", .write = row_numbers},
             {.op = "internal.index_get", .write = index_get},
             {.op = "internal.index_update",
              .dtypes = kUpdated,
              .write = index_update,
              .fits = updates,
              .is_formula = true},
             {.op = "linalg.diagonal", .write = diagonal},
             {.op = "linalg.set_diagonal",
              .dtypes = kNumbers,
              .write = set_diagonal,
              .fits = has_diagonal}});
}

}  // namespace etude::onnx::internal
