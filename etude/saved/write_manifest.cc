// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/files/crc32c.h"
#include "etude/files/json_tree.h"
#include "etude/saved/manifest.h"
#include "etude/saved/structure.h"

namespace etude::saved::internal {
namespace {

using nlohmann::json;

json json_of(const StoredFile& file) {
  return {{"file", file.name}, {"bytes", file.bytes}, {"crc32c", fmt::format("{:08x}", file.crc)}};
}

json json_of(const std::vector<StoredFile>& files) {
  json out = json::array();
  for (const StoredFile& file : files) out.push_back(json_of(file));
  return out;
}

json json_of(const SavedVariable& v) {
  json shape = nullptr;
  if (v.shape) shape = v.shape->to_vector();
  return {{"paths", v.paths},
          {"name", v.name},
          {"trainable", v.is_trainable},
          {"dtype", std::string(etude::name(v.dtype))},
          {"shape", std::move(shape)},
          {"device", v.device}};
}

json json_of(const FormLeaf& leaf) {
  static constexpr const char* kKinds[] = {"tensor", "variable", "state", "new_state", "host"};
  json out = {{"kind", kKinds[static_cast<std::size_t>(leaf.kind)]}};
  if (leaf.is_marked) out["constant"] = true;
  if (leaf.is_frozen) out["frozen"] = true;
  return out;
}

json json_of(const SavedObject& object) {
  json parts = form_json(*object.parts.form(), [&](std::size_t i) {
    const FormLeaf& leaf = object.parts.leaf(i);
    json out = json_of(leaf);
    if (leaf.kind == LeafKind::kHost) {
      out["value"] = host_json(object.parts.host(leaf.path));
    } else {
      out["value"] = object.values[i];
    }
    return out;
  });
  return {{"name", object.name}, {"parts", std::move(parts)}};
}

json json_of(const SavedResult& result) {
  return form_json(*result.parts.form(), [&](std::size_t i) {
    const FormLeaf& leaf = result.parts.leaf(i);
    json out = json_of(leaf);
    if (leaf.kind == LeafKind::kHost) {
      out["value"] = host_json(result.parts.host(leaf.path));
    } else {
      out["present"] = result.is_present[i] != 0;
    }
    return out;
  });
}

json json_of(const SavedGraph& graph) {
  json tensors = json::array(), hosts = json::array(), arguments = json::array(),
       uses = json::array();
  for (const SavedTensor& x : graph.tensors) {
    tensors.push_back(
        {{"path", x.path}, {"state", x.state}, {"absent", x.is_absent}, {"changed", x.is_changed}});
  }
  for (const SavedHost& host : graph.hosts) hosts.push_back(json::array({host.path, host.text}));
  for (const SavedVariableArgument& v : graph.variable_arguments) {
    arguments.push_back(json::array({v.path, v.same_as}));
  }
  for (const SavedUse& use : graph.uses) {
    uses.push_back({{"variable", use.variable},
                    {"argument", use.argument},
                    {"read", use.is_read},
                    {"written", use.is_written}});
  }
  return {{"training", graph.phase == Phase::kTraining},
          {"special", graph.is_special},
          {"made_for", graph.made_for},
          {"tensors", std::move(tensors)},
          {"hosts", std::move(hosts)},
          {"variables", std::move(arguments)},
          {"uses", std::move(uses)},
          {"captures", graph.captures},
          {"result", json_of(graph.result)}};
}

json json_of(const SavedFunction& function) {
  json graphs = json::array();
  for (const SavedGraph& graph : function.graphs) graphs.push_back(json_of(graph));
  json exported = nullptr;
  if (function.exported) {
    exported = {{"inputs", function.exported->inputs},
                {"paths", function.exported->input_paths},
                {"outputs", function.exported->outputs}};
  }
  return {{"name", function.name},
          {"display", function.display},
          {"arguments", function.arguments},
          {"exported", std::move(exported)},
          {"graphs", std::move(graphs)}};
}

}  // namespace

std::string variable_key(std::size_t index, const SavedVariable& variable) {
  return variable.paths.empty() ? fmt::format("variable.{}", index) : variable.paths.front();
}

// A path of a Variable has the name of an entry, which holds no '/', in front, so no path begins
// with a '/'.
std::string constant_key(std::size_t index) { return fmt::format("/constant/{}", index); }

std::string graph_key(const std::string& function, std::size_t graph) {
  return fmt::format("{}#{}", function, graph);
}

std::string manifest_text(const Content& content, const Manifest& manifest) {
  json variables = json::array(), objects = json::array(), functions = json::array(),
       assets = json::array(), constants = json::array();
  for (std::size_t i = 0; i < content.variables.size(); ++i) {
    json made = json_of(content.variables[i]);
    const bool has_value = content.variables[i].value.has_value();
    made["shard"] = has_value ? json(manifest.shard_of_variable[i]) : json(nullptr);
    variables.push_back(std::move(made));
  }
  for (const std::size_t shard : manifest.shard_of_constant) constants.push_back(shard);
  for (const SavedObject& object : content.objects) objects.push_back(json_of(object));
  for (const SavedFunction& each : content.functions) functions.push_back(json_of(each));
  for (std::size_t i = 0; i < content.assets.size(); ++i) {
    json made = json_of(manifest.assets[i]);
    made["name"] = content.assets[i].name;
    assets.push_back(std::move(made));
  }
  json body = {{"format", kFormat},
               {"graphs", json_of(manifest.graphs)},
               {"tensors", json_of(manifest.shards)},
               {"variables", std::move(variables)},
               {"constants", std::move(constants)},
               {"objects", std::move(objects)},
               {"functions", std::move(functions)},
               {"assets", std::move(assets)}};
  std::string text;
  try {
    text = etude::internal::JsonTree<json>(std::move(body)).root().dump();
  } catch (const json::exception&) {
    ETUDE_THROW(kInvalidArgument, "a name of a function, an argument or an object is not UTF-8");
  }
  return fmt::format("{{\"crc32c\":\"{:08x}\",\"saved\":{}}}\n", etude::internal::crc32c(0, text),
                     text);
}

}  // namespace etude::saved::internal
