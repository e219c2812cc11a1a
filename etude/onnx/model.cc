// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/model.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace etude::onnx::internal {

Port port_of(std::string name, const Type* type) {
  Port out{std::move(name), type->dtype(), {}};
  for (const int64_t size : type->shape()) out.axes.push_back({size});
  return out;
}

std::vector<GraphModel*> graphs_of(Node& node) {
  std::vector<GraphModel*> out;
  for (Attribute& attribute : node.attributes) {
    if (const auto* graph = std::get_if<std::shared_ptr<GraphModel>>(&attribute.value)) {
      out.push_back(graph->get());
    }
  }
  return out;
}

}  // namespace etude::onnx::internal
