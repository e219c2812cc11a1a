// SPDX-License-Identifier: Apache-2.0
// How graphs, values, attributes and types are spelled in texts, by print.cc, dump.cc and diff.cc;
// what parse.cc reads back. print.h says what the spellings mean.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "etude/graph/graph.h"

namespace etude::internal {

// A name as it stands in a text: bare if it has letters, digits, '_', '.', '/' and numbers in
// brackets only ("layers[0]/bias"), else quoted.
std::string spell_name(std::string_view name);
// The length of the bare name at the start of `text`; 0 if there is none.
std::size_t bare_name_length(std::string_view text);
// What texts call the role of an input.
struct RoleText {
  InputRole role;
  std::string_view sigil;  // in front of the name: "", "*", "&" or "^"
  std::string_view key;    // in JSON: "capture"
  std::string_view words;  // "a capture"
};
std::span<const RoleText> role_texts();  // in the order of inputs
const RoleText& role_text(InputRole role);

// Gives texts that were given before the suffix ~2, ~3, ...
class UniqueNames {
 public:
  std::string add(const std::string& name);

 private:
  std::map<std::string, int> counts_;
};

// The spelling of each value of a graph, by number: of inputs by name, of all others "%5".
std::vector<std::string> value_names(const Graph& graph);

// "float32[2,3]"; on another device than the host "float32[2,3]@cuda:0"; null is "none".
std::string type_text(const Type* type);

// A graph with all graphs that its nodes carry as attributes. Each is listed once, and before those
// that it refers to; two that are same() are one.
class GraphList {
 public:
  explicit GraphList(const Graph& main);

  const std::vector<const Graph*>& graphs() const { return graphs_; }
  // The spelling of the name of graphs()[i], which no other has.
  const std::string& name(std::size_t i) const { return names_[i]; }
  // The place of a graph in the list.
  std::size_t find(const Graph& graph) const;

 private:
  struct Visit;
  const Graph* listed(const Graph& graph);
  std::vector<const Graph*> children(const Graph& graph);

  std::unordered_multimap<uint64_t, const Graph*> known_;  // by hash
  std::unordered_map<const Graph*, const Graph*> listed_;  // those that are the same
  std::unordered_map<const Graph*, std::size_t> place_;
  std::vector<const Graph*> graphs_;
  std::vector<std::string> names_;
};

// The graphs that an attribute holds, one or a list; null for an object that is no graph.
std::vector<const Graph*> graphs_in(const AttrValue& value);

// One attribute: to_string() of it, but "@name" for a graph, "[@then, @else]" for a list of them,
// and "{...}" for a scalar program.
std::string attr_text(const AttrValue& value, const GraphList& graphs);
// Whether the value is what the record has for a default.
bool is_default(const AttrDef& def, const AttrValue& value);
// "axis=[0], graph=@body": the attributes that differ from the defaults.
std::vector<std::string> attr_texts(const Attrs& attrs, const GraphList& graphs);

// "nn.relu": how the registry finds it.
std::string op_text(const Op& op);
// "x", or "xs[2]" of a list.
std::string operand_label(const Op& op, std::size_t i);

}  // namespace etude::internal
