// SPDX-License-Identifier: Apache-2.0
#include "etude/saved/loaded.h"

#include <algorithm>
#include <mutex>
#include <typeinfo>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/device.h"
#include "etude/core/internal/host_door.h"
#include "etude/saved/graph_index.h"
#include "etude/saved/structure.h"
#include "etude/variables/init_scope.h"

namespace etude::saved::internal {
namespace {

constexpr std::size_t kMostInstances = 32;
constexpr std::size_t kFewGraphs = 8;  // a call looks at each of them

// The value on the device where it was; at home if this process has no such device.
Tensor placed(const Tensor& value, const std::string& device) {
  for (const Device& each : list_devices()) {
    if (each.to_string() == device) return etude::internal::copied_to(value, each);
  }
  return value;
}

void make_variables(Content& content) {
  for (SavedVariable& v : content.variables) {
    if (v.variable) continue;
    v.variable.emplace(
        v.value.has_value() ? placed(v.value, v.device) : Tensor(),
        VariableOptions{
            .name = v.name, .trainable = v.is_trainable, .dtype = v.dtype, .shape = v.shape});
    v.value = {};
  }
  for (SavedObject& object : content.objects) {
    const Parts read = object.parts;
    object.parts = *rebuilt(read, [&](std::size_t i) -> std::optional<Parts> {
      if (object.is_variable[i] != 0) return Parts(variable_at(content, object.values[i]));
      const FormLeaf& leaf = read.leaf(i);
      if (leaf.kind == LeafKind::kHost) return Parts(read.host(leaf.path));
      Parts out = empty_leaf(leaf);
      set_tensor(out, 0, tensor_of(read, i));
      return out;
    });
  }
}

// Whether the graph takes one tensor for each parameter, in order, and returns a tensor.
bool is_plain(const SavedFunction& function, const SavedGraph& graph) {
  if (!graph.hosts.empty() || !graph.variable_arguments.empty()) return false;
  std::size_t next = 0;
  for (const SavedTensor& x : graph.tensors) {
    if (x.is_absent) return false;
    if (x.state >= 0) continue;
    const bool fits = next < function.arguments.size() && x.path == function.arguments[next++];
    if (!fits || x.is_changed) return false;
  }
  const Parts& result = graph.result.parts;
  return next == function.arguments.size() && result.form()->kind() == Form::Kind::kLeaf &&
         result.leaf(0).kind == LeafKind::kTensor && graph.result.is_present[0] != 0;
}

std::size_t first_variable(const Graph& graph) {
  const auto inputs = graph.inputs();
  std::size_t first = 0;
  while (first < inputs.size() && inputs[first].role < InputRole::kVariable) ++first;
  return first;
}

}  // namespace

TraceRef Instances::find(const Loaded& program, std::span<const Type* const> inputs) const {
  const std::lock_guard lock(program.traces);
  for (const auto& [types, trace] : made_) {
    if (std::ranges::equal(types, inputs)) return trace;
  }
  return {};
}

void Instances::add(const Loaded& program, std::vector<const Type*> inputs, TraceRef trace) {
  const std::lock_guard lock(program.traces);
  if (made_.size() >= kMostInstances) made_.pop_front();
  made_.emplace_back(std::move(inputs), std::move(trace));
}

const TraceRef& LazyTrace::get(const Loaded& program, const SavedGraph& saved) const {
  if (is_made_.load(std::memory_order_acquire)) return trace_;
  const std::lock_guard lock(program.traces);
  if (!is_made_.load(std::memory_order_relaxed)) {
    trace_ = make_trace(program, saved, saved.graph);
    is_made_.store(true, std::memory_order_release);
  }
  return trace_;
}

std::vector<const Type*> input_types(const Graph& graph) {
  std::vector<const Type*> out;
  for (const Graph::Input& input : graph.inputs()) out.push_back(input.type);
  return out;
}

std::string type_text(const SavedGraph& graph, GraphValue value) {
  return graph.symbolic ? graph.symbolic->type_text(value) : graph.graph->type(value)->to_string();
}

TraceRef make_trace(const Loaded& program, const SavedGraph& saved, const GraphRef& graph) {
  auto trace = etude::internal::make_ref<Trace>();
  trace->key.phase = saved.phase;
  std::size_t next = 0;
  for (std::size_t i = 0; i < saved.tensors.size(); ++i) {
    const SavedTensor& x = saved.tensors[i];
    trace->key.types.push_back(x.is_absent ? nullptr : graph->inputs()[next++].type);
    trace->names.tensors.push_back(x.path);
    if (!x.is_absent) trace->inputs.push_back(static_cast<int32_t>(i));
    trace->in_out.push_back(x.is_changed ? 1 : 0);
  }
  const auto inputs = graph->inputs();
  while (next < inputs.size() && inputs[next].role == InputRole::kKey) ++next;
  for (const SavedUse& use : saved.uses) {
    etude::internal::VariableSlot& slot = trace->variables.emplace_back();
    slot.argument = static_cast<int32_t>(use.argument);
    slot.is_read = use.is_read;
    slot.is_written = use.is_written;
    if (use.is_read) slot.type = inputs[next++].type;
    if (use.variable < 0) continue;
    const Variable& variable = variable_at(program.content, use.variable);
    slot.state = etude::internal::weak_state(variable);
    slot.name = etude::internal::title_of(variable);
  }
  for (const int64_t c : saved.captures) {
    trace->captures.push_back(program.content.constants[static_cast<std::size_t>(c)]);
  }
  trace->outputs = graph->outputs().size();
  for (const SavedUse& use : saved.uses) trace->outputs -= use.is_written ? 1 : 0;
  trace->set_graph(graph);
  return TraceRef(trace);
}

std::shared_ptr<const Loaded> make_loaded(std::filesystem::path folder, Content content) {
  const etude::internal::OutsideScope outside;  // Variables are of the program, not of a trace
  auto out = std::make_shared<Loaded>();
  out->folder = std::move(folder);
  out->content = std::move(content);
  make_variables(out->content);
  for (const SavedFunction& saved : out->content.functions) {
    LoadedFunction& function = out->functions.emplace_back();
    function.core = std::make_unique<etude::internal::FunctionCore>(
        FunctionOptions{.name = saved.name}, typeid(Loaded), CallSite{});
    for (const SavedGraph& graph : saved.graphs) {
      LoadedGraph& to = function.graphs.emplace_back();
      to.saved = &graph;
      to.types = input_types(graph.sample());
      to.first_variable = first_variable(graph.sample());
      to.is_plain = is_plain(saved, graph);
      to.changes_state = std::ranges::any_of(graph.tensors, &SavedTensor::is_changed);
      if (!graph.graph) {
        to.instances = std::make_unique<Instances>();
      } else if (!graph.is_special) {
        to.trace.get(*out, graph);
      }
    }
    if (function.graphs.size() > kFewGraphs) {
      function.index = std::make_shared<const GraphIndex>(function.graphs);
    }
  }
  return out;
}

}  // namespace etude::saved::internal
