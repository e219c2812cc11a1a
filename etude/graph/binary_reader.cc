// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/graph/binary.h"
#include "etude/graph/binary_bytes.h"
#include "etude/graph/binary_format.h"
#include "etude/graph/binary_lists.h"
#include "etude/graph/builder.h"
#include "etude/graph/check_call.h"

namespace etude {
namespace {

using internal::BinaryContent;
using internal::BinaryHeader;
using internal::BinaryLists;
using internal::ByteReader;
using internal::StoredAttr;
using internal::StoredOp;
using Draft = GraphBuilder::Draft;

class GraphReader {
 public:
  GraphReader(ByteReader& in, BinaryLists& lists)
      : in_(in), lists_(lists), begin_(in.at()), build_(lists.copied_text()) {}

  BinaryLists::Read read() {
    read_inputs();
    read_constants();
    read_frames();
    const std::size_t nodes = in_.count("nodes");
    for (std::size_t i = 0; i < nodes; ++i) read_node();
    const std::vector<Draft> outputs = values("outputs");
    GraphRef graph = build_.finish(outputs, true);
    return {std::move(graph), depth_, in_.at() - begin_};
  }

 private:
  void read_inputs() {
    const std::size_t inputs = in_.count("inputs");
    uint8_t last = 0;
    for (std::size_t i = 0; i < inputs; ++i) {
      const std::size_t at = in_.at();
      std::string name = lists_.copied_text();
      if (name.empty()) in_.fail(at, fmt::format("input {} has no name", i));
      const Type* const of = lists_.type();
      const uint8_t role = in_.byte();
      if (role > static_cast<uint8_t>(InputRole::kCapture) || role < last) {
        in_.fail(at, fmt::format("input {} has role {}: roles are 0 to 3, in this order", i, role));
      }
      last = role;
      values_.push_back(build_.add_input(std::move(name), of, static_cast<InputRole>(role)));
    }
  }

  void read_constants() {
    const std::size_t constants = in_.count("constants");
    for (std::size_t i = 0; i < constants; ++i) {
      values_.push_back(build_.add_constant(lists_.constant()));
    }
  }

  void read_frames() {
    const std::size_t frames = in_.count("frames");
    for (std::size_t i = 0; i < frames; ++i) {
      std::string function = lists_.copied_text();
      const CallSite where = line();
      build_.add_frame({std::move(function), where, frame()});
      ++frames_;
    }
  }

  // The index of an earlier frame.
  uint32_t frame() {
    const uint64_t of = in_.number(frames_, "the number of a frame");
    return of == 0 ? Graph::kNoFrame : static_cast<uint32_t>(of - 1);
  }

  CallSite line() {
    const std::size_t at = in_.at();
    const uint64_t file = in_.number(lists_.text_count(), "the number of a file");
    if (file == 0) return {};
    const auto number = in_.number(std::numeric_limits<int>::max(), "a line");
    const std::string_view name = lists_.text_at(static_cast<std::size_t>(file - 1));
    if (number == 0 || name.find('\0') != std::string_view::npos) {
      in_.fail(at, "a line is 0, or the name of its file holds a zero byte");
    }
    const char*& kept = files_[file];
    if (kept == nullptr) kept = build_.keep_text(name);
    return {kept, static_cast<int>(number)};
  }

  std::vector<Draft> values(std::string_view what) {
    std::vector<Draft> out(in_.count(what));
    for (Draft& v : out) {
      const uint64_t number = in_.number(values_.size(), "the number of a value");
      v = number == 0 ? GraphBuilder::kNoDraft : values_[static_cast<std::size_t>(number - 1)];
    }
    return out;
  }

  // ---- nodes

  void read_node() {
    const std::size_t at = in_.at();
    lists_.charge_node(at);
    const StoredOp& stored = lists_.op();
    const CallSite where = line();
    build_.set_frame(frame());
    const std::vector<Draft> operands = values("operands");
    internal::ReadCall call;
    if (lists_.is_first_version()) {
      call = upgraded(at, stored, operands, first_version_attrs(stored));
      return add(stored, std::move(call), where);
    }
    const uint64_t results = in_.number();
    call = stored.is_present() ? present_call(at, stored, operands)
                               : upgraded(at, stored, operands, stored_attrs(at, stored));
    const std::size_t has = call.places.empty() ? call.results.size() : call.places.size();
    if (results != has) {
      in_.fail(at, fmt::format("{} has {} results, but {} here", stored.op->name(), has, results));
    }
    add(stored, std::move(call), where);
  }

