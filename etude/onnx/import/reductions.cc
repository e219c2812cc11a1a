// SPDX-License-Identifier: Apache-2.0
// Reductions over axes, running sums and positions of extremes.
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "etude/onnx/formula.h"
#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/windows.h"
#include "etude/ops.h"

namespace etude::onnx::importing {
namespace reductions {
namespace {

using Results = std::vector<Tensor>;

// The axes of a reduction: an input or, in older opsets, an attribute. All axes if there are none.
struct Reduction {
  explicit Reduction(const NodeCall& n) : keepdims(n.integer("keepdims", 1) != 0) {
    const int rank = n.rank(0);
    if (n.has(1)) {
      axes = n.axes(n.ints(std::size_t{1}), rank);
    } else {
      axes = n.axes(n.ints("axes", {}), rank);
    }
    if (!axes.empty()) return;
    is_none = n.integer("noop_with_empty_axes", 0) != 0;
    axes.resize(static_cast<std::size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  // Whether the axes are all axes except the batch and the channels.
  bool is_of_images(int rank) const {
    std::vector<int64_t> sorted = axes;
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != static_cast<int64_t>(i) + 2) return false;
    }
    return !sorted.empty() && static_cast<int>(sorted.size()) == rank - 2;
  }

  std::vector<int64_t> axes;
  bool keepdims;
  bool is_none = false;  // reduces nothing
};

using Reduce = Tensor (*)(const Tensor& x, const Reduction& by);

// The order of axes of an image with channels last.
Sizes last_order(int rank) {
  Sizes out(static_cast<std::size_t>(rank), 0);
  std::iota(out.begin() + 1, out.end(), 2);
  out.back() = 1;
  return out;
}

// The order of axes in which a reduction adds up: as the exporter of this library found it, or with
// channels last for images of other models, whose channels are last between functions of images
// here. Empty: the order of the operand.
Sizes order_of(const NodeCall& n, const Reduction& by) {
  if (by.is_none) return {};
  if (n.importer().is_ours()) {
    const std::optional<Sizes> given = internal::parse_order(n.node().order);
    const bool fits = given && static_cast<int>(given->size()) == n.rank(0);
    return fits ? *given : Sizes();
  }
  const bool is_image = n.importer().channels_last(n.x(0)) != nullptr && by.is_of_images(n.rank(0));
  return is_image ? last_order(n.rank(0)) : Sizes();
}

// The result of a reduction in this order, with its axes as in the order of the operand.
Tensor in_own_order(const NodeCall& n, const Tensor& y, const Sizes& order, const Reduction& by) {
  Sizes left;  // axes of the operand, in the order of the result
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool is_reduced = std::ranges::find(by.axes, static_cast<int64_t>(i)) != by.axes.end();
    if (by.keepdims || !is_reduced) left.push_back(order[i]);
  }
  Sizes places(left.size());
  std::iota(places.begin(), places.end(), 0);
  std::ranges::sort(places, {}, [&](int64_t i) { return left[static_cast<std::size_t>(i)]; });
  const Tensor out = std::ranges::is_sorted(places) ? y : permute_dims(y, places);
  const bool has_channels_last = order.size() > 2 && order == last_order(n.rank(0));
  if (by.keepdims && has_channels_last) n.importer().set_channels_last(out, y);
  return out;
}

// `before` and `after` run element by element, also if no axis is reduced.
template <Tensor (*before)(const Tensor&), Reduce reduce, Tensor (*after)(const Tensor&)>
Results reduced(const NodeCall& n) {
  Reduction by(n);
  const Sizes order = order_of(n, by);
  Tensor x = n.x(0);
  if (!order.empty()) {
    const Tensor* const last = n.importer().channels_last(x);
    const bool is_last = last != nullptr && order == last_order(n.rank(0));
    x = is_last ? *last : permute_dims(x, order);
    for (int64_t& axis : by.axes) axis = std::ranges::find(order, axis) - order.begin();
  }
  x = before(x);
  const Tensor sums = by.is_none || by.axes.empty() ? x : reduce(x, by);
  const Tensor out = as_dtype(after(sums), n.dtype(0));
  return {order.empty() ? out : in_own_order(n, out, order, by)};
}

Tensor same(const Tensor& x) { return x; }
Tensor size_of(const Tensor& x) { return abs(x); }
Tensor squared(const Tensor& x) { return square(x); }
Tensor root(const Tensor& x) {
  return is_floating(x.dtype()) ? sqrt(x) : sqrt(astype(x, kFloat64));
}
Tensor logarithm(const Tensor& x) {
  return is_floating(x.dtype()) ? log(x) : log(astype(x, kFloat64));
}

Tensor summed(const Tensor& x, const Reduction& by) {
  return sum(x, {.axis = by.axes, .keepdims = by.keepdims});
}
Tensor multiplied(const Tensor& x, const Reduction& by) {
  return prod(x, {.axis = by.axes, .keepdims = by.keepdims});
}
Tensor averaged(const Tensor& x, const Reduction& by) {
  const Tensor at = is_floating(x.dtype()) ? x : astype(x, kFloat64);
  return mean(at, {.axis = by.axes, .keepdims = by.keepdims});
}
Tensor log_sum(const Tensor& x, const Reduction& by) {
  const Tensor at = is_floating(x.dtype()) ? x : astype(x, kFloat64);
  return logsumexp(at, {.axis = by.axes, .keepdims = by.keepdims});
}

// An extreme of no elements is the least or the largest number of the dtype.
template <bool is_max>
Tensor extreme(const Tensor& x, const Reduction& by) {
  const Shape& shape = x.type()->shape();
  const bool is_empty = std::ranges::any_of(
      by.axes, [&](int64_t axis) { return shape[static_cast<int>(axis)] == 0; });
  const Tensor at = x.dtype() == kBool ? astype(x, kUInt8) : x;
  if (!is_empty) {
    return is_max ? max(at, {.axis = by.axes, .keepdims = by.keepdims})
                  : min(at, {.axis = by.axes, .keepdims = by.keepdims});
  }
  std::vector<int64_t> sizes;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool is_reduced = std::ranges::find(by.axes, i) != by.axes.end();
    if (!is_reduced || by.keepdims) sizes.push_back(is_reduced ? 1 : shape[i]);
  }
  return full(sizes, is_max ? least_of(x.dtype()) : largest_of(x.dtype()));
}

template <bool is_max>
Results position(const NodeCall& n) {
  const Tensor& x = n.x(0);
  const int rank = n.rank(0);
  const int64_t axis = n.axis(n.integer("axis", 0), rank);
  const bool keepdims = n.integer("keepdims", 1) != 0;
  const auto find = [&](const Tensor& in) {
    return is_max ? argmax(in, {.axis = axis, .keepdims = keepdims})
                  : argmin(in, {.axis = axis, .keepdims = keepdims});
  };
  if (n.integer("select_last_index", 0) == 0) return {as_dtype(find(x), kInt64)};
  const int64_t last = n.shape(0)[static_cast<int>(axis)] - 1;
  return {last - as_dtype(find(flip(x, {.axis = axis})), kInt64)};
}

template <bool is_sum>
Results running(const NodeCall& n) {
  const Tensor& x = n.x(0);
  const int64_t axis = n.axis(n.integer(std::size_t{1}), n.rank(0));
  const bool exclusive = n.integer("exclusive", 0) != 0, reverse = n.integer("reverse", 0) != 0;
  const Tensor out =
      is_sum ? cumulative_sum(x, {.axis = axis, .exclusive = exclusive, .reverse = reverse})
             : cumulative_prod(x, {.axis = axis, .exclusive = exclusive, .reverse = reverse});
  return {as_dtype(out, x.dtype())};
}

}  // namespace
}  // namespace reductions

