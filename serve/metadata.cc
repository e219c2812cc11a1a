// SPDX-License-Identifier: Apache-2.0
#include "serve/metadata.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "etude/core/context/ambient.h"
#include "serve/datatype.h"
#include "serve/refuse.h"

namespace etude::serve {
namespace {

// "float32[n,28,1]": the dtype and the texts of the sizes.
struct PortType {
  std::string dtype;
  std::vector<std::string> sizes;
};

PortType parts_of_type(const std::string& type) {
  const std::size_t bracket = type.find('[');
  PortType out{type.substr(0, bracket), {}};
  if (bracket == std::string::npos) return out;
  std::string size;
  int depth = 0;  // a size may be a formula
  for (const char c : std::string_view(type).substr(bracket + 1)) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth > 0 || (c != ',' && c != ']')) {
      size += c;
      continue;
    }
    if (!size.empty()) out.sizes.push_back(size);
    size.clear();
  }
  return out;
}

bool is_number(const std::string& size) {
  return !size.empty() && std::ranges::all_of(size, [](char c) { return c >= '0' && c <= '9'; });
}

TensorMetadata tensor_of_port(const std::string& name, const std::string& type,
                              const std::string& function, std::string_view what) {
  const PortType parts = parts_of_type(type);
  const std::optional<DType> dtype = dtype_named(parts.dtype);
  if (!dtype || datatype_name(*dtype).empty()) {
    refuse(ErrorCode::kInvalidArgument,
           "{} '{}' of function '{}' is {}, but the protocol has the datatypes {}. Save a function "
           "that splits it",
           what, name, function, type, datatype_names());
  }
  TensorMetadata out{.name = name, .dtype = *dtype};
  out.is_known = type.find('[') != std::string::npos;
  for (const std::string& size : parts.sizes) {
    out.shape.push_back(is_number(size) ? std::stoll(size) : -1);
  }
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
    if (port.kind == saved::Port::Kind::kTensor && port.type != "absent") out.push_back(port);
  }
  return out;
}

// Whether `size` is the first size of each port and occurs nowhere else.
bool leads(const std::string& size, const std::vector<saved::Port>& ports) {
  return std::ranges::all_of(ports, [&](const saved::Port& port) {
    const std::vector<std::string> sizes = parts_of_type(port.type).sizes;
    return !sizes.empty() && sizes[0] == size &&
           std::none_of(sizes.begin() + 1, sizes.end(), [&](const std::string& other) {
             return other.find(size) != std::string::npos;
           });
  });
}

bool has_batch_axis(const saved::GraphSignature& signature) {
  const std::vector<saved::Port> inputs = tensors_among(signature.inputs);
  if (inputs.empty()) return false;
  const std::vector<std::string> sizes = parts_of_type(inputs[0].type).sizes;
  return !sizes.empty() && !is_number(sizes[0]) && leads(sizes[0], inputs);
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
    add_tensor(to, tensor_of_port(name, port.type, function, "input"));
  }
}

// The names of an exported signature are in the order of the results.
void add_outputs(std::vector<TensorMetadata>& to, const saved::GraphSignature& graph,
                 const saved::ExportedSignature* exported, const std::string& function) {
  const std::vector<saved::Port> ports = tensors_among(graph.outputs);
  const bool named = exported != nullptr && exported->outputs.size() == ports.size();
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const std::string& name = named ? exported->outputs[i] : ports[i].name;
    add_tensor(to, tensor_of_port(name, ports[i].type, function, "output"));
  }
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
    out.has_batch_axis = out.has_batch_axis || has_batch_axis(each);
  }
  return out;
}

void check_inputs(const std::string& model, const ModelMetadata& metadata,
                  const io::NamedTensors& inputs) {
  std::vector<std::string> names;
  for (const TensorMetadata& each : metadata.inputs) names.push_back(each.name);
  for (const auto& [name, x] : inputs) {
    if (std::ranges::find(names, name) == names.end()) {
      refuse(ErrorCode::kInvalidArgument, "model '{}' has no input '{}'. Its inputs: {}", model,
             name, fmt::join(names, ", "));
    }
  }
  for (const TensorMetadata& each : metadata.inputs) {
    const auto found = inputs.find(each.name);
    const std::string needed =
        fmt::format("{} of shape {}", datatype_name(each.dtype), shape_text(each.shape));
    if (found == inputs.end()) {
      refuse(ErrorCode::kInvalidArgument, "model '{}': input '{}' is missing; it is {}", model,
             each.name, needed);
    }
    const Tensor& x = found->second;
    const std::vector<int64_t> shape = x.shape().to_vector();
    bool fits = x.dtype() == each.dtype;
    if (each.fixed_rank) {
      fits = fits && std::ranges::equal(shape, each.shape, [](int64_t seen, int64_t wanted) {
               return wanted < 0 || seen == wanted;
             });
    }
    if (!fits) {
      refuse(ErrorCode::kInvalidArgument,
             "model '{}': input '{}' is {} of shape {}, but the model needs {}", model, each.name,
             datatype_name(x.dtype()), shape_text(shape), needed);
    }
  }
}

}  // namespace etude::serve