  void add(const StoredOp& stored, internal::ReadCall call, CallSite where) {
    const Draft first = build_.add_node(*stored.op, call.attrs, call.operands, call.results, where);
    if (!call.places.empty()) {
      for (const uint32_t place : call.places) values_.push_back(first + place);
      return;
    }
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      values_.push_back(first + static_cast<Draft>(i));
    }
  }

  internal::ReadCall upgraded(std::size_t at, const StoredOp& stored,
                              const std::vector<Draft>& operands,
                              const internal::NamedAttrs& attrs) {
    return in_.shown_at(at, [&] {
      return internal::upgrade_read_call(*stored.op, stored.version, build_, operands, attrs);
    });
  }

  // A call of the present version: its attributes have places in the record.
  internal::ReadCall present_call(std::size_t at, const StoredOp& stored,
                                  const std::vector<Draft>& operands) {
    std::vector<AttrValue> values(stored.op->def().attrs.size());
    const std::vector<bool> given = read_attrs(
        stored,
        [&](const StoredAttr& attr, AttrValue value) { values[attr.place] = std::move(value); });
    for (std::size_t i = 0; i < given.size(); ++i) {
      const StoredAttr& attr = stored.attrs[i];
      if (!given[i]) values[attr.place] = default_of(at, stored, attr);
    }
    internal::ReadCall call = in_.shown_at(at, [&] {
      return internal::check_read_call(*stored.op, build_, operands,
                                       std::span<const AttrValue>(values));
    });
    call.operands = operands;
    return call;
  }

  // All attributes of a call of an older version.
  internal::NamedAttrs stored_attrs(std::size_t at, const StoredOp& stored) {
    internal::NamedAttrs out;
    const std::vector<bool> given =
        read_attrs(stored, [&](const StoredAttr& attr, AttrValue value) {
          out.emplace_back(attr.name, std::move(value));
        });
    for (std::size_t i = 0; i < given.size(); ++i) {
      const StoredAttr& attr = stored.attrs[i];
      if (!given[i]) out.emplace_back(attr.name, default_of(at, stored, attr));
    }
    return out;
  }

  // Calls take(attribute, value) for each attribute of a node; returns a flag for each attribute.
  template <class F>
  std::vector<bool> read_attrs(const StoredOp& stored, const F& take) {
    std::vector<bool> is_given(stored.attrs.size());
    const std::size_t given = in_.count("attributes");
    for (std::size_t i = 0; i < given; ++i) {
      const std::size_t at = in_.at();
      const std::size_t place = in_.place(stored.attrs.size(), "attribute");
      const StoredAttr& attr = stored.attrs[place];
      if (is_given[place]) in_.fail(at, fmt::format("attribute '{}' is given twice", attr.name));
      is_given[place] = true;
      take(attr, lists_.value(at, attr.name, attr.kind, depth_));
    }
    return is_given;
  }

  AttrValue default_of(std::size_t at, const StoredOp& stored, const StoredAttr& attr) {
    if (attr.is_required) {
      in_.fail(at, fmt::format("{}: attribute '{}' is missing", stored.op->name(), attr.name),
               ErrorCode::kInvalidArgument);
    }
    lists_.charge(at, attr.size);
    return attr.value;
  }

  // By name, without the attributes that had their defaults.
  internal::NamedAttrs first_version_attrs(const StoredOp& stored) {
    internal::NamedAttrs out;
    const std::size_t given = in_.count("attributes");
    for (std::size_t i = 0; i < given; ++i) {
      const std::size_t at = in_.at();
      const std::string_view name = lists_.text();
      const AttrDef& def = in_.shown_at(at, [&]() -> const AttrDef& {
        return internal::find_read_attr(*stored.op, stored.version, name);
      });
      const auto is_same = [&](const auto& other) { return other.first == def.name; };
      if (std::ranges::any_of(out, is_same)) {
        in_.fail(at, fmt::format("attribute '{}' is given twice", def.name));
      }
      const uint8_t is_given = in_.byte();
      if (is_given > 1 || (is_given == 0 && def.required)) {
        in_.fail(at, fmt::format("attribute '{}' has no value", def.name));
      }
      AttrValue value;
      if (is_given == 1) value = lists_.value(at, def.name, def.kind, depth_);
      out.emplace_back(def.name, std::move(value));
    }
    return out;
  }

