// SPDX-License-Identifier: Apache-2.0
// Layers that are called with several tensors: cells of recurrent layers, and layers of two inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "etude/autodiff/parts_of.h"
#include "etude/kinds/kinds.h"
#include "etude/nn/erased_layer.h"
#include "etude/parts/parts.h"

namespace etude::python {

struct SeveralInputs {
  std::string name;                 // "nn.LSTMCell"
  std::string arguments;            // "(x, state), where state is (h, c)"
  std::vector<std::size_t> counts;  // tensors of each argument
  bool returns_pair = false;        // the state (h, c)
  // The results for the tensors of all arguments.
  std::function<std::vector<Tensor>(const Parts&, std::span<const Tensor>, CallSite)> call;
  // The first state for n examples; null for layers without state.
  std::function<std::vector<Tensor>(const Parts&, int64_t n, DType)> zero_state = nullptr;
  Parts parts;
};

// The calls of a layer of this class; null for a layer that is called with one tensor.
std::shared_ptr<const SeveralInputs> several_inputs(const kinds::Made& made);
// A layer with the parts, which cannot be called with one tensor.
nn::Layer layer_of_several(std::shared_ptr<const SeveralInputs> several);

}  // namespace etude::python
