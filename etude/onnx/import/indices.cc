// SPDX-License-Identifier: Apache-2.0
// Elements by their positions: gathering, scattering, sorting and selecting.
#include <algorithm>
#include <vector>

#include "etude/onnx/import/importer.h"
#include "etude/ops.h"

namespace etude::onnx::importing {
namespace indices {
namespace {

using Results = std::vector<Tensor>;
using Sizes = std::vector<int64_t>;

// Negative positions count from the end of an axis of this size.
Tensor from_front(const Tensor& at, int64_t size) {
  const Tensor wide = as_dtype(at, kInt64);
  return where(wide < 0, wide + size, wide);
}

Results gathered(const NodeCall& n) {
  return {take(n.x(0), n.x(1), {.axis = n.axis(n.integer("axis", 0), n.rank(0))})};
}

// take_along_axis needs equal sizes on the other axes; ONNX allows fewer indices.
Tensor cut_to(const Tensor& x, const Shape& like, int64_t axis) {
  const Shape& shape = x.type()->shape();
  Sizes start(static_cast<std::size_t>(shape.rank()), 0), stop = shape.to_vector();
  bool cuts = false;
  for (int i = 0; i < shape.rank() && i < like.rank(); ++i) {
    if (i == axis || like[i] >= shape[i]) continue;
    stop[static_cast<std::size_t>(i)] = like[i];
    cuts = true;
  }
  return cuts ? slice(x, start, stop) : x;
}
Results gathered_elements(const NodeCall& n) {
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  const int64_t size = n.shape(0)[static_cast<int>(axis)];
  const Tensor x = cut_to(n.x(0), n.shape(1), axis);
  return {take_along_axis(x, from_front(n.x(1), size), {.axis = axis})};
}

// The sizes of the axes that the last axis of the indices selects, as a row.
Tensor sizes_of_axes(const Shape& shape, int first, int64_t count) {
  Sizes out;
  for (int64_t i = 0; i < count; ++i) out.push_back(shape[first + static_cast<int>(i)]);
  return int_tensor(out);
}
Tensor coordinates(const NodeCall& n, int first) {
  const Shape at = n.shape(1);
  n.require(at.rank() > 0, "the indices are a single number");
  const int64_t count = at[at.rank() - 1];
  n.require(count >= 0 && first + count <= n.rank(0),
            "the indices have {} coordinates, but the operand has {} axes", count, n.rank(0));
  const Tensor wide = as_dtype(n.x(1), kInt64);
  return where(wide < 0, wide + sizes_of_axes(n.shape(0), first, count), wide);
}
Results gathered_nd(const NodeCall& n) {
  const int64_t batch = n.integer("batch_dims", 0);
  n.require(batch >= 0 && batch < std::min(n.rank(0), n.rank(1)), "batch_dims is {}", batch);
  return {gather_nd(n.x(0), coordinates(n, static_cast<int>(batch)), {.batch_dims = batch})};
}

std::string scatter_mode(const NodeCall& n) {
  const std::string reduction = n.text("reduction", "none");
  if (reduction == "none") return "set";
  n.require(reduction == "add" || reduction == "mul" || reduction == "min" || reduction == "max",
            "the reduction is '{}', not none, add, mul, min or max", reduction);
  return reduction;
}

// Updates of rows of a flattened operand; `rows` has the number of each row.
Tensor scattered_rows(const Tensor& x, const Tensor& rows, const Tensor& updates, const Shape& row,
                      const std::string& mode) {
  Sizes flat = {-1}, values = {rows.type()->count()};
  int64_t all = 1;
  for (const int64_t size : row) {
    flat.push_back(size);
    values.push_back(size);
    all *= size;
  }
  if (all == 0 || rows.type()->count() == 0) return x;
  flat[0] = x.type()->count() / all;
  const Tensor out = scatter(reshape(x, flat), reshape(rows, {rows.type()->count()}),
                             reshape(updates, values), {.mode = mode});
  return reshape(out, x.type()->shape());
}

// The strides of axes in a flattened operand.
Sizes strides_of(const Shape& shape) {
  Sizes out(static_cast<std::size_t>(shape.rank()), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) {
    out[static_cast<std::size_t>(i)] = out[static_cast<std::size_t>(i) + 1] * shape[i + 1];
  }
  return out;
}

// The numbers of elements in a flattened operand: at positions `at` along an axis, and along the
// other axes at all places of these sizes.
Tensor element_numbers(const Shape& shape, const Tensor& at, int64_t axis, const Shape& sizes) {
  const Sizes strides = strides_of(shape);
  Tensor out = at * strides[static_cast<std::size_t>(axis)];
  for (int i = 0; i < shape.rank(); ++i) {
    if (i == axis) continue;
    const Tensor places = on_axis(numbered(sizes[i]), i, shape.rank());
    out = out + places * strides[static_cast<std::size_t>(i)];
  }
  return out;
}

Results scattered_nd(const NodeCall& n) {
  const Tensor at = coordinates(n, 0);
  const Shape shape = n.shape(0), sizes = n.shape(1);
  const auto count = static_cast<int>(sizes[sizes.rank() - 1]);
  Shape row, rows;
  for (int i = 0; i < shape.rank(); ++i) (i < count ? rows : row).push_back(shape[i]);
  const Tensor numbers = sum(at * int_tensor(strides_of(rows)), {.axis = -1});
  return {scattered_rows(n.x(0), numbers, n.x(2), row, scatter_mode(n))};
}

Results scattered_elements(const NodeCall& n) {
  const int rank = n.rank(0);
  const int64_t axis = n.axis(n.integer("axis", 0), rank);
  const Shape shape = n.shape(0), sizes = n.shape(1);
  n.require(sizes.rank() == rank, "the indices have {} axes, but the operand has {}", sizes.rank(),
            rank);
  const Tensor at = from_front(n.x(1), shape[static_cast<int>(axis)]);
  const Tensor numbers = element_numbers(shape, at, axis, sizes);
  return {scattered_rows(n.x(0), numbers, n.x(2), Shape{}, scatter_mode(n))};
}

Results largest(const NodeCall& n) {
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0));
  const int64_t k = n.has(1) ? n.integer(1) : n.integer("k");
  const int64_t size = n.shape(0)[static_cast<int>(axis)];
  n.require(k >= 0 && k <= size, "k is {}, but the axis has {} elements", k, size);
  const bool is_descending = n.integer("largest", 1) != 0;
  if (is_descending) {
    const TopKResult out = top_k(n.x(0), k, {.axis = axis});
    return {out.values, as_dtype(out.indices, kInt64)};
  }
  const Tensor order = span_of(argsort(n.x(0), {.axis = axis}), axis, 0, k);
  return {take_along_axis(n.x(0), order, {.axis = axis}), as_dtype(order, kInt64)};
}

Results one_hot_of(const NodeCall& n) {
  const int64_t depth = n.integer(1);
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0) + 1);
  n.require(depth >= 0 && depth < kMaxCount, "the depth is {}", depth);
  const Tensor at = from_front(n.x(0), depth);
  const Tensor places = on_axis(numbered(depth), axis, n.rank(0) + 1);
  const Tensor is_hot = expand_dims(at, axis) == places;
  const Tensor off = slice(n.x(2), {0}, {1}), on = slice(n.x(2), {1}, {2});
  return {where(is_hot, reshape(on, Sizes{}), reshape(off, Sizes{}))};
}

