// SPDX-License-Identifier: Apache-2.0
#include "etude/ops/index/index_batching.h"

#include <algorithm>
#include <numeric>

#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/calls.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

// Permutes the axes [example, points, sliced before `at`, sliced after] to [example, sliced before
// `at`, points, sliced after].
Ints order_of_points(int at, int points, int rank) {
  Ints order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1, order.begin() + 1 + points, order.begin() + 1 + points + at);
  return order;
}

Ints inverse_of(const Ints& order) {
  Ints out(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    out[static_cast<std::size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return out;
}

// An array of indices as [batch, 1..., own sizes], with `points` axes after the batch.
Tensor of_points(const BatchCall& call, std::size_t i, int points) {
  const Shape sizes = batching::with_rank(call.shape(i), points);
  if (!call.is_batched(i)) return reshaped(call.in[i], batching::with_rank(sizes, points + 1));
  return batching::with_example_shape(call.in[i], sizes);
}

}  // namespace

BatchedRegion batch_region(const BatchCall& call, const IndexRegion& region, std::size_t first) {
  BatchedRegion out{.region = region, .at = static_cast<int>(region.at), .by_example = false};
  for (std::size_t i = first; i < call.in.size(); ++i) {
    out.points = std::max(out.points, call.rank(i));
    out.by_example = out.by_example || call.is_batched(i);
  }
  IndexRegion& wide = out.region;
  for (int64_t& axis : wide.axes) ++axis;
  wide.starts.insert(wide.starts.begin(), 0);
  wide.stops.insert(wide.stops.begin(), kBehindLast);
  wide.steps.insert(wide.steps.begin(), 1);
  if (!out.by_example) {
    ++wide.at;
    for (std::size_t i = first; i < call.in.size(); ++i) out.arrays.push_back(call.in[i]);
    return out;
  }
  wide.at = 0;
  wide.axes.insert(wide.axes.begin(), 0);
  Ints column(static_cast<std::size_t>(out.points), 1);
  const Tensor examples = arange(static_cast<double>(call.size), {.dtype = kInt64});
  out.arrays.push_back(reshaped(examples, Shape(batching::behind(call.size, column))));
  for (std::size_t i = first; i < call.in.size(); ++i) {
    out.arrays.push_back(of_points(call, i, out.points));
  }
  return out;
}

Tensor BatchedRegion::value_of(const Tensor& got) const {
  if (!by_example || at == 0) return got;
  return permute_dims(got, order_of_points(at, points, got.rank()));
}

Tensor BatchedRegion::value_for(const Tensor& value, bool batched) const {
  if (!batched && (!by_example || at == 0)) return value;
  const Shape whole = value.shape();
  const Shape own = batched ? Shape(whole.sizes().subspan(1)) : whole;
  // The axes of an example's region: the sliced axes, and the points.
  const auto rank =
      static_cast<int>(region.steps.size() - region.axes.size()) + points - (by_example ? 0 : 1);
  const std::vector<int64_t> sizes =
      batching::behind(batched ? whole[0] : 1, batching::with_rank(own, rank).sizes());
  const Tensor full = reshaped(value, Shape(sizes));
  if (!by_example || at == 0) return full;
  return permute_dims(full, inverse_of(order_of_points(at, points, full.rank())));
}

Tensor get_region(const Tensor& x, const BatchedRegion& from) {
  OperandList list({&x});
  for (const Tensor& array : from.arrays) list.add(array);
  return from.value_of(run(op<"index_get">(), list, from.region.values()));
}

Tensor update_region(const Tensor& x, const Tensor& value, const BatchedRegion& to,
                     std::string_view mode, bool is_given) {
  OperandList list({&x, &value});
  for (const Tensor& array : to.arrays) list.add(array);
  return run(op<"index_update">(), list.view(is_given ? 1 : 0), to.region.values(mode));
}

}  // namespace etude::ops
