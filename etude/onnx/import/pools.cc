// SPDX-License-Identifier: Apache-2.0
// Pooling.
#include <algorithm>
#include <vector>

#include "etude/base/internal/checked_int.h"
#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/windows.h"
#include "etude/ops.h"

namespace etude::onnx::importing {
namespace pools {
namespace {

using etude::internal::CheckedInt;
using Results = std::vector<Tensor>;

WindowPlan plan_of(const NodeCall& n) {
  const Sizes window = n.ints("kernel_shape");
  return window_plan(n, window, n.shape(0));
}

bool is_plain(const WindowPlan& plan) {
  const bool has_dilation = std::ranges::any_of(plan.dilations, [](int64_t d) { return d != 1; });
  const bool is_longer = std::ranges::any_of(plan.further, [](int64_t f) { return f != 0; });
  bool is_small = plan.window.size() <= 3;
  for (std::size_t i = 0; i < plan.window.size(); ++i) {
    is_small = is_small && plan.before[i] < plan.window[i] && plan.after[i] < plan.window[i];
  }
  return !has_dilation && !is_longer && is_small;
}

// A pool of one, two or three axes.
template <auto pool1d, auto pool2d, auto pool3d>
Tensor pooled(const NodeCall& n, const WindowPlan& plan) {
  const Tensor x = channels_last(n, n.x(0));
  const auto by = [&](auto pool) {
    return pool(
        x, plan.window,
        {.strides = plan.strides, .padding = plan.word(), .explicit_padding = plan.pairs()});
  };
  const std::size_t axes = plan.window.size();
  return channels_first(n, axes == 1 ? by(pool1d) : axes == 2 ? by(pool2d) : by(pool3d));
}

// The positions of the largest elements in the flattened operand, from those in the windows.
Tensor positions_of(const NodeCall& n, const WindowPlan& plan, const Tensor& in_window) {
  const Shape image = n.shape(0);
  const std::size_t axes = plan.window.size();
  const bool is_column_major = n.integer("storage_order", 0) != 0;
  Tensor rest = as_dtype(in_window, kInt64), out;
  Sizes strides(axes, 1);
  for (std::size_t i = axes; i-- > 1;) {
    if (!is_column_major) strides[i - 1] = strides[i] * image[static_cast<int>(i) + 2];
  }
  for (std::size_t i = 1; is_column_major && i < axes; ++i) {
    strides[i] = strides[i - 1] * image[static_cast<int>(i) + 1];
  }
  for (std::size_t i = axes; i-- > 0;) {
    const Tensor k = rest % plan.window[i];
    rest = floor_divide(rest, plan.window[i]);
    const Tensor r = on_axis(numbered(plan.results[i]), static_cast<int64_t>(i) + 2, image.rank());
    const Tensor at = (r * plan.strides[i] + k * plan.dilations[i] - plan.before[i]) * strides[i];
    out = out.has_value() ? out + at : at;
  }
  int64_t each = 1;
  for (std::size_t i = 0; i < axes; ++i) each *= image[static_cast<int>(i) + 2];
  Sizes along(axes + 2, 1);
  along[0] = image[0];
  along[1] = image[1];
  return out + reshape(numbered(image[0] * image[1]), along) * each;
}

Results max_pool(const NodeCall& n) {
  const WindowPlan plan = plan_of(n);
  if (is_plain(plan) && !n.wants(1)) {
    return {pooled<nn::max_pool1d, nn::max_pool2d, nn::max_pool3d>(n, plan)};
  }
  const Tensor all = windows_of(n.x(0), plan, least_of(n.dtype(0)));
  const Tensor y = max(all, {.axis = -1});
  if (!n.wants(1)) return {y};
  return {y, positions_of(n, plan, argmax(all, {.axis = -1}))};
}

// Padding counts as elements if count_include_pad; elements that ceil_mode adds never do.
Results avg_pool(const NodeCall& n) {
  const WindowPlan plan = plan_of(n);
  const bool counts = n.integer("count_include_pad", 0) != 0;
  if (is_plain(plan) && (!counts || !plan.has_padding())) {
    return {pooled<nn::avg_pool1d, nn::avg_pool2d, nn::avg_pool3d>(n, plan)};
  }
  const Tensor& x = n.x(0);
  const DType dtype = n.dtype(0);
  const Tensor zero = zeros(Sizes{}, {.dtype = dtype});
  const Tensor total = sum(windows_of(x, plan, zero), {.axis = -1});
  WindowPlan counted = plan;
  Tensor ones = ones_like(x);
  if (counts) {
    Sizes widths = {0, 0, 0, 0};
    for (std::size_t i = 0; i < plan.window.size(); ++i) {
      widths.push_back(plan.before[i]);
      widths.push_back(plan.after[i]);
    }
    ones = pad(ones, widths, {.value = 1});
    std::ranges::fill(counted.before, 0);
    std::ranges::fill(counted.after, 0);
  }
  return {total / sum(windows_of(ones, counted, zero), {.axis = -1})};
}

Tensor p_norm(const Tensor& x, int64_t p, const Sizes& axes, bool keepdims) {
  if (p == 1) return sum(abs(x), {.axis = axes, .keepdims = keepdims});
  if (p == 2) return sqrt(sum(square(x), {.axis = axes, .keepdims = keepdims}));
  const auto power = static_cast<double>(p);
  return pow(sum(pow(abs(x), power), {.axis = axes, .keepdims = keepdims}), 1 / power);
}
int64_t order_of(const NodeCall& n) {
  const int64_t p = n.integer("p", 2);
  n.require(p > 0 && p < 1024, "p is {}", p);
  return p;
}
Results lp_pool(const NodeCall& n) {
  const WindowPlan plan = plan_of(n);
  const Tensor zero = zeros(Sizes{}, {.dtype = n.dtype(0)});
  return {p_norm(windows_of(n.x(0), plan, zero), order_of(n), {-1}, false)};
}

Sizes image_axes(const NodeCall& n) {
  n.require(n.rank(0) >= 3, "its operand has {} axes, but at least 3 are needed", n.rank(0));
  Sizes out;
  for (int i = 2; i < n.rank(0); ++i) out.push_back(i);
  return out;
}
// The axes of an image with channels last.
Sizes last_axes(const NodeCall& n) {
  Sizes out = image_axes(n);
  for (int64_t& axis : out) --axis;
  return out;
}
Results global_avg(const NodeCall& n) {
  const Tensor x = channels_last(n, n.x(0));
  return {channels_first(n, mean(x, {.axis = last_axes(n), .keepdims = true}))};
}
Results global_max(const NodeCall& n) {
  const Tensor x = channels_last(n, n.x(0));
  return {channels_first(n, max(x, {.axis = last_axes(n), .keepdims = true}))};
}
Results global_lp(const NodeCall& n) { return {p_norm(n.x(0), order_of(n), image_axes(n), true)}; }

// Elements at positions in a larger image of zeros. The positions count in the image that the
// attributes describe, whatever the size of the result is.
Results max_unpool(const NodeCall& n) {
  const Shape shape = n.shape(0);
  const Sizes window = n.ints("kernel_shape");
  const std::size_t axes = window.size();
  n.require(shape.rank() == static_cast<int>(axes) + 2,
            "its operand has {} axes, but its window {}", shape.rank(), axes);
  const Sizes strides = numbers_of(n, "strides", axes, 1),
              pads = numbers_of(n, "pads", 2 * axes, 0);
  Sizes sizes = {shape[0], shape[1]};
  for (std::size_t i = 0; i < axes; ++i) {
    const CheckedInt reach = (CheckedInt(shape[static_cast<int>(i) + 2]) - 1) * strides[i];
    sizes.push_back((reach + window[i] - pads[i] - pads[i + axes]).value());
    n.require(sizes.back() >= 0, "its padding removes more than there is");
  }
  const Shape inferred(sizes);
  const Tensor at = reshape(as_dtype(n.x(1), kInt64), {-1});
  const Tensor flat = zeros({inferred.count()}, {.dtype = n.dtype(0)});
  Tensor y = reshape(scatter(flat, at, reshape(n.x(0), {-1})), inferred);
  if (!n.has(2)) return {y};
  const Sizes wanted = n.ints(2);
  n.require(wanted.size() == sizes.size(), "output_shape has {} sizes, but {} are needed",
            wanted.size(), sizes.size());
  Sizes widths;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    n.require(wanted[i] >= sizes[i] && wanted[i] < kMaxCount,
              "output_shape has the size {} where at least {} is needed", wanted[i], sizes[i]);
    widths.push_back(0);
    widths.push_back(wanted[i] - sizes[i]);
  }
  return {pad(y, widths)};
}

}  // namespace
}  // namespace pools

void add_pool_imports(Imports& to) {
  using namespace pools;
  to.insert(to.end(),
            {{"MaxPool", "X",
              "auto_pad ceil_mode dilations kernel_shape pads storage_order strides", max_pool},
             {"AveragePool", "X",
              "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides", avg_pool},
             {"LpPool", "X", "auto_pad ceil_mode dilations kernel_shape p pads strides", lp_pool},
             {"GlobalAveragePool", "X", "", global_avg},
             {"GlobalMaxPool", "X", "", global_max},
             {"GlobalLpPool", "X", "p", global_lp},
             {"MaxUnpool", "X I output_shape?", "kernel_shape pads strides", max_unpool}});
}

}  // namespace etude::onnx::importing