  ByteReader& in_;
  BinaryLists& lists_;
  const std::size_t begin_;
  GraphBuilder build_;
  std::unordered_map<uint64_t, const char*> files_;  // by place of the text
  std::vector<Draft> values_;                        // by number in the file
  std::size_t frames_ = 0;
  int depth_ = 0;
};

// throws unless all bytes are present and unchanged.
BinaryHeader read_header(std::string_view bytes) {
  BinaryHeader header{};
  ETUDE_REQUIRE_CODE(kDataLoss, bytes.starts_with(internal::kBinaryMagic),
                     "these {} bytes are no graph in binary form, which begins with \\x89ETG",
                     bytes.size());
  const auto require_size = [&](std::size_t size) {
    ETUDE_REQUIRE_CODE(kDataLoss, bytes.size() >= size,
                       "a graph in binary form is torn: it has {} bytes, and its header {}",
                       bytes.size(), size);
    std::memcpy(&header, bytes.data(), size);
  };
  require_size(internal::kFirstHeader);
  ETUDE_REQUIRE_CODE(
      kUnimplemented, header.version >= 1 && header.version <= internal::kBinaryVersion,
      "a graph in binary form of version {}, and this library reads versions 1 to {}. Read "
      "it with the release that wrote it, and write it as text there",
      header.version, internal::kBinaryVersion);
  if (header.version > 1) require_size(sizeof header);
  ETUDE_REQUIRE_CODE(kDataLoss, header.bytes == bytes.size(),
                     "a graph in binary form is torn: it has {} bytes, but {} were written",
                     bytes.size(), header.bytes);
  ETUDE_REQUIRE_CODE(kDataLoss, header.checksum == internal::binary_checksum(bytes),
                     "a graph in binary form was damaged: its checksum is {:08x}, but {:08x} was "
                     "written",
                     internal::binary_checksum(bytes), header.checksum);
  const std::size_t size = header.version > 1 ? sizeof header : internal::kFirstHeader;
  ETUDE_REQUIRE_CODE(
      kDataLoss,
      header.elements >= size && header.elements <= bytes.size() &&
          header.elements % internal::kBinaryAlignment == 0,
      "a graph in binary form has {} bytes, and the elements of its constants begin at {}",
      bytes.size(), header.elements);
  ETUDE_REQUIRE_CODE(kDataLoss, header.content <= BinaryContent::kFunctions && header.reserved == 0,
                     "the header of a graph in binary form has content {} and {} after it: the "
                     "content is 0 to 2, followed by 0",
                     static_cast<uint32_t>(header.content), header.reserved);
  return header;
}

SymbolicGraphRef symbolic_of(std::span<const GraphRef> graphs) {
  SymbolicFound found = SymbolicGraph::of(graphs);
  ETUDE_REQUIRE_CODE(kDataLoss, found.symbolic,
                     "the graphs of a binary symbolic graph do not form one: {}", found.difference);
  return std::move(found.symbolic);
}

class ContainerReader {
 public:
  explicit ContainerReader(std::string_view bytes)
      : header_(read_header(bytes)),
        bytes_(bytes),
        in_(bytes, header_.version > 1 ? sizeof header_ : internal::kFirstHeader,
            static_cast<std::size_t>(header_.elements)),
        lists_(bytes, header_.version, in_, static_cast<std::size_t>(header_.elements)) {}

  std::vector<NamedGraph> read() {
    read_graphs();
    std::vector<NamedGraph> out;
    if (header_.version == 1) {
      const GraphRef& graph = lists_.graphs().back().graph;
      out.push_back({graph->name().empty() ? "graph" : graph->name(), graph});
    } else {
      out = functions();
    }
    if (in_.left() >= internal::kBinaryAlignment || lists_.elements() < bytes_.size()) {
      in_.fail("there are bytes after the last graph or the last constant");
    }
    return out;
  }

 private:
  void read_graphs() {
    const std::size_t graphs = in_.count("graphs");
    if (graphs == 0) in_.fail("there is no graph");
    for (std::size_t i = 0; i < graphs; ++i) {
      lists_.graphs().push_back(GraphReader(in_, lists_).read());
    }
  }

  std::vector<NamedGraph> functions() {
    const std::size_t begin = in_.at();
    const std::size_t count = in_.count("functions");
    if (count == 0) in_.fail(begin, "there is no function");
    std::vector<NamedGraph> out;
    std::set<std::string> names;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = in_.at();
      out.push_back(function());
      if (!names.insert(out.back().name).second) {
        in_.fail(at, fmt::format("two graphs have the name '{}'", out.back().name.substr(0, 100)));
      }
    }
    const BinaryContent content = count > 1       ? BinaryContent::kFunctions
                                  : !out[0].graph ? BinaryContent::kSymbolic
                                                  : BinaryContent::kGraph;
    if (content != header_.content) {
      in_.fail(begin,
               fmt::format("the header has content {}, but the functions are content {}",
                           static_cast<uint32_t>(header_.content), static_cast<uint32_t>(content)));
    }
    return out;
  }

