// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <zlib.h>

#include "etude/base/check.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/op/op.h"
#include "etude/graph/binary.h"
#include "etude/graph/binary_bytes.h"
#include "etude/graph/binary_format.h"
#include "etude/graph/text/names.h"
#include "etude/graph/text/programs.h"

namespace etude {
namespace internal {

uint32_t binary_checksum(std::string_view bytes) {
  const auto* from = reinterpret_cast<const Bytef*>(bytes.data());
  return static_cast<uint32_t>(crc32_z(0, from + kChecked, bytes.size() - kChecked));
}

}  // namespace internal

namespace {

using internal::BinaryContent;
using internal::BinaryDefault;
using internal::ByteWriter;
using internal::GraphList;
using internal::is_default;

// One function of the container: a graph, or the graphs of a symbolic graph.
struct Function {
  std::string_view name;
  std::vector<const Graph*> graphs;
  std::span<const std::string> outputs = {};
};

// Items by their indices, in the order of their first use.
template <class T>
class Table {
 public:
  uint64_t place(const T& item) {
    const auto [at, is_new] = places_.emplace(item, order_.size());
    if (is_new) order_.push_back(&at->first);
    return at->second;
  }
  std::size_t size() const { return order_.size(); }
  const T& operator[](std::size_t i) const { return *order_[i]; }

 private:
  std::unordered_map<T, uint64_t> places_;
  std::vector<const T*> order_;
};

// `value` is at home.
std::string_view bytes_of(const Tensor& value) {
  return {static_cast<const char*>(internal::host_elements(value)),
          static_cast<std::size_t>(value.type()->bytes())};
}

// Constants with equal types and bits are stored once.
class Constants {
 public:
  uint64_t place(const Tensor& given) {
    Tensor value = internal::at_home(given);
    const std::size_t hash = std::hash<std::string_view>()(bytes_of(value));
    const auto [first, last] = by_hash_.equal_range(hash);
    for (auto known = first; known != last; ++known) {
      const Tensor& other = order_[known->second];
      if (other.type() == value.type() && bytes_of(other) == bytes_of(value)) return known->second;
    }
    by_hash_.emplace(hash, order_.size());
    order_.push_back(std::move(value));
    return order_.size() - 1;
  }
  const std::vector<Tensor>& all() const { return order_; }

 private:
  std::unordered_multimap<std::size_t, std::size_t> by_hash_;
  std::vector<Tensor> order_;
};

std::vector<const Graph*> mains_of(std::span<const Function> functions) {
  std::vector<const Graph*> out;
  for (const Function& each : functions)
    out.insert(out.end(), each.graphs.begin(), each.graphs.end());
  return out;
}

class Writer {
 public:
  explicit Writer(std::span<const Function> functions)
      : functions_(functions), graphs_(mains_of(functions)) {}

  std::string write() {
    const auto& list = graphs_.graphs();
    to_ = &body_;
    body_.number(list.size());
    for (std::size_t i = list.size(); i-- > 0;) graph(*list[i]);
    body_.number(functions_.size());
    for (const Function& each : functions_) function(each);
    // Tables refer to texts as well, so the texts are complete only after them.
    ByteWriter tables;
    to_ = &tables;
    ops();
    tables.number(constants_.all().size());
    for (const Tensor& value : constants_.all()) type(value.type());
    ByteWriter programs;
    to_ = &programs;
    this->programs();
    ByteWriter texts;
    list_texts(texts, texts_);
    list_texts(texts, types_);
    return file(texts.all() + programs.all() + tables.all() + body_.all());
  }

 private:
  static void list_texts(ByteWriter& to, const Table<std::string>& table) {
    to.number(table.size());
    for (std::size_t i = 0; i < table.size(); ++i) to.text(table[i]);
  }

  BinaryContent content() const {
    if (functions_.size() > 1) return BinaryContent::kFunctions;
    return functions_[0].graphs.size() > 1 ? BinaryContent::kSymbolic : BinaryContent::kGraph;
  }

