// SPDX-License-Identifier: Apache-2.0
// The inputs and outputs of a served function, as the protocol describes them. Made from the
// signatures of a saved function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "etude/core/dtype.h"
#include "etude/io/safetensors.h"
#include "etude/saved/program.h"

namespace etude::serve {

struct TensorMetadata {
  std::string name;
  DType dtype = kFloat32;
  std::vector<int64_t> shape;  // -1: any size
  bool fixed_rank = true;      // all graphs of the function have this rank
  bool is_known = true;        // false for outputs of a graph for all sizes: `shape` is empty
};

struct ModelMetadata {
  std::vector<TensorMetadata> inputs, outputs;
  // The function has one graph, in which axis 0 of every input is the same open size, which no
  // other axis has. After find_output_sizes() (probe.h) this also holds for every output.
  bool has_batch_axis = false;
  std::size_t graphs = 1;  // of the function, for inference
};

// The function of a program that a server calls: `wanted`; if that is empty, the only exported
// signature, the only function, or "predict".
// throws: kNotFound, kInvalidArgument with the functions that there are.
saved::Function served_function(const saved::Program& program, const std::string& wanted);

// throws: kFailedPrecondition for a function without a graph for inference; kInvalidArgument for
//   a function that changes state, and for dtypes without a datatype in the protocol.
ModelMetadata metadata_of(const saved::Program& program, const saved::Function& function);

// Compares an input of a request with the metadata.
// throws: kInvalidArgument with the model, the input, and its actual and required type.
void check_input(const std::string& model, const ModelMetadata& metadata, const std::string& name,
                 DType dtype, std::span<const int64_t> shape);
// The same for all inputs; they must be complete.
void check_inputs(const std::string& model, const ModelMetadata& metadata,
                  const io::NamedTensors& inputs);

}  // namespace etude::serve
