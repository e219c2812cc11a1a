// SPDX-License-Identifier: Apache-2.0
// `etude graph`: shows, compares and runs graphs from files of text (etude/graph/text/print.h) and
// of bytes (etude/graph/binary.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "etude/graph/binary.h"
#include "etude/graph/graph.h"
#include "etude/io/safetensors.h"

namespace etude::tools {

// A graph from a file, whose first bytes show its format. Of a file with several graphs, `name`
// selects one.
// throws: errors of reading the file and the graph, which name the file; kNotFound for a name that
// is not in the file, with the names that are.
GraphRef load_graph(const std::string& file, const std::string& name = "");

// The form that the first bytes of a file have, so that a file of another form is not read whole.
enum class GraphForm : uint8_t { kBytes, kText, kMaybeText, kEmpty, kNone };
// kText has a line that begins with "graph "; kMaybeText has no byte 0.
// throws: as internal::FileReader.
GraphForm graph_form(const std::string& file);

// All graphs of a file. throws: errors of reading the file and the graphs, which name the file.
std::vector<NamedGraph> load_graphs(const std::string& file);

// The names of the inputs in files of tensors: their names; where several inputs have one name, the
// name and the place among them, "x/0", "x/1".
std::vector<std::string> graph_input_names(const Graph& graph);
// The tensors in the order of the inputs.
// throws: kInvalidArgument for a missing tensor and for a tensor that is no input.
std::vector<Tensor> graph_inputs(const Graph& graph, const io::NamedTensors& given);

// Adds the command with all that it does. Its options live as long as the program.
void add_graph_commands(CLI::App& app);

}  // namespace etude::tools
