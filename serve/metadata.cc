// SPDX-License-Identifier: Apache-2.0
#include "serve/metadata.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "etude/core/context/ambient.h"
#include "serve/datatype.h"
#include "serve/refuse.h"

namespace etude::serve {
namespace {

TensorMetadata tensor_of_port(const std::string& name, const saved::Port& port,
                              const std::string& function, std::string_view what) {
  if (datatype_name(*port.dtype).empty()) {
    refuse(ErrorCode::kInvalidArgument,
           "{} '{}' of function '{}' is {}, but the protocol has the datatypes {}. Save a function "
           "that splits it",
           what, name, function, port.type, datatype_names());
  }
  TensorMetadata out{.name = name, .dtype = *port.dtype};
  out.is_known = port.sizes.has_value();
  if (!port.sizes) return out;
  for (const saved::PortSize& size : *port.sizes) out.shape.push_back(size.number);
  return out;
}

// A size that differs between graphs is open.
void merge(TensorMetadata& into, const TensorMetadata& other) {
  into.is_known = into.is_known && other.is_known;
  if (into.shape.size() != other.shape.size()) {
    into.fixed_rank = false;
    return;
  }
  for (std::size_t i = 0; i < into.shape.size(); ++i) {
    if (into.shape[i] != other.shape[i]) into.shape[i] = -1;
  }
}

std::vector<saved::Port> tensors_among(const std::vector<saved::Port>& ports) {
  std::vector<saved::Port> out;
  for (const saved::Port& port : ports) {
    if (port.dtype) out.push_back(port);
  }
  return out;
}

// Whether `size` is the first size of the port and none of its other sizes.
bool leads(const saved::PortSize& size, const saved::Port& port) {
  return !port.sizes->empty() && std::ranges::count(*port.sizes, size) == 1 &&
         port.sizes->front() == size;
}

bool has_batch_axis(const saved::GraphSignature& signature) {
  const std::vector<saved::Port> inputs = tensors_among(signature.inputs);
  if (inputs.empty() || inputs[0].sizes->empty()) return false;
  const saved::PortSize first = inputs[0].sizes->front();
  return first.is_open() &&
         std::ranges::all_of(inputs, [&](const auto& port) { return leads(first, port); });
}

const saved::ExportedSignature* exported_of(const std::vector<saved::ExportedSignature>& all,
                                            const std::string& function) {
  const auto found = std::ranges::find(all, function, &saved::ExportedSignature::function);
  return found == all.end() ? nullptr : &*found;
}

// The graphs for inference, which is the phase of a server.
std::vector<saved::GraphSignature> served_signatures(const saved::Function& function) {
  std::vector<saved::GraphSignature> out;
  for (saved::GraphSignature& each : function.signatures()) {
    if (each.phase == Phase::kInference) out.push_back(std::move(each));
  }
  if (out.empty()) {
    refuse(ErrorCode::kFailedPrecondition,
           "function '{}' has no graph for inference. Call it once outside of a training phase "
           "before it is saved",
           function.name());
  }
  for (const saved::GraphSignature& each : out) {
    if (!each.changed.empty()) {
      refuse(ErrorCode::kInvalidArgument,
             "function '{}' changes state: {}. A server calls functions that change nothing, such "
             "as a prediction",
             function.name(), fmt::join(each.changed, ", "));
    }
  }
  return out;
}

void add_tensor(std::vector<TensorMetadata>& to, const TensorMetadata& made) {
  const auto known = std::ranges::find(to, made.name, &TensorMetadata::name);
  if (known == to.end()) {
    to.push_back(made);
  } else {
    merge(*known, made);
  }
}

// Adds the inputs of one graph. An exported signature has names for their paths.
void add_inputs(std::vector<TensorMetadata>& to, const saved::GraphSignature& graph,
                const saved::ExportedSignature* exported, const std::string& function) {
  for (const saved::Port& port : tensors_among(graph.inputs)) {
    std::string name = port.name;
    if (exported != nullptr) {
      const auto found = std::ranges::find(exported->input_paths, port.name);
      if (found != exported->input_paths.end()) {
        name = exported->inputs[static_cast<std::size_t>(found - exported->input_paths.begin())];
      }
    }
    add_tensor(to, tensor_of_port(name, port, function, "input"));
  }
}

// The names of an exported signature are in the order of the results.
void add_outputs(std::vector<TensorMetadata>& to, const saved::GraphSignature& graph,
                 const saved::ExportedSignature* exported, const std::string& function) {
  const std::vector<saved::Port> ports = tensors_among(graph.outputs);
  const bool named = exported != nullptr && exported->outputs.size() == ports.size();
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const std::string& name = named ? exported->outputs[i] : ports[i].name;
    add_tensor(to, tensor_of_port(name, ports[i], function, "output"));
  }
}

std::string needed_text(const TensorMetadata& needed) {
  return fmt::format("{} of shape {}", datatype_name(needed.dtype), shape_text(needed.shape));
}

}  // namespace

