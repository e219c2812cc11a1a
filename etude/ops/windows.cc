// SPDX-License-Identifier: Apache-2.0
#include "etude/ops/windows.h"

#include <algorithm>

#include "etude/base/check.h"

namespace etude::ops {
namespace {

constexpr int64_t kLargest = int64_t{1} << 31;  // so that products of two do not overflow

bool has_attr(const Attrs& attrs, std::string_view name) {
  return std::ranges::any_of(attrs.defs(), [&](const AttrDef& def) { return def.name == name; });
}

void set_padding(const Attrs& attrs, Window2d& window) {
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
  ETUDE_REQUIRE(given.size() == 4,
                "explicit_padding has {} numbers, but must have 4: top, bottom, left, right",
                given.size());
  window[0].before = given[0], window[0].after = given[1];
  window[1].before = given[2], window[1].after = given[3];
  for (const WindowAxis& axis : window) {
    ETUDE_REQUIRE(axis.before >= 0 && axis.after >= 0,
                  "explicit_padding has a negative number. Use 0 or more");
    ETUDE_REQUIRE(axis.before < kLargest && axis.after < kLargest,
                  "explicit_padding has the number {}, which is too large",
                  std::max(axis.before, axis.after));
  }
}

}  // namespace

std::array<int64_t, 2> pair_attr(const Attrs& attrs, std::string_view name,
                                 std::array<int64_t, 2> otherwise) {
  if (!has_attr(attrs, name) || !attrs.has(name)) return otherwise;
  const std::vector<int64_t>& given = attrs.ints(name);
  ETUDE_REQUIRE(given.size() == 1 || given.size() == 2,
                "{} has {} numbers, but must have one for both axes, or two", name, given.size());
  const std::array<int64_t, 2> pair{given.front(), given.back()};
  ETUDE_REQUIRE(pair[0] >= 1 && pair[1] >= 1, "{} is {}, but must be at least 1", name,
                std::min(pair[0], pair[1]));
  ETUDE_REQUIRE(pair[0] < kLargest && pair[1] < kLargest, "{} is {}, which is too large", name,
                std::max(pair[0], pair[1]));
  return pair;
}

Window2d resolve_window(const Attrs& attrs, const Shape& x, std::array<int64_t, 2> size,
                        std::array<int64_t, 2> strides) {
  const std::array<int64_t, 2> dilations = pair_attr(attrs, "dilations");
  Window2d window;
  for (std::size_t i = 0; i < 2; ++i) {
    window[i].input = x[static_cast<int>(i) + 1];
    window[i].size = size[i];
    window[i].stride = strides[i];
    window[i].dilation = dilations[i];
  }
  ETUDE_REQUIRE(size[0] < kLargest && size[1] < kLargest, "the window [{},{}] is too large",
                size[0], size[1]);
  set_padding(attrs, window);
  for (WindowAxis& axis : window) {
    const int64_t room = axis.input + axis.before + axis.after - axis.reach();
    axis.output = room < 0 ? 0 : room / axis.stride + 1;
  }
  ETUDE_REQUIRE(
      window[0].output >= 1 && window[1].output >= 1,
      "operand 'x' has shape {} and the window, with its dilation, is [{},{}]: no result is left. "
      "Use a smaller window or padding \"same\"",
      x.to_string(), window[0].reach(), window[1].reach());
  return window;
}

std::vector<int64_t> explicit_padding(const Window2d& window) {
  return {window[0].before, window[0].after, window[1].before, window[1].after};
}

}  // namespace etude::ops
