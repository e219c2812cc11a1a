// SPDX-License-Identifier: Apache-2.0
// The content of a path, as data: a folder of saved functions, a checkpoint, a file of graphs or a
// safetensors file. `etude inspect` and `etude diff` show it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "etude/graph/graph.h"
#include "etude/graph/symbolic_graph.h"
#include "etude/io/safetensors.h"
#include "etude/saved/graph_inputs.h"

namespace etude::tools {

using GraphInput = saved::internal::GraphInput;

struct StoredGraph {
  std::string title;          // "(x: float32[n,4])"; of a file of graphs the name
  GraphRef graph;             // of a symbolic graph: the graph for the first sizes
  SymbolicGraphRef symbolic;  // or null
  std::vector<GraphInput> inputs;
  std::vector<std::string> outputs;  // their paths; "" without one
  std::string made_for;              // the line of the call that it was traced for, or ""
  bool is_special = false;           // for sizes of 1 and 0
};

struct StoredFunction {
  std::string name;
  std::vector<std::string> arguments;
  std::optional<std::string> exported;  // "x -> output"
  std::vector<StoredGraph> graphs;
};

struct StoredTensor {
  std::string type;  // "float32[4,8]"
  Tensor value;      // may be absent
  bool is_trainable = true;
};

enum class StoredKind : uint8_t { kFunctions, kCheckpoint, kGraphs, kTensors };
// "a folder of saved functions".
std::string words_of(StoredKind kind);

struct Stored {
  StoredKind kind = StoredKind::kGraphs;
  std::string path;
  std::vector<StoredFunction> functions;  // of a file of graphs: one for each graph
  std::map<std::string, StoredTensor> state;
  std::vector<Tensor> constants;
  io::Metadata metadata;
  std::vector<std::string> objects, assets;
  std::shared_ptr<const saved::internal::Loaded> loaded;  // of a folder of saved functions
};

// throws: kNotFound if there is nothing; kInvalidArgument if it is none of these; the errors of
//         the readers.
Stored read_stored(const std::string& path);

}  // namespace etude::tools