  std::string file(const std::string& lists) const {
    std::string out(sizeof(internal::BinaryHeader), '\0');
    out += lists;
    out.resize(internal::binary_aligned(out.size()));
    internal::BinaryHeader header{{}, internal::kBinaryVersion, 0, 0, out.size(), content(), 0};
    std::ranges::copy(internal::kBinaryMagic, header.magic);
    for (const Tensor& value : constants_.all()) {
      out.resize(internal::binary_aligned(out.size()));
      out.append(bytes_of(value));
    }
    header.bytes = out.size();
    std::memcpy(out.data(), &header, sizeof header);
    header.checksum = internal::binary_checksum(out);
    std::memcpy(out.data(), &header, sizeof header);
    return out;
  }

  void name(std::string_view text) { to_->number(texts_.place(std::string(text))); }
  void type(const Type* type) { to_->number(types_.place(type->to_string())); }
  void line(CallSite where) {
    if (!where.known()) return to_->number(0);
    to_->number(texts_.place(where.file) + 1);
    to_->number(static_cast<uint64_t>(where.line));
  }
  void values(std::span<const GraphValue> list) {
    to_->number(list.size());
    for (const GraphValue v : list) to_->number(v == kNoValue ? 0 : uint64_t{v} + 1);
  }
  void frame(uint32_t at) { to_->number(at == Graph::kNoFrame ? 0 : uint64_t{at} + 1); }

  // ---- graphs

  void graph(const Graph& graph) {
    name(graph.name());
    to_->number(graph.inputs().size());
    for (const Graph::Input& input : graph.inputs()) {
      name(input.name);
      type(input.type);
      to_->byte(static_cast<uint8_t>(input.role));
    }
    to_->number(graph.constants().size());
    for (const Tensor& value : graph.constants()) to_->number(constants_.place(value));
    to_->number(graph.frames().size());
    for (const Graph::Frame& each : graph.frames()) {
      name(each.function);
      line(each.where);
      frame(each.outer);
    }
    to_->number(graph.size());
    for (std::size_t i = 0; i < graph.size(); ++i) node(graph.node(i));
    values(graph.outputs());
  }

  void node(const Graph::Node& node) {
    to_->number(ops_.place(&node.op));
    line(node.where);
    frame(node.frame);
    values(node.operands);
    to_->number(node.results);
    const auto& defs = node.attrs.defs();
    std::vector<std::size_t> given;
    for (std::size_t i = 0; i < defs.size(); ++i) {
      if (!is_default(defs[i], node.attrs.values()[i])) given.push_back(i);
    }
    to_->number(given.size());
    if (const HostObject* host = node.attrs.find_host()) refuse_host(node, *host);
    for (const std::size_t i : given) {
      to_->number(i);
      value(node.attrs.values()[i]);
    }
  }

  [[noreturn]] static void refuse_host(const Graph::Node& node, const HostObject& host) {
    Error error(ErrorCode::kUnimplemented,
                fmt::format("{} exists only in this process, so a graph that calls it can "
                            "neither be written to a file nor compiled ahead of time. Leave the "
                            "call out of the graph",
                            host.to_string()));
    error.name_op("to_binary");
    error.locate(node.where);
    throw error;
  }

  void function(const Function& function) {
    name(function.name);
    to_->number(function.graphs.size());
    for (const Graph* graph : function.graphs) to_->number(place_of(graphs_.find_main(*graph)));
    to_->number(function.outputs.size());
    for (const std::string& path : function.outputs) name(path);
  }

  // The list of graphs is written from its end.
  uint64_t place_of(std::size_t listed) const { return graphs_.graphs().size() - 1 - listed; }

  // ---- tables

  void ops() {
    to_->number(ops_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const Op& op = *ops_[i];
      name(internal::op_text(op));
      to_->number(static_cast<uint64_t>(op.def().version));
      to_->number(op.def().attrs.size());
      for (const AttrDef& def : op.def().attrs) attr_def(def);
    }
  }

  void attr_def(const AttrDef& def) {
    name(def.name);
    to_->byte(static_cast<uint8_t>(def.kind));
    if (def.required) return to_->byte(static_cast<uint8_t>(BinaryDefault::kRequired));
    const bool is_absent = def.default_value.index() == 0;
    to_->byte(static_cast<uint8_t>(is_absent ? BinaryDefault::kAbsent : BinaryDefault::kValue));
    if (!is_absent) value(def.default_value);
  }

