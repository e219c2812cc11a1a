// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/fit/graph_def.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/op/op.h"
#include "etude/core/print.h"
#include "etude/graph/layer_paths.h"
#include "etude/nn/fit/event_message.h"

namespace etude::nn::internal {
namespace {

// Numbers of tensorflow.DataType.
uint64_t type_number(DType dtype) {
  switch (dtype) {
    case kBool:
      return 10;
    case kInt8:
      return 6;
    case kInt16:
      return 5;
    case kInt32:
      return 3;
    case kInt64:
      return 9;
    case kUInt8:
      return 4;
    case kUInt16:
      return 17;
    case kUInt32:
      return 22;
    case kUInt64:
      return 23;
    case kFloat16:
      return 19;
    case kBFloat16:
      return 14;
    case kFloat32:
      return 1;
    case kFloat64:
      return 2;
    case kComplex64:
      return 8;
    case kComplex128:
      break;
  }
  return 18;
}

// tensorflow.NodeDef.
struct NodeDef {
  std::string name, op;
  std::vector<std::string> inputs = {};
  std::vector<const Type*> types = {};  // of the results
  std::vector<std::pair<std::string, std::string>> texts = {};

  std::string message() const {
    Message out = Message().bytes(1, name).bytes(2, op);
    for (const std::string& input : inputs) out.bytes(3, input);
    if (!types.empty()) {
      std::string shapes;
      for (const Type* type : types) {
        std::string dims;
        for (const int64_t size : type->shape()) {
          dims +=
              Message().bytes(2, Message().integer(1, static_cast<uint64_t>(size)).text()).text();
        }
        shapes += Message().bytes(7, dims).text();
      }
      attribute(out, "_output_shapes", Message().bytes(1, shapes).text());
      attribute(out, "dtype", Message().integer(6, type_number(types[0]->dtype())).text());
    }
    for (const auto& [key, text] : texts) {
      if (!text.empty()) attribute(out, key, Message().bytes(2, text).text());
    }
    return out.text();
  }

 private:
  static void attribute(Message& to, std::string_view key, std::string_view value) {
    to.bytes(5, Message().bytes(1, key).bytes(2, value).text());
  }
};

std::string line_of(CallSite where) {
  return where.known() ? fmt::format("{}:{}", where.file, where.line) : "";
}

// The characters that names of TensorFlow have.
std::string legal(std::string name) {
  for (char& c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' || c == '/';
    if (!is_plain) c = '_';
  }
  if (name.empty() || name[0] == '/' || name[0] == '-' || name[0] == '_') name.insert(0, ".");
  return name;
}

class GraphWriter {
 public:
  // Adds the nodes of a graph below a scope, "scan_body/" or "".
  void add(const Graph& graph, const GraphNames& names, const std::string& scope) {
    std::vector<std::string> made(graph.value_count());  // the node of each value
    std::vector<std::string> state;
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      const Graph::Input& input = graph.inputs()[i];
      const std::string name = names.inputs.empty() ? input.name : names.inputs[i];
      const bool is_state =
          names.is_state.empty() ? name.find('/') != std::string::npos : names.is_state[i];
      state.push_back(is_state ? name : "");
      made[i] = unique(scope + legal(name.empty() ? "input" : name));
      write({made[i], is_state ? "State" : kind_of(input.role), {}, {input.type}});
    }
    const std::vector<etude::internal::LayerPath> paths =
        etude::internal::layer_paths(graph, state);
    for (std::size_t i = 0; i < graph.size(); ++i) {
      add_node(graph, i, scope + prefix(paths[i]), made);
    }
    add_outputs(graph, names, scope, made);
  }

  std::string message() const {
    // Versions: producer. Readers need none.
    return nodes_.text() + Message().bytes(4, Message().integer(1, 1).text()).text();
  }

