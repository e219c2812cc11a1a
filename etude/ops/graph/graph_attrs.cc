// SPDX-License-Identifier: Apache-2.0
#include "etude/ops/graph/graph_attrs.h"

#include <algorithm>
#include <string>

#include "etude/base/check.h"

namespace etude::ops {
namespace {

GraphRef require_graph(const AttrObject& object, std::string_view name) {
  const auto* graph = dynamic_cast<const Graph*>(&object);
  ETUDE_REQUIRE(graph != nullptr, "attribute '{}' is no graph", name);
  return GraphRef(graph);
}

}  // namespace

GraphRef graph_of(const Attrs& attrs, std::string_view name) {
  return require_graph(attrs.object(name), name);
}

Graphs graphs_of(const Attrs& attrs, std::string_view name) {
  Graphs out;
  for (const auto& object : attrs.objects(name)) out.push_back(require_graph(*object, name));
  return out;
}

AttrValue graph_value(const GraphRef& graph) {
  return internal::RefPtr<const AttrObject>(graph.get());
}

AttrValue graphs_value(const Graphs& graphs) {
  std::vector<internal::RefPtr<const AttrObject>> out;
  for (const GraphRef& graph : graphs) out.emplace_back(graph.get());
  return out;
}

void add_inputs(Inputs& to, std::span<const Graph::Input> from, std::string_view prefix) {
  for (const Graph::Input& input : from) {
    to.push_back({std::string(prefix) + input.name, input.type});
  }
}

std::span<const Tensor> part(std::span<const Tensor> list, std::size_t& at, std::size_t count) {
  return list.subspan(std::exchange(at, at + count), count);
}

Tensors list_of(Operands operands) {
  Tensors out;
  for (std::size_t i = 0; i < operands.size(); ++i) out.push_back(operands[i]);
  return out;
}

std::string text_with_device(const Type* type) {
  const Device device = type->device();
  return device.is_home() ? type->to_string() : type->to_string() + " on " + device.to_string();
}

std::vector<const Type*> differentiable(const Types& types) {
  std::vector<const Type*> out;
  for (const Type* type : types) {
    if (type != nullptr && is_differentiable(type->dtype())) out.push_back(type);
  }
  return out;
}

int64_t own_results(const Attrs& attrs, int64_t visible) {
  return attrs.has("results") ? attrs.integer("results") : visible;
}

std::vector<bool> moving(const JvpCall& call) {
  std::vector<bool> out;
  for (std::size_t i = 0; i < call.in.size(); ++i) out.push_back(call.tangents[i].has_value());
  return out;
}

std::vector<bool> batched(const BatchCall& call) {
  std::vector<bool> out;
  for (std::size_t i = 0; i < call.in.size(); ++i) out.push_back(call.is_batched(i));
  return out;
}

std::vector<bool> wanted(uint64_t bits, std::span<const Type* const> types) {
  std::vector<bool> out;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool is_asked = ((bits >> std::min<std::size_t>(i, 63)) & 1) != 0;
    out.push_back(is_asked && types[i] != nullptr && is_differentiable(types[i]->dtype()));
  }
  return out;
}

Types types_of(Operands operands) {
  Types out;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    out.push_back(operands[i].has_value() ? operands[i].type() : nullptr);
  }
  return out;
}

void add_cotangents(Tensors& to, const VjpCall& call, std::size_t first, std::size_t count) {
  for (std::size_t i = first; i < first + count; ++i) {
    if (!call.out[i].has_value() || !is_differentiable(call.out[i].dtype())) continue;
    to.push_back(call.cotangents[i].has_value() ? call.cotangents[i]
                                                : internal::full(call.out[i].type(), 0));
  }
}

Tensor empty_sum(const Type* type) {
  if (!is_complex(type->dtype())) return internal::full(type, -0.0);
  return internal::negative(internal::full(type, 0));
}

std::vector<bool> add_sums(Tensors& to, const VjpCall& call, std::span<const int64_t> sums,
                           std::span<const int64_t> gives, bool is_added_to) {
  std::vector<bool> is_empty;
  for (const int64_t i : sums) {
    const auto at = static_cast<std::size_t>(i);
    const bool is_given = std::ranges::count(gives, i) > 0;
    const Tensor so_far = is_given ? call.take_sum(at) : Tensor();
    is_empty.push_back(is_given && !so_far.has_value());
    to.push_back(so_far.has_value() ? to_dense(so_far)
                 : is_added_to      ? empty_sum(call.in[at].type())
                                    : internal::full(call.in[at].type(), 0));
  }
  return is_empty;
}

Doubled::Doubled(const Graph& graph, std::span<const std::size_t> groups,
                 const std::vector<bool>& moves)
    : value_at(moves.size()) {
  std::size_t first = 0;
  for (const std::size_t size : groups) {
    const std::size_t before = inputs.size();
    for (std::size_t i = first; i < first + size; ++i) {
      value_at[i] = inputs.size();
      inputs.push_back({graph.inputs()[i].name, graph.inputs()[i].type});
    }
    for (std::size_t i = first; i < first + size; ++i) {
      if (!moves[i]) continue;
      tangent_at.push_back(inputs.size());
      inputs.push_back({"t_" + graph.inputs()[i].name, graph.inputs()[i].type});
    }
    group_sizes.push_back(inputs.size() - before);
    first += size;
  }
}

Tensors Doubled::values(std::span<const Tensor> given) const {
  Tensors out;
  for (const std::size_t at : value_at) out.push_back(given[at]);
  return out;
}

Tensors Doubled::tangents(std::span<const Tensor> given) const {
  Tensors out;
  for (const std::size_t at : tangent_at) out.push_back(given[at]);
  return out;
}

Tensors Doubled::outputs(std::span<const Tensor> pushed, std::size_t carried,
                         const std::vector<bool>& moves) {
  const std::size_t size = pushed.size() / 2;
  const auto values = pushed.first(size), tangents = pushed.subspan(size);
  Tensors out;
  const auto add = [&](std::size_t begin, std::size_t end) {
    append(out, values.subspan(begin, end - begin));
    for (std::size_t i = begin; i < end; ++i) {
      if (tangents[i].has_value()) {
        out.push_back(tangents[i]);
      } else if (i < carried && moves[i]) {
        out.push_back(internal::full(values[i].type(), 0));
      }
    }
  };
  add(0, carried);
  add(carried, size);
  return out;
}

void write_over(const PrepareCall& call, std::size_t c) {
  constexpr std::size_t kMost = 127;  // operands are named by a small number
  if (c >= kMost) return;
  if (call.out.results.size() == 1) {
    call.out.in_place |= 1;
    return;
  }
  while (call.out.results_over.size() <= c) call.out.results_over.push_back(-1);
  call.out.results_over[c] = static_cast<int8_t>(c);
}

Values call_op(const Op& op, std::span<const Tensor> operands,
               const std::vector<std::pair<std::string_view, AttrValue>>& attrs) {
  const OperandList list(operands);
  return internal::run_all(op, list.view(), op.attrs_by_name(attrs));
}

}  // namespace etude::ops
