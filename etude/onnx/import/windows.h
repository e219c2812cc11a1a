// SPDX-License-Identifier: Apache-2.0
// Windows of convolutions and pooling: sizes, strides, dilations and padding of ONNX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "etude/core/tensor.h"
#include "etude/onnx/import/importer.h"

namespace etude::onnx::importing {

using Sizes = std::vector<int64_t>;

// Each list has one number per axis of the image. The batch axis and the channel axis do not count.
struct WindowPlan {
  Sizes window, strides, dilations;
  Sizes before, after;  // padding
  Sizes further;        // added to `after` by ceil_mode
  Sizes results;        // sizes of the result

  bool is_same = false;  // padding "same" of our functions, for images of any size

  // The padding in the form of our functions. If is_same is true, pairs() is empty and word() is
  // "same". Otherwise pairs() has the numbers `before` and `after` of each axis in turn.
  IntList pairs() const;
  const char* word() const { return is_same ? "same" : "valid"; }
  bool has_padding() const;
};

// The plan of a node, for an image [n, channels, sizes...]. Checks that numbers are in range.
WindowPlan window_plan(const NodeCall& n, const Sizes& window, const Shape& image);
// An attribute with a number for each axis.
Sizes numbers_of(const NodeCall& n, std::string_view attribute, std::size_t axes,
                 int64_t otherwise);

// [n, channels, sizes...] as [n, sizes..., channels], and back.
Tensor channels_last(const NodeCall& n, const Tensor& x);
Tensor channels_first(const NodeCall& n, const Tensor& x);

// The windows of an image: [n, channels, results..., elements of the window], padded by `value`.
Tensor windows_of(const Tensor& image, const WindowPlan& plan, const Tensor& value);

// The convolution of a node; `bias` may be absent.
Tensor convolved(const NodeCall& n, const Tensor& image, const Tensor& filter, const Tensor& bias);

}  // namespace etude::onnx::importing
