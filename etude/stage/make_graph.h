// SPDX-License-Identifier: Apache-2.0
// make_graph(): the graph of a function of the library, such as a rule or a body of a loop.
// function_core.cc traces the functions of users.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "etude/base/internal/function_ref.h"
#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

using GraphBody = FunctionRef<std::vector<Tensor>(std::span<const Tensor> inputs)>;
// Returns the graph of the calls that `f` makes on placeholders of the inputs. All other tensors
// that f uses become constants.
GraphRef make_graph(std::string name, std::span<const Graph::Input> inputs, GraphBody f);

}  // namespace internal
}  // namespace etude
