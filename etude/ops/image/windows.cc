// SPDX-License-Identifier: Apache-2.0
#include "etude/ops/image/windows.h"

#include <algorithm>

#include "etude/base/check.h"

namespace etude::ops {
namespace {

constexpr int64_t kLargest = int64_t{1} << 31;  // so that products of two do not overflow

bool has_attr(const Attrs& attrs, std::string_view name) {
  return std::ranges::any_of(attrs.defs(), [&](const AttrDef& def) { return def.name == name; });
}

void set_padding(const Attrs& attrs, std::vector<WindowAxis>& window) {
  const std::string padding = has_attr(attrs, "padding") ? attrs.text("padding") : "valid";
  ETUDE_REQUIRE(padding == "valid" || padding == "same",
                "padding is '{}', but must be 'valid' or 'same'. Give numbers as explicit_padding",
                padding);
  for (WindowAxis& axis : window) {
    if (padding == "valid") continue;
    const int64_t output = (axis.input + axis.stride - 1) / axis.stride;
    const int64_t total =
        std::max<int64_t>(0, (output - 1) * axis.stride + axis.reach() - axis.input);
    axis.before = total / 2;
    axis.after = total - axis.before;
  }
  if (!attrs.has("explicit_padding")) return;
  const std::vector<int64_t>& given = attrs.ints("explicit_padding");
  ETUDE_REQUIRE(
      given.size() == 2 * window.size(), "explicit_padding has {} numbers, but must have {}: {}",
      given.size(), 2 * window.size(),
      window.size() == 2 ? "top, bottom, left, right" : "before and after each axis in turn");
  for (std::size_t i = 0; i < window.size(); ++i) {
    window[i].before = given[2 * i], window[i].after = given[2 * i + 1];
  }
  for (const WindowAxis& axis : window) {
    ETUDE_REQUIRE(axis.before >= 0 && axis.after >= 0,
                  "explicit_padding has a negative number. Use 0 or more");
    ETUDE_REQUIRE(axis.before < kLargest && axis.after < kLargest,
                  "explicit_padding has the number {}, which is too large",
                  std::max(axis.before, axis.after));
  }
}

std::string list_of(const std::vector<WindowAxis>& window) {
  Shape reach;
  for (const WindowAxis& axis : window) reach.push_back(axis.reach());
  return reach.to_string();
}

}  // namespace

std::vector<AttrDef> window_attrs() {
  return {{"window", AttrKind::kInts},
          {"strides", AttrKind::kInts, none},
          {"padding", "valid"},
          {"explicit_padding", AttrKind::kInts, none}};
}

std::vector<int64_t> sizes_attr(const Attrs& attrs, std::string_view name,
                                std::vector<int64_t> otherwise) {
  if (!has_attr(attrs, name) || !attrs.has(name)) return otherwise;
  const std::vector<int64_t>& given = attrs.ints(name);
  const std::size_t axes = otherwise.size();
  ETUDE_REQUIRE(given.size() == 1 || given.size() == axes, "{} has {} numbers, but must have one{}",
                name, given.size(),
                axes == 1   ? ""
                : axes == 2 ? " for both axes, or two"
                            : " for all axes, or three");
  std::vector<int64_t> sizes(axes, given.front());
  if (given.size() == axes) sizes = given;
  const auto [least, most] = std::ranges::minmax(sizes);
  ETUDE_REQUIRE(least >= 1, "{} is {}, but must be at least 1", name, least);
  ETUDE_REQUIRE(most < kLargest, "{} is {}, which is too large", name, most);
  return sizes;
}

std::array<int64_t, 2> pair_attr(const Attrs& attrs, std::string_view name,
                                 std::array<int64_t, 2> otherwise) {
  const std::vector<int64_t> sizes = sizes_attr(attrs, name, {otherwise[0], otherwise[1]});
  return {sizes[0], sizes[1]};
}

std::vector<WindowAxis> resolve_windows(const Attrs& attrs, const Shape& x,
                                        const std::vector<int64_t>& size,
                                        const std::vector<int64_t>& strides) {
  const std::vector<int64_t> dilations =
      sizes_attr(attrs, "dilations", std::vector<int64_t>(size.size(), 1));
  std::vector<WindowAxis> window(size.size());
  for (std::size_t i = 0; i < window.size(); ++i) {
    window[i].input = x[static_cast<int>(i) + 1];
    window[i].size = size[i];
    window[i].stride = strides[i];
    window[i].dilation = dilations[i];
    ETUDE_REQUIRE(size[i] < kLargest, "the window {} is too large", Shape(size).to_string());
  }
  set_padding(attrs, window);
  bool is_left = true;
  for (WindowAxis& axis : window) {
    const int64_t room = axis.input + axis.before + axis.after - axis.reach();
    axis.output = room < 0 ? 0 : room / axis.stride + 1;
    is_left = is_left && axis.output >= 1;
  }
  ETUDE_REQUIRE(
      is_left,
      "operand 'x' has shape {} and the window, with its dilation, is {}: no result is left. "
      "Use a smaller window or padding \"same\"",
      x.to_string(), list_of(window));
  return window;
}

Window2d resolve_window(const Attrs& attrs, const Shape& x, std::array<int64_t, 2> size,
                        std::array<int64_t, 2> strides) {
  const std::vector<WindowAxis> window =
      resolve_windows(attrs, x, {size[0], size[1]}, {strides[0], strides[1]});
  return {window[0], window[1]};
}

std::vector<int64_t> explicit_padding(const Window2d& window) {
  return {window[0].before, window[0].after, window[1].before, window[1].after};
}

}  // namespace etude::ops