Results positions(const NodeCall& n) {
  const std::vector<Tensor> rows = nonzero(n.x(0));
  return {as_dtype(stack(rows, {.axis = 0}), kInt64)};
}

Results compressed(const NodeCall& n) {
  const bool is_flat = !n.has("axis");
  const Tensor x = is_flat ? reshape(n.x(0), {-1}) : n.x(0);
  const int64_t axis = is_flat ? 0 : n.axis(n.integer("axis"), n.rank(0));
  const Tensor at = nonzero(n.x(1))[0];
  return {take(x, at, {.axis = axis})};
}

// Distinct elements, or slices along an axis. Slices are compared as rows of ranks.
Results distinct(const NodeCall& n) {
  const bool is_sorted = n.integer("sorted", 1) != 0;
  Tensor x = n.x(0);
  int64_t axis = 0;
  if (n.has("axis")) {
    axis = n.axis(n.integer("axis"), n.rank(0));
  } else {
    x = reshape(x, {-1});
  }
  // The number of the value of each slice: of its first element, then of the pair with the next.
  const int64_t count = x.type()->shape()[static_cast<int>(axis)];
  const Tensor rows = reshape(moveaxis(x, axis, 0), {count, count == 0 ? 0 : -1});
  const int64_t columns = rows.type()->shape()[1];
  n.importer().need_steps(n, columns);
  Tensor numbers = zeros({count}, {.dtype = kInt64});
  for (int64_t c = 0; c < columns; ++c) {
    const Tensor column = reshape(slice(rows, {0, c}, {count, c + 1}), {count});
    const Tensor value = unique_inverse(column).inverse_indices;
    numbers = unique_inverse(numbers * (count + 1) + as_dtype(value, kInt64)).inverse_indices;
  }
  const UniqueAllResult all = unique_all(as_dtype(numbers, kInt64));
  Tensor first = as_dtype(all.indices, kInt64), inverse = as_dtype(all.inverse_indices, kInt64);
  Tensor counts = as_dtype(all.counts, kInt64);
  if (!is_sorted) {
    const Tensor order = argsort(first);
    first = take(first, order);
    counts = take(counts, order);
    inverse = take(argsort(order), inverse);
  }
  return {take(x, first, {.axis = axis}), first, as_dtype(reshape(inverse, {-1}), kInt64), counts};
}

