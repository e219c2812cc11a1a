// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/make_graph.h"

#include <utility>

#include "etude/core/context/device_scope.h"
#include "etude/stage/trace.h"

namespace etude::internal {

GraphRef make_graph(std::string name, std::span<const Graph::Input> inputs, GraphBody f) {
  const NoDeviceScope own;  // the graph serves calls in other scopes as well
  TraceContext trace(std::move(name), {});
  std::vector<Tensor> arguments;
  for (const Graph::Input& input : inputs) {
    arguments.push_back(trace.add_argument(input.name, input.type));
  }
  const std::vector<Tensor> outputs = f(arguments);
  trace.keep_constants();
  return trace.finish(outputs).graph;
}

}  // namespace etude::internal
