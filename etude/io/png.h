// SPDX-License-Identifier: Apache-2.0
// Images in PNG files, and folders of such files as data. Files are not trusted.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/core/option_ranges.h"
#include "etude/core/tensor.h"
#include "etude/data/rows.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

struct PngOptions {
  // 1: grey. 2: grey and alpha. 3: red, green and blue. 4: red, green, blue and alpha. 0: as in the
  // file. Colours are converted to grey by the weights of ITU-R BT.709, applied to the stored
  // levels. Unwanted alpha is dropped. Missing alpha is added as opaque.
  int channels = 0;

  static constexpr void ranges(const auto& option) {
    option("channels", &PngOptions::channels, within(0, 4));
  }
};

// Reads the image in the file at `path` as uint8 [height, width, channels]. Palettes are converted
// to colours, and levels of 1, 2, 4 and 16 bits to 8 bits. Interlaced files are accepted. Gamma and
// colour profiles are not applied.
//
// throws: kNotFound if the file does not exist; kInvalidArgument for an option out of range;
//         kDataLoss, with file and offset, if it is not a PNG file, is truncated or altered,
//         declares more pixels than it can hold, or continues after the image; kResourceExhausted
//         beyond read_limits().
// cost:   one pass; at most four bytes per pixel.
Tensor read_png(const std::string& path, const PngOptions& options = {},
                CallSite where = CallSite::here());
// Decodes the image in `file`, the content of a file with that `name`. throws: as read_png.
Tensor decode_png(std::span<const uint8_t> file, std::string_view name,
                  const PngOptions& options = {}, CallSite where = CallSite::here());

// Writes an image to a PNG file, which appears whole or not at all. In floating dtypes 0 is black
// and 1 is the full level. Values outside [0, 1] are clamped, and NaN becomes black.
//
// shapes: [height, width], or [height, width, channels] with 1 to 4 channels.
// dtypes: uint8 and floating.
// throws: kInvalidArgument for another shape or dtype; the errors of AtomicFile.
void write_png(const std::string& path, const Tensor& image, CallSite where = CallSite::here());

struct ImageFile {
  std::string path;
  int32_t label = 0;
};
// A folder with one subfolder for each class.
struct ImageFolder {
  std::vector<std::string> classes;  // names of the subfolders, sorted; the index is the label
  std::vector<ImageFile> files;      // sorted by class, then by name
};

// Lists the files named "*.png" in each subfolder of `path`. Reads no file.
//
//   const auto all = io::image_folder("flowers");
//   auto train = data::from_list(all.files).shuffle(10000, 1)
//       .map([](const io::ImageFile& f) { return io::load_image(f); },
//            {.parallel = 8, .on_error = data::OnError::kSkip}).batch(32).prefetch(2);
//
// throws: kNotFound if the folder does not exist, or has no such file.
ImageFolder image_folder(const std::string& path, CallSite where = CallSite::here());
// Loads a listed image as a sample: inputs float32 [height, width, channels] in [0, 1], labels an
// int32 scalar.
//
// throws: as read_png.
data::Samples load_image(const ImageFile& file, const PngOptions& options = {.channels = 3},
                         CallSite where = CallSite::here());

}  // namespace io
}  // namespace etude