void add_reduction_imports(Imports& to) {
  using namespace reductions;
  constexpr std::string_view kInputs = "data axes?", kAll = "axes keepdims noop_with_empty_axes";
  constexpr std::string_view kPosition = "axis keepdims select_last_index";
  to.insert(to.end(), {{"ReduceSum", kInputs, kAll, reduced<same, summed, same>},
                       {"ReduceMean", kInputs, kAll, reduced<same, averaged, same>},
                       {"ReduceProd", kInputs, kAll, reduced<same, multiplied, same>},
                       {"ReduceMax", kInputs, kAll, reduced<same, extreme<true>, same>},
                       {"ReduceMin", kInputs, kAll, reduced<same, extreme<false>, same>},
                       {"ReduceL1", kInputs, kAll, reduced<size_of, summed, same>},
                       {"ReduceL2", kInputs, kAll, reduced<squared, summed, root>},
                       {"ReduceSumSquare", kInputs, kAll, reduced<squared, summed, same>},
                       {"ReduceLogSum", kInputs, kAll, reduced<same, summed, logarithm>},
                       {"ReduceLogSumExp", kInputs, kAll, reduced<same, log_sum, same>},
                       {"ArgMax", "data", kPosition, position<true>},
                       {"ArgMin", "data", kPosition, position<false>},
                       {"CumSum", "x axis", "exclusive reverse", running<true>},
                       {"CumProd", "x axis", "exclusive reverse", running<false>}});
}

}  // namespace etude::onnx::importing
