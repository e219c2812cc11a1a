// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/text/names.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/located.h"
#include "etude/core/op/exact_text.h"
#include "etude/core/op/registry.h"
#include "etude/graph/text/programs.h"

namespace etude::internal {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// The length of "[12]" at the start of `text`, or 0.
std::size_t index_length(std::string_view text) {
  std::size_t i = 1;
  while (i < text.size() && is_digit(text[i])) ++i;
  return text[0] == '[' && i > 1 && i < text.size() && text[i] == ']' ? i + 1 : 0;
}

}  // namespace

std::size_t bare_name_length(std::string_view text) {
  if (text.empty() || !is_letter(text[0])) return 0;
  std::size_t i = 1;
  while (i < text.size()) {
    const bool is_part =
        is_letter(text[i]) || is_digit(text[i]) || text[i] == '.' || text[i] == '/';
    const std::size_t step = is_part ? 1 : index_length(text.substr(i));
    if (step == 0) break;
    i += step;
  }
  return i;
}

std::string spell_name(std::string_view name) {
  const bool is_bare = !name.empty() && bare_name_length(name) == name.size() && name != "none";
  return is_bare ? std::string(name) : quoted_text(name);
}

std::span<const RoleText> role_texts() {
  static constexpr RoleText kTexts[] = {{InputRole::kArgument, "", "argument", "an argument"},
                                        {InputRole::kKey, "*", "key", "a key"},
                                        {InputRole::kVariable, "&", "variable", "a Variable"},
                                        {InputRole::kCapture, "^", "capture", "a capture"}};
  return kTexts;
}

const RoleText& role_text(InputRole role) { return role_texts()[static_cast<std::size_t>(role)]; }

std::string UniqueNames::add(const std::string& name) {
  const int count = ++counts_[name];
  return count == 1 ? name : fmt::format("{}~{}", name, count);
}

std::vector<std::string> value_names(const Graph& graph) {
  std::vector<std::string> out;
  out.reserve(graph.value_count());
  UniqueNames unique;
  for (const Graph::Input& input : graph.inputs()) {
    out.push_back(unique.add(std::string(role_text(input.role).sigil) + spell_name(input.name)));
  }
  while (out.size() < graph.value_count()) out.push_back(fmt::format("%{}", out.size()));
  return out;
}

std::string type_text(const Type* type) {
  if (type == nullptr) return "none";
  if (type->device() == Device{}) return type->to_string();
  return type->to_string() + "@" + type->device().to_string();
}

std::vector<const Graph*> graphs_in(const AttrValue& value) {
  using Object = RefPtr<const AttrObject>;
  std::vector<const Graph*> out;
  if (const auto* object = std::get_if<Object>(&value)) {
    out.push_back(dynamic_cast<const Graph*>(object->get()));
  } else if (const auto* list = std::get_if<std::vector<Object>>(&value)) {
    for (const Object& each : *list) out.push_back(dynamic_cast<const Graph*>(each.get()));
  }
  return out;
}

// One graph whose children are being listed.
struct GraphList::Visit {
  const Graph* graph;
  std::vector<const Graph*> children;
};

GraphList::GraphList(const Graph& main) : GraphList(std::array{&main}) {}

GraphList::GraphList(std::span<const Graph* const> mains) {
  // Depth first without recursion, last children first. The reverse of the order in which graphs
  // are left has each graph before its children, and the children in the order of use.
  std::unordered_map<const Graph*, bool> is_seen;
  std::vector<Visit> stack;
  const auto enter = [&](const Graph* graph) {
    is_seen[graph] = true;
    stack.push_back({graph, children(*graph)});
  };
  for (const Graph* main : mains) {
    if (!is_seen[main]) enter(main);
    while (!stack.empty()) {
      Visit& visit = stack.back();
      if (visit.children.empty()) {
        graphs_.push_back(visit.graph);
        stack.pop_back();
        continue;
      }
      const Graph* child = visit.children.back();
      visit.children.pop_back();
      if (!is_seen[child]) enter(child);
    }
  }
  std::ranges::reverse(graphs_);
  UniqueNames unique;
  for (const Graph* graph : graphs_) {
    place_.emplace(graph, names_.size());
    names_.push_back(unique.add(spell_name(graph->name())));
  }
}

const Graph* GraphList::listed(const Graph& graph) {
  const auto [at, is_new] = listed_.emplace(&graph, &graph);
  if (!is_new) return at->second;
  const auto [begin, end] = known_.equal_range(graph.hash());
  for (auto known = begin; known != end; ++known) {
    if (known->second->same(graph)) return at->second = known->second;
  }
  known_.emplace(graph.hash(), &graph);
  return &graph;
}

std::vector<const Graph*> GraphList::children(const Graph& graph) {
  std::vector<const Graph*> out;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    for (const AttrValue& value : graph.node(i).attrs.values()) {
      for (const Graph* child : graphs_in(value)) {
        if (child != nullptr) out.push_back(listed(*child));
      }
    }
  }
  return out;
}

std::size_t GraphList::find(const Graph& graph) const {
  const auto at = listed_.find(&graph);
  return at == listed_.end() ? find_main(graph) : place_.at(at->second);
}

std::size_t GraphList::find_main(const Graph& graph) const {
  const auto at = place_.find(&graph);
  ETUDE_CHECK(at != place_.end(), "graph '{}' is not in the list", graph.name());
  return at->second;
}

std::string attr_text(const AttrValue& value, const GraphList& graphs) {
  std::vector<std::string> names;
  for (const Graph* graph : graphs_in(value)) {
    names.push_back(graph == nullptr ? "<no graph>" : "@" + graphs.name(graphs.find(*graph)));
  }
  if (value.index() == static_cast<std::size_t>(AttrKind::kGraphs)) {
    return fmt::format("[{}]", fmt::join(names, ", "));
  }
  if (!names.empty()) return names[0];
  if (const auto* program = std::get_if<const ScalarDef*>(&value)) return program_text(*program);
  return to_string(value);
}

bool is_default(const AttrDef& def, const AttrValue& value) {
  return !def.required && AttrView(value).is(def.default_value);
}

std::vector<std::string> attr_texts(const Attrs& attrs, const GraphList& graphs) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < attrs.defs().size(); ++i) {
    const AttrDef& def = attrs.defs()[i];
    const AttrValue& value = attrs.values()[i];
    if (is_default(def, value)) continue;
    out.push_back(fmt::format("{}={}", spell_name(def.name), attr_text(value, graphs)));
  }
  return out;
}

std::string op_text(const Op& op) {
  if (op.def().space.empty()) return spell_name(op.name());
  const std::string full = op.full_name();
  const bool is_found = Registry::global().find(full) == &op;  // no other op has that for a name
  return spell_name(is_found ? full : std::string(op.name()));
}

std::string operand_label(const Op& op, std::size_t i) {
  if (op.arity() == 0) return fmt::format("#{}", i);
  return operand_expression(op, i);
}

}  // namespace etude::internal