// Reverses the first lengths[i] steps of example i.
Results reversed_sequences(const NodeCall& n) {
  const int64_t time = n.axis(n.integer("time_axis", 0), n.rank(0));
  const int64_t batch = n.axis(n.integer("batch_axis", 1), n.rank(0));
  const int64_t steps = n.shape(0)[static_cast<int>(time)];
  const Tensor lengths = on_axis(as_dtype(n.x(1), kInt64), batch, n.rank(0));
  const Tensor at = on_axis(numbered(steps), time, n.rank(0));
  const Tensor from = where(at < lengths, lengths - 1 - at, at);
  return {take_along_axis(n.x(0), broadcast_to(from, n.shape(0)), {.axis = time})};
}

// Writes updates into a cache, at a position for each example.
Results scattered_tensor(const NodeCall& n) {
  const int rank = n.rank(0);
  const int64_t axis = n.axis(n.integer("axis", -2), rank);
  const std::string mode = n.text("mode", "linear");
  n.require(axis > 0 && n.rank(1) == rank, "the axis is {}, and the operands have {} and {} axes",
            axis, rank, n.rank(1));
  n.require(mode == "linear" || mode == "circular", "the mode is '{}', not linear or circular",
            mode);
  const Shape shape = n.shape(0), sizes = n.shape(1);
  const int64_t size = shape[static_cast<int>(axis)];
  const Tensor begin = n.has(2) ? as_dtype(n.x(2), kInt64) : zeros({shape[0]}, {.dtype = kInt64});
  const int64_t count = sizes[static_cast<int>(axis)];
  Tensor at = on_axis(begin, 0, rank) + on_axis(numbered(count), axis, rank);
  if (mode == "circular") at = at % size;
  const Tensor numbers = element_numbers(shape, at, axis, sizes);
  return {scattered_rows(n.x(0), numbers, n.x(1), Shape{}, "set")};
}

}  // namespace
}  // namespace indices

void add_index_imports(Imports& to) {
  using namespace indices;
  constexpr auto kSizes = Import::Kind::kSizes;
  to.insert(
      to.end(),
      {{"Gather", "data indices", "axis", gathered},
       {"GatherElements", "data indices", "axis", gathered_elements},
       {"GatherND", "data indices", "batch_dims", gathered_nd},
       {"ScatterND", "data indices updates", "reduction", scattered_nd},
       {"ScatterElements", "data indices updates", "axis reduction", scattered_elements},
       {"Scatter", "data indices updates", "axis", scattered_elements},
       {"TensorScatter", "past_cache update write_indices?", "axis mode", scattered_tensor},
       {"TopK", "X K?", "axis k largest sorted", largest},
       {"OneHot", "indices depth values", "axis", one_hot_of},
       {"NonZero", "X", "", positions, kSizes},
       {"Compress", "input condition", "axis", compressed, kSizes},
       {"Unique", "X", "axis sorted", distinct, kSizes},
       {"ReverseSequence", "input sequence_lens", "batch_axis time_axis", reversed_sequences}});
}

}  // namespace etude::onnx::importing
