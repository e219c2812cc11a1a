// SPDX-License-Identifier: Apache-2.0
// Graphs of `etude convert`: a saved function as a graph in a file, and the graphs of a file as
// saved functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "etude/graph/binary.h"
#include "etude/io/safetensors.h"
#include "etude/saved/saved.h"
#include "etude/saved/source.h"

namespace etude::tools {

// The graph of a source under the names of the source. Arguments are inputs, keys are keys, state
// is Variables without values, and constants are in the graph. A source with open sizes has a
// symbolic graph.
NamedGraph named_graph(const saved::internal::Source& source);

// The graph of this name in a file; without a name, the only graph.
// throws: kInvalidArgument for several graphs without a name; kNotFound for an unknown graph; the
//   errors of reading the file.
NamedGraph graph_of_file(const std::string& file, const std::string& only, int64_t max_loop_steps);
// Whether inputs are state or captured tensors: a file has no values for them.
bool has_state(const NamedGraph& graph);
// The graph at these sizes, by name; other open sizes are as in the first call. Inputs keep
// their roles. `all` gets all sizes. throws: kInvalidArgument for a name that is no open size, and
// for sizes without a graph.
NamedGraph at_sizes(NamedGraph graph, const std::map<std::string, int64_t>& sizes,
                    std::map<std::string, int64_t>& all);

// The graphs of a file as functions with their names; with `only`, the graph of this name.
// `weights` are values of inputs, by name: such an input is state of the program, and all functions
// with an input of this name share it. `weights_from` names their source. Graphs from strangers: at
// most `max_loop_steps` steps of a loop, unless it is 0.
//
// throws: kNotFound for an unknown graph; kInvalidArgument, naming graph and input, for a Variable
//   or a captured tensor without a value, for a value of another type, for a weight that no graph
//   reads, for a name or an output that a saved function cannot have; the errors of reading the
//   file.
saved::Program program_of_graphs(const std::string& file, const std::string& only,
                                 io::NamedTensors weights, const std::string& weights_from,
                                 int64_t max_loop_steps);

}  // namespace etude::tools
