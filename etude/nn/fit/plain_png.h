// SPDX-License-Identifier: Apache-2.0
// PNG files without compression, for logs of a few images (event_file.h). io/png.h writes files for
// general use.
#pragma once

#include <string>

#include "etude/core/tensor.h"

namespace etude::nn::detail {

// Encodes an image [height, width] or [height, width, channels] of 1 to 4 channels: uint8, or
// floats where 0 is black and 1 is full; values outside are clamped, NaN is black.
//
// throws: kInvalidArgument for another shape or dtype, and for an image without pixels.
std::string plain_png(const Tensor& image);
// 1 for an image without a channel axis.
std::int64_t channels_of(const Tensor& image);

}  // namespace etude::nn::detail
