// SPDX-License-Identifier: Apache-2.0
// Images in PNG files, and folders of them as data. Files are not trusted.
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
  // 1 grey, 2 grey and alpha, 3 red, green and blue, 4 with alpha; 0: as in the file. Colours are
  // converted to grey by the weights of ITU-R BT.709, applied to the stored levels. Alpha is
  // dropped, or added as opaque.
  int channels = 0;

  static constexpr void ranges(const auto& option) {
    option("channels", &PngOptions::channels, within(0, 4));
  }
};

// Reads the image in the file at `path`: uint8 [height, width, channels]. Palettes are converted to
// colours, and levels of 1, 2, 4 and 16 bits to 8 bits. Interlaced files are accepted. Gamma and
// colour profiles are not applied.
//
// throws: kNotFound when there is no file; kInvalidArgument for another number of channels;
//         kDataLoss, with file and offset, when it is not a PNG file, is truncated or altered,
//         declares more than it can hold or continues after its end; kResourceExhausted beyond
//         read_limits().
// cost:   one pass; at most four bytes per pixel.
Tensor read_png(const std::string& path, const PngOptions& options = {},
                CallSite where = CallSite::here());
// Decodes the image in `file`, the content of a file with that `name`. throws: as read_png.
Tensor decode_png(std::span<const uint8_t> file, std::string_view name,
                  const PngOptions& options = {}, CallSite where = CallSite::here());

// Writes an image, [height, width] or [height, width, channels] of 1 to 4 channels: uint8, or
// floats where 0 is black and 1 is full; values outside are clamped, NaN is black. The file appears
// whole or not at all.
//
// throws: kInvalidArgument for another shape or dtype; for the file: the errors of AtomicFile.
void write_png(const std::string& path, const Tensor& image, CallSite where = CallSite::here());

struct ImageFile {
  std::string path;
  int32_t label = 0;
};
// A folder with one subfolder for each class.
struct ImageFolder {
  std::vector<std::string> classes;  // names of the subfolders, in order; the index is the label
  std::vector<ImageFile> files;      // in order of classes and names
};

// Lists the files that end in ".png" in each subfolder of `path`; reads none of them.
//
//   const auto all = io::image_folder("flowers");
//   auto train = data::from_list(all.files).shuffle(10000, 1)
//       .map([](const io::ImageFile& f) { return io::load_image(f); },
//            {.parallel = 8, .on_error = data::OnError::kSkip}).batch(32).prefetch(2);
//
// throws: kNotFound when there is no folder, or no file in it.
ImageFolder image_folder(const std::string& path, CallSite where = CallSite::here());
// Loads an image of such a folder as a sample: inputs float32 [height, width, channels] in [0, 1],
// labels int32.
// throws: as read_png.
data::Samples load_image(const ImageFile& file, const PngOptions& options = {.channels = 3},
                         CallSite where = CallSite::here());

}  // namespace io
}  // namespace etude