 private:
  static std::string prefix(const etude::internal::LayerPath& path) {
    return path.empty() ? "" : legal(fmt::format("{}/", fmt::join(path, "/")));
  }
  static std::string kind_of(InputRole role) {
    switch (role) {
      case InputRole::kArgument:
        return "Argument";
      case InputRole::kKey:
        return "Key";
      case InputRole::kVariable:
        return "State";
      case InputRole::kCapture:
        break;
    }
    return "Constant";
  }

  std::string unique(const std::string& base) {
    int& count = counts_[base];
    std::string name = count == 0 ? base : fmt::format("{}_{}", base, count);
    ++count;
    // A user may have called something "x_1".
    while (!taken_.insert(name).second) name = fmt::format("{}_{}", base, count++);
    return name;
  }
  void write(const NodeDef& node) { nodes_.bytes(1, node.message()); }

  // The input of a node for a value. A constant is a node in the scope of its first reader.
  std::string reference(const Graph& graph, GraphValue v, const std::string& scope,
                        std::vector<std::string>& made) {
    if (made[v].empty()) {
      const Tensor& x = graph.constants()[v - graph.first_constant()];
      made[v] = unique(scope + "constant");
      NodeDef node{made[v], "Constant", {}, {x.type()}};
      if (x.size() <= 1) node.texts.emplace_back("value", etude::internal::elements_text(x));
      write(node);
    }
    return made[v];
  }

  void add_node(const Graph& graph, std::size_t i, const std::string& scope,
                std::vector<std::string>& made) {
    const Graph::Node node = graph.node(i);
    NodeDef out{unique(scope + legal(std::string(node.op.name()))),
                std::string(node.op.full_name())};
    for (const GraphValue v : node.operands) {
      if (v != kNoValue) out.inputs.push_back(reference(graph, v, scope, made));
    }
    for (uint32_t r = 0; r < node.results; ++r) {
      const GraphValue v = node.first_result + r;
      out.types.push_back(graph.type(v));
      made[v] = r == 0 ? out.name : fmt::format("{}:{}", out.name, r);
    }
    out.texts = {{"attributes", node.attrs.to_string()}, {"line", line_of(node.where)}};
    write(out);
    for (const AttrDef& def : node.attrs.defs()) {
      if (!node.attrs.has(def.name)) continue;
      const auto enter = [&](const etude::AttrObject& object) {
        const auto& inner = static_cast<const Graph&>(object);
        if (!seen_.insert(&inner).second) return;
        add(inner, {}, unique(fmt::format("{}_{}", out.name, def.name)) + "/");
      };
      if (def.kind == AttrKind::kGraph) enter(node.attrs.object(def.name));
      if (def.kind == AttrKind::kGraphs) {
        for (const auto& object : node.attrs.objects(def.name)) enter(*object);
      }
    }
  }

  void add_outputs(const Graph& graph, const GraphNames& names, const std::string& scope,
                   std::vector<std::string>& made) {
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      const GraphValue v = graph.outputs()[i];
      if (v == kNoValue) continue;
      const bool is_named = i < names.outputs.size() && !names.outputs[i].empty();
      const std::string input = reference(graph, v, scope, made);
      write({unique(scope + (is_named ? legal(names.outputs[i]) : "output")),
             "Result",
             {input},
             {graph.type(v)}});
    }
  }

  Message nodes_;
  std::map<std::string, int> counts_;
  std::set<std::string> taken_;
  std::set<const Graph*> seen_;
};

}  // namespace

std::string graph_def(const Graph& graph, const GraphNames& names) {
  const auto require = [](std::string_view what, std::size_t given, std::size_t wanted) {
    ETUDE_REQUIRE(given == 0 || given == wanted,
                  "GraphNames::{} has {} entries, but the graph has {}", what, given, wanted);
  };
  require("inputs", names.inputs.size(), graph.inputs().size());
  require("is_state", names.is_state.size(), graph.inputs().size());
  require("outputs", names.outputs.size(), graph.outputs().size());
  GraphWriter writer;
  writer.add(graph, names, "");
  return writer.message();
}

}  // namespace etude::nn::internal
