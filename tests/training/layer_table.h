// SPDX-License-Identifier: Apache-2.0
// A table of all layers without their types, for tests of every layer. Used by layer_modes_test.cc
// and random_models_test.cc.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "etude/core/tensor.h"

namespace etude::tests {

using Tensors = std::vector<Tensor>;
using CallOn = std::function<Tensor(std::span<const Tensor>, const Tensor&)>;

// A layer: its parameters, and a function of these and an input. So each layer costs the compiler a
// walk and a call, and all else is compiled once.
struct LayerCase {
  std::string name;
  Tensors parameters;
  Tensor x;
  CallOn call;
  CallOn narrow;  // the same in 16 bits, from parameters and to results of 32
};

// All layers, made at the first call. It also expects that the copies of each are independent, that
// files restore the saved layer, and that staged functions distinguish layers by their options.
const std::vector<LayerCase>& layer_cases();

// A path for a file of this process.
std::string file_of(const std::string& what);

}  // namespace etude::tests
