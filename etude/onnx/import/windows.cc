// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/import/windows.h"

#include <algorithm>

#include "etude/ops.h"

namespace etude::onnx::importing {
namespace windows {
namespace {

constexpr int64_t kMostOfAxis = int64_t{1} << 31;

}  // namespace
}  // namespace windows

IntList WindowPlan::pairs() const {
  if (is_same) return {};
  Sizes out;
  for (std::size_t i = 0; i < before.size(); ++i) {
    out.push_back(before[i]);
    out.push_back(after[i]);
  }
  return out;
}

bool WindowPlan::has_padding() const {
  const auto is_padded = [](int64_t width) { return width != 0; };
  return std::ranges::any_of(before, is_padded) || std::ranges::any_of(after, is_padded) ||
         std::ranges::any_of(further, is_padded);
}

Sizes numbers_of(const NodeCall& n, std::string_view attribute, std::size_t axes,
                 int64_t otherwise) {
  const Sizes out = n.ints(attribute, Sizes(axes, otherwise));
  n.require(out.size() == axes, "the attribute '{}' has {} numbers for {} axes", attribute,
            out.size(), axes);
  for (const int64_t each : out) {
    n.require(each >= std::min<int64_t>(otherwise, 1) && each < windows::kMostOfAxis,
              "the attribute '{}' has the number {}", attribute, each);
  }
  return out;
}

WindowPlan window_plan(const NodeCall& n, const Sizes& window, const Shape& image) {
  const std::size_t axes = window.size();
  n.require(image.rank() == static_cast<int>(axes) + 2,
            "its operand has {} axes, but its window {}", image.rank(), axes);
  WindowPlan out{window,
                 numbers_of(n, "strides", axes, 1),
                 numbers_of(n, "dilations", axes, 1),
                 Sizes(axes, 0),
                 Sizes(axes, 0),
                 Sizes(axes, 0),
                 {}};
  const std::string mode = n.text("auto_pad", "NOTSET");
  n.require(mode == "NOTSET" || mode == "VALID" || mode == "SAME_UPPER" || mode == "SAME_LOWER",
            "auto_pad is '{}', not NOTSET, VALID, SAME_UPPER or SAME_LOWER", mode);
  const Sizes pads = mode == "NOTSET" ? numbers_of(n, "pads", 2 * axes, 0) : Sizes(2 * axes, 0);
  const bool is_same = mode.starts_with("SAME");
  out.is_same = mode == "SAME_UPPER";
  const bool ceils = n.integer("ceil_mode", 0) != 0;
  for (std::size_t i = 0; i < axes; ++i) {
    const int64_t size = image[static_cast<int>(i) + 2], stride = out.strides[i];
    n.require(window[i] > 0 && window[i] < windows::kMostOfAxis && size < windows::kMostOfAxis,
              "the window has the size {} along an axis of size {}", window[i], size);
    const int64_t reach = (window[i] - 1) * out.dilations[i] + 1;
    if (is_same) {
      const int64_t results = (size + stride - 1) / stride;
      const int64_t all = std::max<int64_t>((results - 1) * stride + reach - size, 0);
      out.before[i] = mode == "SAME_UPPER" ? all / 2 : all - all / 2;
      out.after[i] = all - out.before[i];
    } else {
      out.before[i] = pads[i];
      out.after[i] = pads[i + axes];
    }
    const int64_t room = size + out.before[i] + out.after[i] - reach;
    n.require(room >= 0, "the window reaches over {} elements, but axis {} has {} with padding",
              reach, i + 2, size + out.before[i] + out.after[i]);
    int64_t results = room / stride + 1;
    if (ceils && !is_same && room % stride != 0) {
      // A further window, if it begins within the operand or the padding before it.
      if (results * stride < size + out.before[i]) {
        out.further[i] = results * stride - room;
        ++results;
      }
    }
    out.results.push_back(results);
  }
  return out;
}

Tensor channels_last(const NodeCall& n, const Tensor& x) {
  if (const Tensor* known = n.importer().channels_last(x)) return *known;
  const int rank = x.type()->rank();
  Sizes order = {0};
  for (int i = 2; i < rank; ++i) order.push_back(i);
  order.push_back(1);
  return permute_dims(x, order);
}
Tensor channels_first(const NodeCall& n, const Tensor& x) {
  const int rank = x.type()->rank();
  Sizes order = {0, rank - 1};
  for (int i = 1; i < rank - 1; ++i) order.push_back(i);
  Tensor out = permute_dims(x, order);
  n.importer().set_channels_last(out, x);
  return out;
}

Tensor windows_of(const Tensor& image, const WindowPlan& plan, const Tensor& value) {
  const std::size_t axes = plan.window.size();
  Tensor out = image;
  if (plan.has_padding()) {
    Sizes widths = {0, 0, 0, 0};
    for (std::size_t i = 0; i < axes; ++i) {
      widths.push_back(plan.before[i]);
      widths.push_back(plan.after[i] + plan.further[i]);
    }
    const Tensor inside = pad(ones_like(image, {.dtype = kBool}), widths);
    out = where(inside, pad(image, widths), value);
  }
  // Each axis becomes two: results, and elements of the window.
  Sizes elements, order = {0, 1};
  int64_t count = 1;
  for (std::size_t i = 0; i < axes; ++i) {
    const auto axis = static_cast<int64_t>(2 + 2 * i);
    const Tensor at = on_axis(numbered(plan.results[i]), 0, 2) * plan.strides[i] +
                      on_axis(numbered(plan.window[i]), 1, 2) * plan.dilations[i];
    out = take(out, at, {.axis = axis});
    order.push_back(axis);
    elements.push_back(axis + 1);
    count *= plan.window[i];
  }
  order.insert(order.end(), elements.begin(), elements.end());
  Sizes sizes = {image.type()->shape()[0], image.type()->shape()[1]};
  sizes.insert(sizes.end(), plan.results.begin(), plan.results.end());
  sizes.push_back(count);
  return reshape(permute_dims(out, order), sizes);
}

}  // namespace etude::onnx::importing
