// SPDX-License-Identifier: Apache-2.0
// Attributes of ops that slide a window over the axes of an image: strides, dilations and padding
// in the form that users write, resolved to numbers per axis. Used by convolution.cc, pooling.cc
// and the files for other numbers of axes.
#pragma once

#include <array>
#include <vector>

#include "etude/core/op/attrs.h"
#include "etude/core/shape.h"

namespace etude::ops {

// How a window of `size` pixels, `dilation` apart, moves along one axis.
struct WindowAxis {
  int64_t input = 0, output = 0;
  int64_t size = 1, stride = 1, dilation = 1;
  int64_t before = 0, after = 0;  // padding

  int64_t reach() const { return (size - 1) * dilation + 1; }
};
using Window2d = std::array<WindowAxis, 2>;

// The attributes of a pooling op.
std::vector<AttrDef> window_attrs();

// Returns a number for each axis. The attribute is a single number for all axes, or a number for
// each axis; if it is absent, returns `otherwise`.
// throws: kInvalidArgument for another count of numbers, or a number below 1.
std::vector<int64_t> sizes_attr(const Attrs& attrs, std::string_view name,
                                std::vector<int64_t> otherwise);
// The same for two axes.
std::array<int64_t, 2> pair_attr(const Attrs& attrs, std::string_view name,
                                 std::array<int64_t, 2> otherwise = {1, 1});

// Resolves the attributes strides, padding ("valid" or "same"), explicit_padding (before and after
// each axis in turn) and, if the record has it, dilations, for a window on axes 1, 2, .. of `x`.
// throws: kInvalidArgument, naming both shapes, if the result would be empty.
std::vector<WindowAxis> resolve_windows(const Attrs& attrs, const Shape& x,
                                        const std::vector<int64_t>& size,
                                        const std::vector<int64_t>& strides);
Window2d resolve_window(const Attrs& attrs, const Shape& x, std::array<int64_t, 2> size,
                        std::array<int64_t, 2> strides);
// The padding in the form of explicit_padding.
std::vector<int64_t> explicit_padding(const Window2d& window);

}  // namespace etude::ops
