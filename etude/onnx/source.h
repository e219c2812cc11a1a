// SPDX-License-Identifier: Apache-2.0
// The function of a model: one graph of a saved function, with the names of its inputs and results
// and the values of its state. Used by onnx.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "etude/core/tensor.h"
#include "etude/graph/graph.h"
#include "etude/graph/size_formula.h"
#include "etude/onnx/onnx.h"
#include "etude/onnx/sizes.h"
#include "etude/saved/content.h"

namespace etude::onnx::internal {

// An input of the graph: passed by the caller of the model, or fixed.
struct SourceInput {
  std::string name;
  Tensor value;  // absent: passed by the caller
  bool is_key = false;
};

struct Source {
  std::string function;
  std::string made_for;  // the line of the call that the graph was traced for
  std::vector<SourceInput> inputs;
  std::vector<std::string> outputs;  // of the first outputs of the graph: its results
  // The graph at several sizes, for open sizes; else one graph.
  std::vector<GraphRef> graphs;
  etude::internal::SizePoints points;
  std::vector<OpenSize> sizes;
};

// `prefix` begins the names of a loaded program and its state, and is left out.
// throws: see save().
Source source_of(const saved::internal::Content& content, const std::string& prefix,
                 const SaveOptions& options);

// The model of a source.
Model make_model(const Source& source, const SaveOptions& options);

}  // namespace etude::onnx::internal
