// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/stored.h"

#include <array>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/files/file_reader.h"
#include "etude/graph/binary.h"
#include "etude/io/checkpoint/checkpoint.h"
#include "etude/io/checkpoint/object_graph.h"
#include "etude/saved/saved.h"
#include "tools/etude/graph_command.h"

namespace etude::tools {
namespace {

namespace fs = std::filesystem;
using saved::internal::Content;
using saved::internal::SavedFunction;
using saved::internal::SavedGraph;
using saved::internal::SavedVariable;

StoredGraph graph_of(const Content& content, const SavedGraph& from) {
  StoredGraph out;
  out.title = saved::internal::signature_of(content, from).to_string();
  out.graph = from.graph ? from.graph : from.symbolic->graphs().front();
  out.symbolic = from.symbolic;
  out.inputs = saved::internal::inputs_of(content, from);
  out.outputs = saved::internal::outputs_of(content, from);
  out.made_for = from.made_for;
  out.is_special = from.is_special;
  return out;
}

StoredTensor tensor_of(const SavedVariable& v) {
  const Variable& variable = *v.variable;
  StoredTensor out;
  out.type = fmt::format("{}{}", name(variable.dtype()), variable.shape().to_string());
  if (variable.initialized()) {
    out.value = variable.read(CallSite{});
    out.type = out.value.type()->to_string();
  }
  out.is_trainable = v.is_trainable;
  return out;
}

void read_functions(Stored& to) {
  to.kind = StoredKind::kFunctions;
  to.loaded = saved::internal::make_loaded(to.path, saved::internal::read_content(to.path, 0));
  const Content& content = to.loaded->content;
  for (const SavedFunction& from : content.functions) {
    StoredFunction& function = to.functions.emplace_back();
    function.name = from.name;
    function.arguments = from.arguments;
    if (from.exported) {
      function.exported = fmt::format("{} -> {}", fmt::join(from.exported->inputs, ", "),
                                      fmt::join(from.exported->outputs, ", "));
    }
    for (const SavedGraph& graph : from.graphs) {
      function.graphs.push_back(graph_of(content, graph));
    }
  }
  for (const SavedVariable& v : content.variables) {
    for (const std::string& path : v.paths) to.state.emplace(path, tensor_of(v));
  }
  to.constants = content.constants;
  for (const auto& object : content.objects) {
    to.objects.push_back(object.name + ": " + object.parts.form()->to_string());
  }
  for (const auto& asset : content.assets) to.assets.push_back(asset.name);
}

void take_tensors(Stored& to, StoredKind kind, io::SafetensorsFile file) {
  to.kind = kind;
  to.metadata = std::move(file.metadata);
  for (auto& [path, x] : file.tensors) {
    const std::string type = x.type()->to_string();
    to.state.emplace(path, StoredTensor{type, std::move(x)});
  }
}

GraphInput::Source source_of(InputRole role) {
  switch (role) {
    case InputRole::kArgument:
      return GraphInput::Source::kArgument;
    case InputRole::kKey:
      return GraphInput::Source::kKey;
    case InputRole::kVariable:
      return GraphInput::Source::kState;
    case InputRole::kCapture:
      break;
  }
  return GraphInput::Source::kConstant;
}

void read_graphs(Stored& to) {
  to.kind = StoredKind::kGraphs;
  for (NamedGraph& named : load_graphs(to.path)) {
    StoredGraph graph;
    graph.symbolic = named.symbolic;
    graph.graph = named.graph ? named.graph : named.symbolic->graphs().front();
    graph.outputs = std::move(named.outputs);
    graph.outputs.resize(graph.graph->outputs().size());
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < graph.graph->inputs().size(); ++i) {
      const Graph::Input& input = graph.graph->inputs()[i];
      graph.inputs.push_back({source_of(input.role), -1, input.name});
      if (input.role != InputRole::kArgument) continue;
      parts.push_back(fmt::format("{}: {}", input.name,
                                  graph.symbolic
                                      ? graph.symbolic->type_text(static_cast<GraphValue>(i))
                                      : input.type->to_string()));
    }
    graph.title = fmt::format("({})", fmt::join(parts, ", "));
    StoredFunction& function = to.functions.emplace_back();
    function.name = named.name;
    function.graphs.push_back(std::move(graph));
  }
}

// Refuses other files than graphs by their bytes: the parser would print bytes of any file.
// Faults of a text in FILE.txt are for the parser, which shows the line.
void require_graphs(const std::string& path) {
  const GraphForm form = graph_form(path);
  const bool is_text = form == GraphForm::kMaybeText && path.ends_with(".txt");
  if (is_text || form == GraphForm::kBytes || form == GraphForm::kText) return;
  constexpr std::string_view kForms =
      "Forms that are read: a folder of saved functions, a checkpoint, a safetensors file, a file "
      "of graphs as text or bytes; `etude convert` also reads FILE.onnx";
  ETUDE_REQUIRE(form != GraphForm::kEmpty, "'{}' is empty. {}", path, kForms);
  ETUDE_REQUIRE(!path.ends_with(".mlir"), "'{}' is StableHLO, which is written, not read. {}", path,
                kForms);
  ETUDE_THROW(kInvalidArgument, "'{}' has no form that is read. {}", path, kForms);
}

// Eight bytes with the length of a JSON object, and the object.
bool looks_like_safetensors(const std::string& path) {
  const internal::FileReader file(path);
  std::array<uint8_t, 9> begin{};
  if (file.size() < begin.size()) return false;
  file.read(0, begin);
  return begin[7] == 0 && begin[8] == '{';
}

void read_folder(Stored& to) {
  if (saved::is_saved(to.path)) return read_functions(to);
  ETUDE_REQUIRE(io::internal::is_checkpoint(to.path),
                "'{}' is a folder, but neither saved functions nor a checkpoint: it has no file "
                "saved.json or manifest.json. Name the folder that has one",
                to.path);
  take_tensors(to, StoredKind::kCheckpoint, io::internal::load_run(to.path));
}

}  // namespace

std::string words_of(StoredKind kind) {
  switch (kind) {
    case StoredKind::kFunctions:
      return "a folder of saved functions";
    case StoredKind::kCheckpoint:
      return "a checkpoint";
    case StoredKind::kGraphs:
      return "a file of graphs";
    case StoredKind::kTensors:
      break;
  }
  return "a file of tensors";
}

Stored read_stored(const std::string& path) {
  Stored out;
  out.path = path;
  std::error_code failed;
  ETUDE_REQUIRE_CODE(kNotFound, fs::exists(path, failed), "'{}' does not exist. Is the path right?",
                     path);
  if (fs::is_directory(path, failed)) {
    read_folder(out);
  } else if (path.ends_with(".safetensors") || looks_like_safetensors(path)) {
    take_tensors(out, StoredKind::kTensors, io::load_safetensors(path, CallSite{}));
  } else {
    require_graphs(path);
    read_graphs(out);
  }
  return out;
}

}  // namespace etude::tools
