// SPDX-License-Identifier: Apache-2.0
// The graphs of a saved function at fixed sizes, for `etude compile`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "etude/aot/state_file.h"
#include "etude/graph/graph.h"

namespace etude::tools {

struct SavedModels {
  std::vector<GraphRef> graphs;      // by size; with `is_state_apart` the state is the last inputs
  std::vector<std::string> outputs;  // names of the results
  aot::State state;                  // in the order of these inputs
};

// The function of a folder with `sizes` as its open sizes. Without a name, the only function.
// `graph` is the number of its graph in `etude inspect --function`; 0: the graph that fits.
//
// throws: kInvalidArgument for several sizes of a function that has no open sizes, and for a size
//         that no graph serves, for graphs that differ in a host value where `graph` is 0;
//         kUnimplemented for a function that changes state; kFailedPrecondition for a function
//         without a graph, and if `is_state_apart` for a function without state; the errors of
//         reading the folder.
SavedModels saved_models(const std::string& folder, const std::string& function, int64_t graph,
                         const std::vector<int64_t>& sizes, bool is_state_apart);

}  // namespace etude::tools