  NamedGraph function() {
    const std::size_t at = in_.at();
    NamedGraph out;
    out.name = lists_.copied_text();
    if (out.name.empty()) in_.fail(at, "a function has no name");
    std::vector<GraphRef> graphs;
    const std::size_t count = in_.count("graphs of a function");
    if (count == 0) in_.fail(at, fmt::format("function '{}' has no graph", out.name));
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t graph_at = in_.at();
      const BinaryLists::Read& read = lists_.graphs()[in_.place(lists_.graphs().size(), "graph")];
      // Finding a symbolic graph walks through its graphs.
      if (count > 1) lists_.charge(graph_at, read.size);
      graphs.push_back(read.graph);
    }
    if (count == 1) {
      out.graph = graphs[0];
    } else {
      out.symbolic = in_.shown_at(at, [&] { return symbolic_of(graphs); });
    }
    read_paths(out, *graphs[0]);
    return out;
  }

  void read_paths(NamedGraph& out, const Graph& graph) {
    const std::size_t at = in_.at();
    const std::size_t paths = in_.count("paths of outputs");
    if (paths != 0 && paths != graph.outputs().size()) {
      in_.fail(at, fmt::format("function '{}' has {} outputs and {} paths", out.name,
                               graph.outputs().size(), paths));
    }
    std::set<std::string> known;
    for (std::size_t i = 0; i < paths; ++i) {
      out.outputs.push_back(lists_.copied_text());
      if (out.outputs.back().empty() || !known.insert(out.outputs.back()).second) {
        in_.fail(at, fmt::format("path {} of function '{}' is empty or repeated", i, out.name));
      }
    }
  }

  const BinaryHeader header_;
  const std::string_view bytes_;
  ByteReader in_;
  BinaryLists lists_;
};

// The content of the header, without a check of the rest.
BinaryContent content_of(std::string_view bytes) noexcept {
  BinaryHeader header{};
  std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof header));
  return header.version > 1 ? header.content : BinaryContent::kGraph;
}

std::string names_of(const std::vector<NamedGraph>& graphs) {
  constexpr std::size_t kShown = 20;
  std::string out;
  for (std::size_t i = 0; i < std::min(graphs.size(), kShown); ++i) {
    out += fmt::format("{}'{}'", i == 0 ? "" : ", ", graphs[i].name.substr(0, 100));
  }
  return graphs.size() > kShown ? out + ", ..." : out;
}

// The only graph of a file, of one kind.
NamedGraph only(std::string_view bytes, bool is_symbolic) {
  std::vector<NamedGraph> graphs = read_binary_graphs(bytes);
  ETUDE_REQUIRE(graphs.size() == 1,
                "these bytes hold {} graphs: {}. Read them with read_binary_graphs()",
                graphs.size(), names_of(graphs));
  ETUDE_REQUIRE(
      is_symbolic == (static_cast<bool>(graphs[0].symbolic)),
      "these bytes hold {}. Read it with {}()",
      is_symbolic ? "a graph for fixed sizes" : "a symbolic graph: a graph for many sizes",
      is_symbolic ? "read_binary" : "read_symbolic_binary");
  return std::move(graphs[0]);
}

}  // namespace

bool is_binary_graph(std::string_view bytes) noexcept {
  return bytes.starts_with(internal::kBinaryMagic) && content_of(bytes) != BinaryContent::kSymbolic;
}

bool is_symbolic_binary(std::string_view bytes) noexcept {
  return bytes.starts_with(internal::kSymbolicMagic) ||
         (bytes.starts_with(internal::kBinaryMagic) &&
          content_of(bytes) == BinaryContent::kSymbolic);
}

std::vector<NamedGraph> read_binary_graphs(std::string_view bytes) {
  if (!bytes.starts_with(internal::kSymbolicMagic)) return ContainerReader(bytes).read();
  std::vector<GraphRef> graphs;
  for (const std::string_view part : internal::split_symbolic(bytes)) {
    std::vector<NamedGraph> read = ContainerReader(part).read();
    ETUDE_REQUIRE_CODE(kDataLoss, read.size() == 1 && read[0].graph,
                       "part {} of a symbolic graph in binary form is not one graph",
                       graphs.size());
    graphs.push_back(std::move(read[0].graph));
  }
  SymbolicGraphRef symbolic = symbolic_of(graphs);
  const std::string& name = graphs[0]->name();
  std::vector<NamedGraph> out(1);
  out[0].name = name.empty() ? "graph" : name;
  out[0].symbolic = std::move(symbolic);
  return out;
}

GraphRef read_binary(std::string_view bytes) { return only(bytes, false).graph; }

SymbolicGraphRef read_symbolic_binary(std::string_view bytes) { return only(bytes, true).symbolic; }

}  // namespace etude
