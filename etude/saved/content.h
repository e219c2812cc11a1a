// SPDX-License-Identifier: Apache-2.0
// Content: all that a folder of saved functions holds, as data. save() gathers it from live
// functions, a reader from a folder; a writer writes it, and loaded programs run it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "etude/core/context/ambient.h"
#include "etude/graph/graph.h"
#include "etude/graph/symbolic_graph.h"
#include "etude/parts/parts.h"
#include "etude/variables/variable.h"

namespace etude::saved::internal {

// State. Its value is read from `variable` when it is written.
struct SavedVariable {
  std::vector<std::string> paths;  // one or more: "model/fc1/weight"
  std::string name;                // for display
  bool is_trainable = true;
  DType dtype = kFloat32;
  std::optional<Shape> shape;             // declared sizes, kAny where they may change
  std::string device;                     // where it was; a hint
  Tensor value;                           // absent before initialisation
  std::optional<Variable> variable = {};  // null: state of a bound object, not loaded yet
};

// A tensor of the arguments of a call, in their order.
struct SavedTensor {
  int64_t state = -1;  // the Variable that has the value; -1: the caller passes it
  std::string path;
  bool is_absent = false;
  bool is_changed = false;  // in-out
};
struct SavedUse {         // a Variable that the graph reaches
  int64_t variable = -1;  // -1: an argument
  int64_t argument = -1;
  bool is_read = false, is_written = false;
};
struct SavedHost {
  std::string path, text;
};
struct SavedVariableArgument {
  std::string path;
  int64_t same_as = 0;  // the first Variable of the call that is the same one
};

// A structure of results: `parts` without tensors, and by leaf whether it has a tensor.
struct SavedResult {
  Parts parts;
  std::vector<uint8_t> is_present;
};

struct SavedGraph {
  GraphRef graph;             // null for a symbolic graph
  SymbolicGraphRef symbolic;  // null for a graph
  Phase phase = Phase::kInference;
  bool is_special = false;  // for sizes of 1 and 0
  std::string made_for;     // the line of the call that it was traced for, "train.cc:12"; or ""
  std::vector<SavedTensor> tensors;
  std::vector<SavedHost> hosts;
  std::vector<SavedVariableArgument> variable_arguments;
  std::vector<SavedUse> uses;
  std::vector<int64_t> captures;  // indices of constants
  SavedResult result;

  // A graph with the inputs and outputs of the graphs of all sizes.
  const Graph& sample() const { return graph ? *graph : *symbolic->graphs().front(); }
};

struct SavedExport {
  std::vector<std::string> inputs, input_paths, outputs;
};
struct SavedFunction {
  std::string name;
  std::string display;  // its name when it was made
  std::vector<std::string> arguments;
  std::vector<SavedGraph> graphs;
  std::optional<SavedExport> exported;
};

// An object: its structure, with the index of the Variable or constant for each leaf that has one.
struct SavedObject {
  std::string name;
  Parts parts;
  std::vector<int64_t> values = {};       // by leaf; -1: none
  std::vector<uint8_t> is_variable = {};  // by leaf
};

struct SavedAsset {
  std::string name, file;      // file: below the folder
  std::filesystem::path from;  // where it is now
};

struct Content {
  std::vector<SavedVariable> variables;
  std::vector<Tensor> constants;
  std::vector<SavedObject> objects;
  std::vector<SavedFunction> functions;
  std::vector<SavedAsset> assets;
};

// The Variable of an index, which a loaded program has.
inline const Variable& variable_at(const Content& content, int64_t index) {
  return *content.variables[static_cast<std::size_t>(index)].variable;
}

// Writes a folder. throws: see save().
void write_content(const std::filesystem::path& folder, const Content& content,
                   int64_t shard_bytes);
// Reads a folder, and checks all of it. throws: see load().
Content read_content(const std::filesystem::path& folder, int64_t max_loop_steps);

// A graph without the derivatives of custom calls, whose gradients then state which one is missing.
GraphRef without_custom_gradients(const GraphRef& graph);
// throws: kUnimplemented for a call that exists only in this process, with the user's line.
void require_no_host_calls(const Graph& graph, const std::string& function);
// throws: kResourceExhausted for a loop without a limit, or with a limit beyond `most`.
void require_loop_limits(const Graph& graph, int64_t most, const std::string& file);

}  // namespace etude::saved::internal
