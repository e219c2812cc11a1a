// SPDX-License-Identifier: Apache-2.0
// PNG files without compression, for logs of a few images (event_file.h). Those for others to keep
// are written by io/png.h.
#pragma once

#include <string>

#include "etude/core/tensor.h"

namespace etude::nn::detail {

// The file of an image [height, width] or [height, width, channels] of 1 to 4: uint8, or floats of
// which 0 is black and 1 is full; what lies outside is cut off, NaN is black.
//
// throws: kInvalidArgument for another shape or dtype, and for an image without pixels.
std::string plain_png(const Tensor& image);
// 1 where there is one axis less.
std::int64_t channels_of(const Tensor& image);

}  // namespace etude::nn::detail