  void programs() {
    to_->number(programs_.size());
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      const scalar::Program* program = programs_[i] == nullptr ? nullptr : programs_[i]->program;
      name(program == nullptr ? "" : scalar::to_string(*program));
      const internal::ProgramPlace at = internal::place_of_program(programs_[i]);
      if (at.op == nullptr) {
        to_->number(0);
        continue;
      }
      to_->number(texts_.place(internal::op_text(*at.op)) + 1);
      to_->number(at.place);
    }
  }

  // ---- attributes

  void value(const AttrValue& value) {
    ETUDE_CHECK(value.index() != 0, "an absent attribute is a default");
    std::visit([&](const auto& v) { attr(v); }, value);
  }
  void attr(std::monostate) {}
  void attr(bool value) { to_->byte(value ? 1 : 0); }
  void attr(int64_t value) { to_->integer(value); }
  void attr(double value) { to_->real(value); }
  void attr(DType value) { name(etude::name(value)); }
  void attr(const std::string& value) { name(value); }
  template <class T>
  void attr(const std::vector<T>& list) {
    to_->number(list.size());
    for (const T& value : list) attr(value);
  }
  void attr(const ScalarDef* program) { to_->number(programs_.place(program)); }
  void attr(const internal::RefPtr<const AttrObject>& object) {
    const auto* graph = dynamic_cast<const Graph*>(object.get());
    ETUDE_CHECK(graph != nullptr, "an attribute of a graph is an object of another kind");
    to_->number(place_of(graphs_.find(*graph)));
  }
  void attr(const internal::RefPtr<const HostObject>&) {}  // refused before

  const std::span<const Function> functions_;
  const GraphList graphs_;
  Table<std::string> texts_, types_;
  Table<const Op*> ops_;
  Table<const ScalarDef*> programs_;
  Constants constants_;
  ByteWriter body_;
  ByteWriter* to_ = nullptr;  // the part that is written
};

std::string write(const Function& function) { return Writer({&function, 1}).write(); }
std::string_view name_of(const Graph& graph) {
  return graph.name().empty() ? std::string_view("graph") : std::string_view(graph.name());
}

std::vector<const Graph*> pointers(std::span<const GraphRef> graphs) {
  std::vector<const Graph*> out;
  for (const GraphRef& graph : graphs) out.push_back(graph.get());
  return out;
}

void require_paths(const NamedGraph& named, const Graph& graph) {
  if (named.outputs.empty()) return;
  ETUDE_REQUIRE(named.outputs.size() == graph.outputs().size(),
                "graph '{}' has {} outputs, but {} paths are given", named.name,
                graph.outputs().size(), named.outputs.size());
  std::set<std::string_view> known;
  for (const std::string& path : named.outputs) {
    ETUDE_REQUIRE(!path.empty(), "an output of graph '{}' has an empty path", named.name);
    ETUDE_REQUIRE(known.insert(path).second, "two outputs of graph '{}' have the path '{}'",
                  named.name, path);
  }
}

}  // namespace

std::string to_binary(const Graph& graph) { return write({name_of(graph), {&graph}, {}}); }

std::string to_binary(const SymbolicGraph& symbolic) {
  const auto graphs = symbolic.graphs();
  return write({name_of(*graphs[0]), pointers(graphs), {}});
}

std::string to_binary(std::span<const NamedGraph> graphs) {
  ETUDE_REQUIRE(!graphs.empty(), "a container needs at least one graph, but the list is empty");
  std::set<std::string_view> names;
  std::vector<Function> functions;
  for (const NamedGraph& each : graphs) {
    ETUDE_REQUIRE(!each.name.empty(), "graph {} of a container has no name", functions.size());
    ETUDE_REQUIRE(names.insert(each.name).second,
                  "two graphs of a container have the name '{}'. Rename one of them", each.name);
    const bool has_graph = each.graph.get() != nullptr;
    ETUDE_REQUIRE(has_graph != (each.symbolic.get() != nullptr),
                  "'{}' needs a graph or a symbolic graph, but {} given", each.name,
                  has_graph ? "both are" : "neither is");
    functions.push_back({each.name,
                         has_graph ? std::vector<const Graph*>{each.graph.get()}
                                   : pointers(each.symbolic->graphs()),
                         each.outputs});
    require_paths(each, *functions.back().graphs[0]);
  }
  return Writer(functions).write();
}

}  // namespace etude
