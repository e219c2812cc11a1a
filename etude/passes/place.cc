// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/place.h"

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "etude/core/context/context.h"
#include "etude/core/context/device_scope.h"
#include "etude/core/context/placement.h"
#include "etude/core/internal/host_door.h"
#include "etude/graph/builder.h"
#include "etude/passes/graph_copy.h"

namespace etude::internal {
namespace {

GraphRef place_inner(const Graph& graph, Device device);

// Makes the calls of a graph again, in a scope of the device.
class PlaceContext final : public Context {
 public:
  using Draft = GraphBuilder::Draft;

  // With `moves_keys` the keys of draws are on the device as well: an op that runs the graph has
  // its operands on one device.
  PlaceContext(const Graph& graph, Device device, bool moves_keys)
      : graph_(graph),
        device_(device),
        is_inner_(moves_keys),
        build_(graph.name()),
        values_(graph.value_count()) {
    build_.keep_texts_of(graph);
    for (const Graph::Frame& frame : graph.frames()) build_.add_frame(frame);
    for (GraphValue v = 0; v < graph.first_constant(); ++v) {
      const Graph::Input& input = graph.inputs()[v];
      const bool stays = input.role == InputRole::kKey && !moves_keys;
      const Type* type = stays ? input.type : placed(input.type);
      values_[v] = abstract_tensor(build_.add_input(input.name, type, input.role));
    }
  }

  GraphRef run() {
    const BottomScope bottom(*this);
    for (std::size_t i = 0; i < graph_.size(); ++i) run_node(graph_.node(i));
    std::vector<Draft> outputs;
    for (const GraphValue v : graph_.outputs()) {
      outputs.push_back(v == kNoValue ? GraphBuilder::kNoDraft : number(output(v)));
    }
    return build_.finish(outputs, true);
  }

  Values execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) override {
    std::vector<Draft> operands;
    for (std::size_t i = 0; i < in.size(); ++i) operands.push_back(number(in[i]));
    const auto [first, count] = build_.append(op, attrs, operands, where);
    Values out;
    for (uint32_t r = 0; r < count; ++r) out.push_back(abstract_tensor(first + r));
    return out;
  }

 private:
  const Type* placed(const Type* type) const {
    return type->device().is_home() ? type->on(device_) : type;
  }

  void run_node(const Graph::Node& node) {
    build_.set_frame(node.frame);
    if (node.op.moves_devices() && is_there(node)) {
      values_[node.first_result] = value(node.operands[0]);
      return;
    }
    // The device on which the node was recorded: of a scope inside the function, unless cpu:0.
    const Device own = device_of(node.op, operand_types(graph_, node), node.attrs);
    const Device device = own.is_home() ? device_ : own;
    const DeviceScope scope(device, {.copies = CopyPolicy::kSilent});
    const bool runs_graphs = holds_graphs(node.op);
    const bool is_call = !node.op.def().body.empty();
    const Attrs attrs =
        !runs_graphs ? node.attrs : with_graphs(node.op, node.attrs, [&](const Graph& g) {
          return is_call ? placed_graph(g, device) : place_inner(g, device);
        });
    std::vector<Tensor> held;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const GraphValue v = node.operands[i];
      Tensor x = v == kNoValue ? Tensor() : value(v);
      const bool follows = runs_graphs && !is_call && !node.op.operand(i).on_host;
      if (follows && x.has_value()) {
        x = moved(x, device, node.where);
      }
      held.push_back(std::move(x));
    }
    const Values out = etude::execute(node.op, OperandList(held).view(), attrs, node.where);
    for (uint32_t r = 0; r < node.results; ++r) values_[node.first_result + r] = out[r];
  }

  // Whether a copy goes to the device where its operand now is. Then its result is the operand
  // itself, as in a plain call.
  bool is_there(const Graph::Node& node) {
    return value(node.operands[0]).device() == graph_.type(node.first_result)->device();
  }

  // All results of a branch or a step are on the device, also results of host code.
  Tensor output(GraphValue v) {
    const bool goes_there = is_inner_ && graph_.type(v)->device().is_home();
    return goes_there ? moved(value(v), device_) : value(v);
  }
  const Tensor& value(GraphValue v) {
    Tensor& x = values_[v];
    if (!x.has_value()) {
      const Tensor& constant = graph_.constants()[v - graph_.first_constant()];
      const Tensor there = constant.device().is_home() ? copied_to(constant, device_) : constant;
      x = abstract_tensor(build_.add_constant(there));
    }
    return x;
  }
  Tensor abstract_tensor(Draft draft) {
    Tensor out = make_abstract(build_.type(draft));
    drafts_.emplace(TensorAccess::id(out), draft);
    held_.push_back(out);
    return out;
  }
  Draft number(const Tensor& x) {
    if (!x.has_value()) return GraphBuilder::kNoDraft;
    const auto [at, is_new] = drafts_.try_emplace(TensorAccess::id(x));
    if (is_new) {
      at->second = build_.add_constant(x);
      held_.push_back(x);
    }
    return at->second;
  }

  const Graph& graph_;
  const Device device_;
  const bool is_inner_;  // of an op that runs the graph
  GraphBuilder build_;
  std::vector<Tensor> values_;                  // by value of the graph
  std::unordered_map<uint64_t, Draft> drafts_;  // by value id
  std::vector<Tensor> held_;                    // so that ids stay theirs
};

GraphRef place_inner(const Graph& graph, Device device) {
  return PlaceContext(graph, device, true).run();
}

}  // namespace

GraphRef placed_graph(const Graph& graph, Device device) {
  if (device.is_home()) return GraphRef(&graph);
  return graph.kept<Graph>("placed on " + device.to_string(),
                           [&] { return PlaceContext(graph, device, false).run(); });
}

}  // namespace etude::internal
