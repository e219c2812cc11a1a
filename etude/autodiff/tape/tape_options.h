// SPDX-License-Identifier: Apache-2.0
// Options of tapes, and the type of pullbacks that a tape records.
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

// Maps cotangents of the results to cotangents of the inputs. An absent tensor means no cotangent.
using Pullback = std::function<std::vector<Tensor>(std::span<const Tensor> output_gradients)>;

}  // namespace etude
