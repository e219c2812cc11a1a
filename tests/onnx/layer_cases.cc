// SPDX-License-Identifier: Apache-2.0
// All layers of the table of layers as models.
#include <string>
#include <vector>

#include "etude/ops.h"
#include "etude/stage/function.h"
#include "tests/onnx/cases.h"
#include "tests/training/layer_table.h"

namespace etude::onnx_cases {
namespace {

// Layers whose second axis is the batch, or that read the size of the batch.
bool has_fixed_batch(const std::string& name) {
  return name == "ConvLSTM2DCell" || name == "Bidirectional" || name.ends_with("Cell");
}

}  // namespace

void add_layer_cases(Cases& to) {
  for (const tests::LayerCase& layer : tests::layer_cases()) {
    const auto f = function([&layer](const Tensor& x) { return layer.call(layer.parameters, x); },
                            {.name = layer.name, .arg_names = {"x"}});
    std::vector<Run> runs = {{{{"x", layer.x}}, {{"output", f(layer.x)}}}};
    if (!has_fixed_batch(layer.name)) {
      const Tensor twice = concat({layer.x, layer.x});
      runs.push_back({{{"x", twice}}, {{"output", f(twice)}}});
      const Tensor more = concat({twice, layer.x, twice});
      runs.push_back({{{"x", more}}, {{"output", f(more)}}});
      const Tensor one = layer.x.at(slice(0, 1));
      runs.push_back({{{"x", one}}, {{"output", f(one)}}});
    }
    to.add_function(layer.name, saved::Entry("layer", f), runs);
  }
}

}  // namespace etude::onnx_cases
