// SPDX-License-Identifier: Apache-2.0
// Functions that a file defines. A call runs the nodes of the function, with the attributes of the
// call in place of references to them.
#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "etude/onnx/import/importer.h"

namespace etude::onnx::importing {
namespace {

// Nodes with the attributes of a call.
class Substitution {
 public:
  Substitution(const FileNode& call, const FileFunction& function)
      : call_(call), function_(function) {}

  FileNode node(const FileNode& from) const {
    FileNode out = from;
    out.attributes.clear();
    for (const FileAttribute& attribute : from.attributes) {
      if (std::optional<FileAttribute> own = resolved(attribute)) {
        out.attributes.push_back(std::move(*own));
      }
    }
    return out;
  }

 private:
  // The attribute to which a reference refers; none if the call leaves it out.
  std::optional<FileAttribute> resolved(const FileAttribute& attribute) const {
    FileAttribute out = attribute;
    if (!attribute.reference.empty()) {
      const FileAttribute* found = find(call_.attributes, attribute.reference);
      if (found == nullptr) found = find(function_.defaults, attribute.reference);
      if (found == nullptr) return std::nullopt;
      out = *found;
      out.name = attribute.name;
    } else if (const auto* graph = std::get_if<std::shared_ptr<FileGraph>>(&attribute.value)) {
      auto inner = std::make_shared<FileGraph>(**graph);
      for (FileNode& each : inner->nodes) each = node(each);
      out.value = std::move(inner);
    }
    return out;
  }
  static const FileAttribute* find(const std::vector<FileAttribute>& list,
                                   const std::string& name) {
    const auto found = std::ranges::find(list, name, &FileAttribute::name);
    return found == list.end() ? nullptr : &*found;
  }

  const FileNode& call_;
  const FileFunction& function_;
};

// While alive, a function runs, with its version of the operators.
class Entered {
 public:
  Entered(std::vector<const FileFunction*>& running, int64_t& opset, const FileFunction& function)
      : running_(running), opset_(opset), before_(opset) {
    running_.push_back(&function);
    if (function.opset != 0) opset_ = function.opset;
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  ~Entered() {
    running_.pop_back();
    opset_ = before_;
  }

 private:
  std::vector<const FileFunction*>& running_;
  int64_t& opset_;
  const int64_t before_;
};

int64_t node_count(const std::vector<FileNode>& nodes) {
  auto out = static_cast<int64_t>(nodes.size());
  for (const FileNode& node : nodes) {
    for (const FileAttribute& attribute : node.attributes) {
      const auto* graph = std::get_if<std::shared_ptr<FileGraph>>(&attribute.value);
      if (graph != nullptr) out += node_count((*graph)->nodes);
    }
  }
  return out;
}

}  // namespace

void Importer::add_functions() {
  for (const FileFunction& function : model_.functions) {
    const auto key = std::tuple(std::string_view(function.domain), std::string_view(function.name),
                                std::string_view(function.overload));
    ETUDE_REQUIRE(by_name_.emplace(key, &function).second,
                  "{}: two functions are called '{:.100}.{:.100}'", file_, function.domain,
                  function.name);
  }
}

const FileFunction* Importer::function_of(const FileNode& node) const {
  const auto found = by_name_.find({node.domain, node.op, node.overload});
  return found == by_name_.end() ? nullptr : found->second;
}

std::vector<Value> Importer::run_function(const FileNode& node, const FileFunction& function,
                                          const Scope& scope) {
  const auto fail = [&](const std::string& text) {
    throw NodeError(ErrorCode::kInvalidArgument, fmt::format("{}: {}", title(node), text));
  };
  if (std::ranges::find(functions_, &function) != functions_.end()) {
    fail("the function calls itself, so it has no end");
  }
  if (node.inputs.size() > function.inputs.size() ||
      node.outputs.size() > function.outputs.size()) {
    fail(fmt::format("it has {} inputs and {} results, but the function has {} and {}",
                     node.inputs.size(), node.outputs.size(), function.inputs.size(),
                     function.outputs.size()));
  }
  std::unique_ptr<FileGraph>& body = bodies_[&node];
  if (body == nullptr) {
    need_steps(node, node_count(function.nodes));
    body = std::make_unique<FileGraph>();
    body->name = function.name;
    const Substitution substitution(node, function);
    for (const FileNode& each : function.nodes) body->nodes.push_back(substitution.node(each));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].empty()) body->outputs.push_back({.name = function.outputs[i]});
    }
  }
  Scope inner(nullptr);
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    const bool is_given = i < node.inputs.size() && !node.inputs[i].empty();
    const bool is_new =
        inner.add(function.inputs[i], is_given ? value_of(node, i, scope) : Value());
    if (!is_new) fail(fmt::format("the function has two inputs '{:.200}'", function.inputs[i]));
  }
  const Entered entered(functions_, opset_, function);
  std::vector<Value> results = run(*body, inner);
  std::vector<Value> out;
  std::size_t next = 0;
  for (const std::string& name : node.outputs) {
    out.push_back(name.empty() ? Value() : std::move(results[next++]));
  }
  return out;
}

}  // namespace etude::onnx::importing
