// SPDX-License-Identifier: Apache-2.0
// What tapes are given: options, and pullbacks of calls made elsewhere.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

struct TapeOptions {
  bool persistent = false;      // gradient() may be called again
  bool watch_variables = true;  // trainable Variables are watched when they are read
};

// Cotangents of the results to cotangents of the inputs; absent entries: none.
using Pullback = std::function<std::vector<Tensor>(std::span<const Tensor> output_gradients)>;

}  // namespace etude
