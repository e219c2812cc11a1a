// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/model.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "etude/core/internal/host_door.h"

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

bool is_same(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type()) return false;
  const void* const at = etude::internal::host_elements(a);
  const void* const other = etude::internal::host_elements(b);
  return at == other || std::memcmp(at, other, static_cast<std::size_t>(a.type()->bytes())) == 0;
}

}  // namespace etude::onnx::internal
