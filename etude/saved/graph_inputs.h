// SPDX-License-Identifier: Apache-2.0
// The inputs and outputs of the graphs of a saved function, by their paths, and the graph for
// tensors by name. Used by function.cc, by ONNX, and by tools that show and compile graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "etude/io/safetensors.h"
#include "etude/saved/loaded.h"
#include "etude/saved/match.h"

namespace etude::saved::internal {

// The source of the value of an input.
struct GraphInput {
  enum class Source : uint8_t {
    kArgument,  // a tensor that the caller passes
    kState,     // a Variable of the program
    kKey,       // the key of one random draw
    kVariable,  // a Variable that the caller passes
    kConstant,  // a constant of the program
  };
  Source source = Source::kArgument;
  int64_t index = -1;  // of a kState, kVariable or kConstant
  std::string path;    // empty for a key
};

// By input of the graph.
std::vector<GraphInput> inputs_of(const Content& content, const SavedGraph& graph);
// The name of an argument in the exported signature; without a signature, its path.
std::string argument_name(const SavedFunction& function, const std::string& path);
// By output of the graph: the paths of the results ("output" for a lone tensor), then the paths of
// the arguments and of the state that the call changes.
std::vector<std::string> outputs_of(const Content& content, const SavedGraph& graph);
// The number of outputs that are results.
std::size_t result_count(const SavedGraph& graph);

// The graph for these tensors, by path or, with an exported signature, by its names. `inputs` must
// outlive the match.
// throws: as Function::call_named().
Match match_named(const Loaded& program, std::size_t function, io::NamedTensors& inputs);
// The value of an input; none for arguments and keys.
Tensor value_of(const Loaded& program, const Match& match, const GraphInput& input);

// The graph of a match on its own. Its inputs are the arguments and keys, and with kInputs then the
// state, once each, with its paths as names. Constants are in the graph, and so is the present
// value of other state. Its outputs are the results; they change no state.
enum class StateAs : uint8_t { kConstants, kInputs };
struct OwnGraph {
  GraphRef graph;
  std::vector<int64_t> state;  // the Variables of the last inputs
};
OwnGraph own_graph(const Loaded& program, std::size_t function, const Match& match, StateAs state);

}  // namespace etude::saved::internal
