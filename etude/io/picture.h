// SPDX-License-Identifier: Apache-2.0
// Pictures of samples and training runs: images in a grid, and curves as SVG files. Used by
// examples. For PNG files see png.h.
//
//   io::write_png("digits.png", io::image_grid(images));
//   io::write_svg("loss.svg", {{"training", history.batch_losses}}, {.x = "step", .y = "loss"});
#pragma once

#include <string>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/option_ranges.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

struct ImageGridOptions {
  int64_t columns = 0;  // 0: a number that makes the grid nearly square
  int64_t margin = 1;   // pixels between images and around the grid
  double background = 1;

  static constexpr void ranges(const auto& option) {
    option("columns", &ImageGridOptions::columns, at_least(0));
    option("margin", &ImageGridOptions::margin, at_least(0));
  }
};
// Joins images into one image, row by row.
//
// shapes: images [n, height, width, channels], or [n, height, width] for one channel; n > 0;
//         result [rows (height + margin) + margin, columns (width + margin) + margin, channels].
// dtypes: floating. throws: kInvalidArgument for other shapes and dtypes.
Tensor image_grid(const Tensor& images, const ImageGridOptions& options = {},
                  CallSite where = CallSite::here());

struct Curve {
  std::string name;
  std::vector<float> y;
  std::vector<float> x = {};  // empty: 0, 1, 2 ..
};
struct PlotOptions {
  std::string title = {}, x = {}, y = {};
  bool log_y = false;  // a logarithmic axis; values <= 0 are gaps
  int width = 640, height = 400;

  static constexpr void ranges(const auto& option) {
    option("width", &PlotOptions::width, within(160, 4096));
    option("height", &PlotOptions::height, within(120, 4096));
  }
};
// Draws curves into one SVG file, with axes, ticks at round numbers, and a legend if there are
// several curves. Values that are not finite are gaps. If several points of a curve fall on one
// column of pixels, only the first, the lowest, the highest and the last are drawn.
//
// throws: kInvalidArgument if x and y of a curve have different lengths; the errors of AtomicFile.
void write_svg(const std::string& path, const std::vector<Curve>& curves,
               const PlotOptions& options = {}, CallSite where = CallSite::here());

}  // namespace io
}  // namespace etude
