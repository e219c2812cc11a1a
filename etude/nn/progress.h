// SPDX-License-Identifier: Apache-2.0
// What a training run shows: a progress bar for terminals and lines for logs, and curves drawn with
// characters. Callbacks and texts for fit.h.
#pragma once

#include <cstdio>
#include <span>
#include <string>

#include "etude/nn/fit.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct ProgressOptions {
  std::FILE* stream = stderr;
  // A bar that is redrawn, or one plain line per epoch; absent: a bar if the stream is a terminal.
  std::optional<bool> bar = {};
};
// A callback for FitOptions: epoch, part done, loss, accuracy, samples per second and time left.
Callback progress(ProgressOptions options = {});

// The values as a curve of `width` by `height` characters, with the scale on the left. Each column
// stands for the mean of its part of the values; values that are no numbers are left out.
std::string draw_curve(std::span<const float> values, int width = 72, int height = 10);

}  // namespace nn
}  // namespace etude
