// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include <zlib.h>

#include "etude/base/check.h"
#include "etude/core/internal/host_door.h"
#include "etude/graph/binary.h"
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

using internal::GraphList;

class Bytes {
 public:
  void byte(uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<uint8_t>(value | 0x80));
    byte(static_cast<uint8_t>(value));
  }
  void text(std::string_view value) {
    number(value.size());
    out_.append(value);
  }
  void real(double value) { out_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  const std::string& all() const { return out_; }

 private:
  std::string out_;
};

// Texts by their indices, in the order of their first use.
class Table {
 public:
  uint64_t place(const std::string& text) {
    const auto [at, is_new] = places_.emplace(text, order_.size());
    if (is_new) order_.push_back(&at->first);
    return at->second;
  }
  void write(Bytes& to) const {
    to.number(order_.size());
    for (const std::string* text : order_) to.text(*text);
  }

 private:
  std::unordered_map<std::string, uint64_t> places_;
  std::vector<const std::string*> order_;
};

class Writer {
 public:
  explicit Writer(const Graph& main) : graphs_(main) {}

  std::string write() {
    const auto& list = graphs_.graphs();
    body_.number(list.size());
    for (std::size_t i = list.size(); i-- > 0;) graph(*list[i]);
    Bytes tables;
    texts_.write(tables);
    types_.write(tables);
    std::string out(sizeof(internal::BinaryHeader), '\0');
    out += tables.all();
    out += body_.all();
    out.resize(internal::binary_aligned(out.size()));
    internal::BinaryHeader header{{}, internal::kBinaryVersion, 0, 0, out.size()};
    std::ranges::copy(internal::kBinaryMagic, header.magic);
    for (const Tensor* value : constants_) {
      out.resize(internal::binary_aligned(out.size()));
      const Tensor home = internal::at_home(*value);
      out.append(static_cast<const char*>(internal::host_elements(home)),
                 static_cast<std::size_t>(value->type()->bytes()));
    }
    header.bytes = out.size();
    std::memcpy(out.data(), &header, sizeof header);
    header.checksum = internal::binary_checksum(out);
    std::memcpy(out.data(), &header, sizeof header);
    return out;
  }

 private:
  void name(std::string_view text) { body_.number(texts_.place(std::string(text))); }
  void type(const Type* type) { body_.number(types_.place(internal::type_text(type))); }
  void line(CallSite where) {
    if (!where.known()) return body_.number(0);
    body_.number(texts_.place(where.file) + 1);
    body_.number(static_cast<uint64_t>(where.line));
  }
  void values(std::span<const GraphValue> list) {
    body_.number(list.size());
    for (const GraphValue v : list) body_.number(v == kNoValue ? 0 : uint64_t{v} + 1);
  }
  void frame(uint32_t at) { body_.number(at == Graph::kNoFrame ? 0 : uint64_t{at} + 1); }

  void graph(const Graph& graph) {
    name(graph.name());
    body_.number(graph.inputs().size());
    for (const Graph::Input& input : graph.inputs()) {
      name(input.name);
      type(input.type);
      body_.byte(static_cast<uint8_t>(input.role));
    }
    body_.number(graph.constants().size());
    for (const Tensor& value : graph.constants()) {
      type(value.type());
      constants_.push_back(&value);
    }
    body_.number(graph.frames().size());
    for (const Graph::Frame& each : graph.frames()) {
      name(each.function);
      line(each.where);
      frame(each.outer);
    }
    body_.number(graph.size());
    for (std::size_t i = 0; i < graph.size(); ++i) node(graph.node(i));
    values(graph.outputs());
  }

  void node(const Graph::Node& node) {
    name(internal::op_text(node.op));
    line(node.where);
    frame(node.frame);
    values(node.operands);
    const auto& defs = node.attrs.defs();
    std::vector<std::size_t> given;
    for (std::size_t i = 0; i < defs.size(); ++i) {
      if (!internal::is_default(defs[i], node.attrs.values()[i])) given.push_back(i);
    }
    body_.number(given.size());
    for (const std::size_t i : given) {
      name(defs[i].name);
      const AttrValue& value = node.attrs.values()[i];
      body_.byte(value.index() == 0 ? 0 : 1);
      std::visit([&](const auto& v) { attr(v); }, value);
    }
  }

  void attr(std::monostate) {}
  void attr(bool value) { body_.byte(value ? 1 : 0); }
  void attr(int64_t value) {
    const auto bits = static_cast<uint64_t>(value);
    body_.number((bits << 1) ^ (value < 0 ? ~uint64_t{0} : 0));
  }
  void attr(double value) { body_.real(value); }
  void attr(DType value) { name(etude::name(value)); }
  void attr(const std::string& value) { name(value); }
  template <class T>
  void attr(const std::vector<T>& list) {
    body_.number(list.size());
    for (const T& value : list) attr(value);
  }
  void attr(const ScalarDef* program) { name(internal::program_text(program)); }
  void attr(const internal::RefPtr<const AttrObject>& object) {
    const auto* graph = dynamic_cast<const Graph*>(object.get());
    ETUDE_CHECK(graph != nullptr, "an attribute of a graph is an object of another kind");
    body_.number(graphs_.graphs().size() - 1 - graphs_.find(*graph));
  }

  const GraphList graphs_;
  Table texts_, types_;
  Bytes body_;
  std::vector<const Tensor*> constants_;
};

}  // namespace

std::string to_binary(const Graph& graph) { return Writer(graph).write(); }

bool is_binary_graph(std::string_view bytes) noexcept {
  return bytes.starts_with(internal::kBinaryMagic);
}

}  // namespace etude