saved::Function served_function(const saved::Program& program, const std::string& wanted) {
  if (!wanted.empty()) return program.function(wanted);
  const std::vector<saved::ExportedSignature> exported = program.signatures();
  if (exported.size() == 1) return program.function(exported[0].function);
  const std::vector<std::string> names = program.functions();
  if (names.size() == 1) return program.function(names[0]);
  if (std::ranges::find(names, "predict") != names.end()) return program.function("predict");
  refuse(ErrorCode::kInvalidArgument,
         "the program has {} functions: {}. Choose the function to serve with --function",
         names.size(), fmt::join(names, ", "));
}

ModelMetadata metadata_of(const saved::Program& program, const saved::Function& function) {
  ModelMetadata out;
  const std::vector<saved::ExportedSignature> all = program.signatures();
  const saved::ExportedSignature* exported = exported_of(all, function.name());
  const std::vector<saved::GraphSignature> graphs = served_signatures(function);
  for (const saved::GraphSignature& each : graphs) {
    add_inputs(out.inputs, each, exported, function.name());
    add_outputs(out.outputs, each, exported, function.name());
  }
  // Only one graph is called when the model is loaded. Another graph may treat rows otherwise.
  out.graphs = graphs.size();
  out.has_batch_axis = out.graphs == 1 && has_batch_axis(graphs[0]);
  return out;
}

void check_input(const std::string& model, const ModelMetadata& metadata, const std::string& name,
                 DType dtype, std::span<const int64_t> shape) {
  const auto found = std::ranges::find(metadata.inputs, name, &TensorMetadata::name);
  if (found == metadata.inputs.end()) {
    std::vector<std::string> names;
    for (const TensorMetadata& each : metadata.inputs) names.push_back(each.name);
    refuse(ErrorCode::kInvalidArgument, "model '{}' has no input '{}'. Its inputs: {}", model, name,
           fmt::join(names, ", "));
  }
  const auto fits = [](int64_t seen, int64_t wanted) { return wanted < 0 || seen == wanted; };
  if (dtype != found->dtype ||
      (found->fixed_rank && !std::ranges::equal(shape, found->shape, fits))) {
    refuse(ErrorCode::kInvalidArgument,
           "model '{}': input '{}' is {} of shape {}, but the model needs {}", model, name,
           datatype_name(dtype), shape_text({shape.begin(), shape.end()}), needed_text(*found));
  }
}

void check_inputs(const std::string& model, const ModelMetadata& metadata,
                  const io::NamedTensors& inputs) {
  for (const auto& [name, x] : inputs) {
    check_input(model, metadata, name, x.dtype(), x.shape().sizes());
  }
  for (const TensorMetadata& each : metadata.inputs) {
    if (!inputs.contains(each.name)) {
      refuse(ErrorCode::kInvalidArgument, "model '{}': input '{}' is missing; it is {}", model,
             each.name, needed_text(each));
    }
  }
}

}  // namespace etude::serve
