// SPDX-License-Identifier: Apache-2.0
// Images as the bytes of PNG files, by libpng. Used by io/png.h, where the shapes and dtypes of
// images are documented, and for the images in logs (nn/fit/event_file.h).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "etude/core/tensor.h"

namespace etude::internal {

// Decodes an image. `file` is the content of a file called `name`; `channels` is as in
// io::PngOptions. Files are not trusted.
//
// throws: kDataLoss, with name and offset, for a damaged file or another format;
//         kResourceExhausted for more memory than read_limits() allow.
Tensor image_of_png(std::span<const uint8_t> file, std::string_view name, int channels);

// Encodes an image, of the shapes and dtypes that io::write_png accepts, as the bytes of a PNG
// file.
//
// throws: kInvalidArgument for another shape or dtype, and for an image without pixels.
std::vector<uint8_t> png_of_image(const Tensor& image);

}  // namespace etude::internal
