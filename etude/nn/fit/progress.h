// SPDX-License-Identifier: Apache-2.0
// Displays of a training run: a progress bar for terminals, lines for logs, and curves drawn with
// characters. Callbacks and texts for fit.h.
#pragma once

#include <cstdio>
#include <optional>
#include <span>
#include <string>

#include "etude/nn/fit/fit.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct ProgressOptions {
  std::FILE* stream = stderr;
  // true: a bar that is redrawn; false: a plain line for each epoch; absent: a bar if the stream is
  // a terminal.
  std::optional<bool> bar = {};
  int columns = 0;  // maximum width of the bar's line; 0: the terminal's width
};
// A callback for FitOptions. It shows the epoch, the completed part, loss, accuracy, samples per
// second and the remaining time.
Callback progress(ProgressOptions options = {});

// Draws the values as a curve of `width` by `height` characters, with a scale on the left and the
// number of values below. A point is the mean of several values; NaN is omitted. The scale is
// logarithmic for positive values of very different sizes. The highest 3% of the points may be cut
// off.
std::string draw_curve(std::span<const float> values, int width = 72, int height = 10);

}  // namespace nn
}  // namespace etude
