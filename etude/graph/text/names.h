// SPDX-License-Identifier: Apache-2.0
// The spelling of graphs, values, attributes and types in texts, for print.cc, dump.cc and diff.cc;
// parse.cc reads it back. print.h describes it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "etude/graph/graph.h"

namespace etude::internal {

// A name in a text: bare if it consists of letters, digits, '_', '.', '/' and numbers in brackets
// ("layers[0]/bias"), else quoted.
std::string spell_name(std::string_view name);
// The length of the bare name at the start of `text`; 0 if there is none.
std::size_t bare_name_length(std::string_view text);
// The spelling of the role of an input.
struct RoleText {
  InputRole role;
  std::string_view sigil;  // prefix of the name: "", "*", "&" or "^"
  std::string_view key;    // in JSON: "capture"
  std::string_view words;  // "a capture"
};
std::span<const RoleText> role_texts();  // in the order of inputs
const RoleText& role_text(InputRole role);

// Appends ~2, ~3, ... to repeated texts.
class UniqueNames {
 public:
  std::string add(const std::string& name);

 private:
  std::map<std::string, int> counts_;
};

// The spelling of each value of a graph, by number: names for inputs, "%5" for all other values.
std::vector<std::string> value_names(const Graph& graph);

// "float32[2,3]"; on another device than the host "float32[2,3]@gpu:0"; null is "none".
std::string type_text(const Type* type);

// A graph and all graphs in its nodes' attributes. Each graph is listed once, before the graphs
// that it refers to. Graphs that are same() are listed once.
class GraphList {
 public:
  explicit GraphList(const Graph& main);
  // Lists several main graphs. Main graphs are not merged with graphs that are same(), since names
  // and lines may differ.
  explicit GraphList(std::span<const Graph* const> mains);

  const std::vector<const Graph*>& graphs() const { return graphs_; }
  // The unique spelling of the name of graphs()[i].
  const std::string& name(std::size_t i) const { return names_[i]; }
  // The index of a graph in an attribute.
  std::size_t find(const Graph& graph) const;
  // The index of a main graph.
  std::size_t find_main(const Graph& graph) const;

 private:
  struct Visit;
  const Graph* listed(const Graph& graph);
  std::vector<const Graph*> children(const Graph& graph);

  std::unordered_multimap<uint64_t, const Graph*> known_;  // by hash
  std::unordered_map<const Graph*, const Graph*> listed_;  // by equality
  std::unordered_map<const Graph*, std::size_t> place_;
  std::vector<const Graph*> graphs_;
  std::vector<std::string> names_;
};

// The graphs in an attribute, a single graph or a list; null for an object that is not a graph.
std::vector<const Graph*> graphs_in(const AttrValue& value);

// The text of an attribute: to_string(), but "@name" for a graph, "[@then, @else]" for a list of
// graphs, and "{...}" for a scalar program.
std::string attr_text(const AttrValue& value, const GraphList& graphs);
// Whether the value equals the default in the record.
bool is_default(const AttrDef& def, const AttrValue& value);
// "axis=[0], graph=@body": the attributes that differ from the defaults.
std::vector<std::string> attr_texts(const Attrs& attrs, const GraphList& graphs);

// "nn.relu": the name for lookups in the registry.
std::string op_text(const Op& op);
// "x", or "xs[2]" of a list.
std::string operand_label(const Op& op, std::size_t i);

}  // namespace etude::internal
