// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/context/context.h"
#include "etude/core/internal/host_door.h"
#include "etude/graph/binary.h"
#include "etude/graph/binary_format.h"
#include "etude/graph/builder.h"
#include "etude/graph/check_call.h"
#include "etude/graph/text/programs.h"
#include "etude/graph/text/text_reader.h"

namespace etude {
namespace {

using Draft = GraphBuilder::Draft;

// A position in the bytes. Counts are not trusted: each counted item must be present, with at least
// one byte.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::size_t at, std::size_t end)
      : bytes_(bytes), at_(at), end_(end) {}

  bool is_at_end() const { return at_ == end_; }
  std::size_t at() const { return at_; }
  std::size_t left() const { return end_ - at_; }

  uint8_t byte() { return static_cast<uint8_t>(take(1)[0]); }
  std::string_view take(std::size_t count) {
    if (count > left()) fail(fmt::format("{} bytes are needed, but {} are left", count, left()));
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  uint64_t number() {
    uint64_t out = 0;
    for (int shift = 0;; shift += 7) {
      const uint64_t b = byte();
      if (shift == 63 && b > 1) fail("a number has more than 64 bits");
      out |= (b & 0x7f) << shift;
      if (b < 0x80) return out;
    }
  }
  // A number of at most `most`.
  uint64_t number(uint64_t most, std::string_view what) {
    const std::size_t begin = at_;
    const uint64_t out = number();
    if (out > most) fail(begin, fmt::format("{} is {}, but at most {}", what, out, most));
    return out;
  }
  std::size_t count(std::string_view what) {
    const std::size_t begin = at_;
    const uint64_t out = number();
    if (out > left()) {
      fail(begin, fmt::format("there are {} {}, but {} bytes are left", out, what, left()));
    }
    return static_cast<std::size_t>(out);
  }

  // An index below `size`.
  std::size_t place(std::size_t size, std::string_view what) {
    const std::size_t begin = at_;
    const uint64_t out = number();
    if (out >= size) fail(begin, fmt::format("{} {} of {} is named", what, out, size));
    return static_cast<std::size_t>(out);
  }

  [[noreturn]] void fail(std::size_t at, const std::string& fact,
                         ErrorCode code = ErrorCode::kDataLoss) const {
    throw Error(code, fmt::format("byte {} of a graph in binary form: {}", at, fact));
  }
  [[noreturn]] void fail(const std::string& fact) const { fail(at_, fact); }

 private:
  std::string_view bytes_;
  std::size_t at_, end_;
};

// The state shared by all graphs: the tables, the earlier graphs, and the position of the next
// constant.
struct Shared {
  std::string_view bytes;
  std::vector<std::string_view> texts;
  std::vector<const Type*> types;
  struct Read {
    GraphRef graph;
    int depth;  // levels of graphs below it
  };
  std::vector<Read> graphs;
  std::size_t elements = 0;
  std::size_t copied = 0;  // bytes of texts
};

// A text may be used many times. The copied bytes are limited to this multiple of the file's size.
constexpr std::size_t kMostCopied = 256;

class GraphReader {
 public:
  GraphReader(ByteReader& in, Shared& shared) : in_(in), shared_(shared), build_(copied_text()) {}

  Shared::Read read() {
    read_inputs();
    read_constants();
    read_frames();
    const std::size_t nodes = in_.count("nodes");
    for (std::size_t i = 0; i < nodes; ++i) read_node();
    const std::vector<Draft> outputs = values("outputs");
    return {build_.finish(outputs, true), depth_};
  }

 private:
  std::string_view text() { return shared_.texts[in_.place(shared_.texts.size(), "text")]; }
  std::string copied_text() {
    const std::size_t at = in_.at();
    const std::string_view out = text();
    shared_.copied += out.size();
    if (shared_.copied / kMostCopied > shared_.bytes.size()) {
      in_.fail(
          at,
          fmt::format("texts are used so often that they are over {} times the file", kMostCopied),
          ErrorCode::kResourceExhausted);
    }
    return std::string(out);
  }
  const Type* type() { return shared_.types[in_.place(shared_.types.size(), "type")]; }

  void read_inputs() {
    const std::size_t inputs = in_.count("inputs");
    uint8_t last = 0;
    for (std::size_t i = 0; i < inputs; ++i) {
      const std::size_t at = in_.at();
      std::string name = copied_text();
      if (name.empty()) in_.fail(at, fmt::format("input {} has no name", i));
      const Type* const of = type();
      const uint8_t role = in_.byte();
      if (role > static_cast<uint8_t>(InputRole::kCapture) || role < last) {
        in_.fail(at, fmt::format("input {} has role {}: roles are 0 to 3, in this order", i, role));
      }
      last = role;
      build_.add_input(std::move(name), of, static_cast<InputRole>(role));
      ++values_;
    }
  }

  void read_constants() {
    const std::size_t constants = in_.count("constants");
    for (std::size_t i = 0; i < constants; ++i) {
      const std::size_t at = in_.at();
      build_.add_constant(constant(at, type()));
      ++values_;
    }
  }

  Tensor constant(std::size_t at, const Type* type) {
    if (type->device() != Device()) {
      in_.fail(at,
               fmt::format("a constant is {}, but constants are on the host", type->to_string()),
               ErrorCode::kUnimplemented);
    }
    const std::size_t begin = internal::binary_aligned(shared_.elements);
    const auto bytes = static_cast<uint64_t>(type->bytes());
    if (begin > shared_.bytes.size() || bytes > shared_.bytes.size() - begin) {
      in_.fail(at, fmt::format("a constant is {}, but the bytes end before its last element",
                               type->to_string()));
    }
    const std::string_view elements = shared_.bytes.substr(begin, bytes);
    const auto is_wrong = [](char c) { return static_cast<uint8_t>(c) > 1; };
    if (type->dtype() == kBool && std::ranges::any_of(elements, is_wrong)) {
      in_.fail(begin, "an element of a constant of dtype bool is neither 0 nor 1");
    }
    shared_.elements = begin + bytes;
    Tensor out = internal::make_tensor(type);
    if (bytes > 0) std::memcpy(internal::new_host_elements(out), elements.data(), bytes);
    return out;
  }

  void read_frames() {
    const std::size_t frames = in_.count("frames");
    for (std::size_t i = 0; i < frames; ++i) {
      std::string function = copied_text();
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
    const uint64_t file = in_.number(shared_.texts.size(), "the number of a file");
    if (file == 0) return {};
    const auto number = in_.number(std::numeric_limits<int>::max(), "a line");
    const std::string_view name = shared_.texts[file - 1];
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
      const uint64_t number = in_.number(values_, "the number of a value");
      v = number == 0 ? GraphBuilder::kNoDraft : static_cast<Draft>(number - 1);
    }
    return out;
  }

  void read_node() {
    const std::size_t at = in_.at();
    const Op& op =
        shown_at(at, [name = text()]() -> const Op& { return internal::find_read_op(name); });
    const CallSite where = line();
    build_.set_frame(frame());
    const std::vector<Draft> operands = values("operands");
    std::vector<std::pair<std::string_view, AttrValue>> attrs;
    const std::size_t given = in_.count("attributes");
    for (std::size_t i = 0; i < given; ++i) {
      const std::size_t attr_at = in_.at();
      const std::string_view name = text();
      const AttrDef& def =
          shown_at(attr_at, [&]() -> const AttrDef& { return internal::find_read_attr(op, name); });
      const auto is_same = [&](const auto& other) { return other.first == def.name; };
      if (std::ranges::any_of(attrs, is_same)) {
        in_.fail(attr_at, fmt::format("attribute '{}' is given twice", def.name));
      }
      attrs.emplace_back(def.name, attr(attr_at, def));
    }
    const auto [values, results] =
        shown_at(at, [&] { return internal::check_read_call(op, build_, operands, attrs); });
    build_.add_node(op, values, operands, results, where);
    values_ += results.size();
  }

  template <class F>
  auto shown_at(std::size_t at, F&& f) const -> decltype(f()) {
    try {
      return f();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
      in_.fail(at, error.what(), error.code());
    }
  }

  // ---- attributes

  AttrValue attr(std::size_t at, const AttrDef& def) {
    const uint8_t is_given = in_.byte();
    if (is_given > 1 || (is_given == 0 && def.required)) {
      in_.fail(at, fmt::format("attribute '{}' has no value", def.name));
    }
    if (is_given == 0) return {};
    switch (def.kind) {
      case AttrKind::kFlag:
        return in_.number(1, "a flag") != 0;
      case AttrKind::kInt:
        return integer();
      case AttrKind::kReal:
        return real();
      case AttrKind::kDType:
        return dtype();
      case AttrKind::kInts:
        return list<int64_t>([this] { return integer(); });
      case AttrKind::kText:
        return copied_text();
      case AttrKind::kReals:
        return list<double>([this] { return real(); });
      case AttrKind::kProgram:
        return program();
      case AttrKind::kGraph:
        return graph();
      case AttrKind::kGraphs:
        return list<Object>([this] { return graph(); });
      case AttrKind::kNone:
        break;
    }
    in_.fail(at, fmt::format("attribute '{}' has no kind", def.name));
  }

  using Object = internal::RefPtr<const AttrObject>;

  int64_t integer() {
    const uint64_t bits = in_.number();
    return static_cast<int64_t>((bits >> 1) ^ (~(bits & 1) + 1));
  }
  double real() {
    double out = 0;
    std::memcpy(&out, in_.take(sizeof out).data(), sizeof out);
    return out;
  }
  DType dtype() {
    const std::size_t at = in_.at();
    const auto out = dtype_named(text());
    if (!out) in_.fail(at, "a dtype is needed, but the text is not one");
    return *out;
  }
  template <class T, class F>
  std::vector<T> list(F&& item) {
    const std::size_t items = in_.count("items of a list");
    std::vector<T> out;
    out.reserve(std::min<std::size_t>(items, in_.left() / sizeof(T) + 1));
    for (std::size_t i = 0; i < items; ++i) out.push_back(item());
    return out;
  }
  const ScalarDef* program() {
    const std::size_t at = in_.at();
    const std::string_view spelled = text();
    const ScalarDef* out = internal::spelled_program(spelled);
    if (out == nullptr) {
      in_.fail(at, fmt::format("{} is no scalar program", spelled.substr(0, 1000)),
               ErrorCode::kNotFound);
    }
    return out;
  }
  Object graph() {
    const std::size_t at = in_.at();
    const Shared::Read& of = shared_.graphs[in_.place(shared_.graphs.size(), "graph")];
    depth_ = std::max(depth_, of.depth + 1);
    if (depth_ > internal::kMaxGraphDepth) {
      in_.fail(
          at,
          fmt::format("graphs refer to graphs more than {} levels deep", internal::kMaxGraphDepth),
          ErrorCode::kInvalidArgument);
    }
    return Object(of.graph);
  }

  ByteReader& in_;
  Shared& shared_;
  GraphBuilder build_;
  std::unordered_map<uint64_t, const char*> files_;  // by place of the text
  std::size_t values_ = 0, frames_ = 0;
  int depth_ = 0;
};

// throws unless all bytes are present and unchanged.
internal::BinaryHeader read_header(std::string_view bytes) {
  internal::BinaryHeader header;
  ETUDE_REQUIRE_CODE(kDataLoss, is_binary_graph(bytes),
                     "these {} bytes are no graph in binary form, which begins with \\x89ETG",
                     bytes.size());
  ETUDE_REQUIRE_CODE(kDataLoss, bytes.size() >= sizeof header,
                     "a graph in binary form is torn: it has {} bytes, and its header {}",
                     bytes.size(), sizeof header);
  std::memcpy(&header, bytes.data(), sizeof header);
  ETUDE_REQUIRE_CODE(
      kUnimplemented, header.version == internal::kBinaryVersion,
      "a graph in binary form of version {}, and this library reads version {}. Read "
      "it with the release that wrote it, and write it as text there",
      header.version, internal::kBinaryVersion);
  ETUDE_REQUIRE_CODE(kDataLoss, header.bytes == bytes.size(),
                     "a graph in binary form is torn: it has {} bytes, but {} were written",
                     bytes.size(), header.bytes);
  ETUDE_REQUIRE_CODE(kDataLoss, header.checksum == internal::binary_checksum(bytes),
                     "a graph in binary form was damaged: its checksum is {:08x}, but {:08x} was "
                     "written",
                     internal::binary_checksum(bytes), header.checksum);
  ETUDE_REQUIRE_CODE(
      kDataLoss,
      header.elements >= sizeof header && header.elements <= bytes.size() &&
          header.elements % internal::kBinaryAlignment == 0,
      "a graph in binary form has {} bytes, and the elements of its constants begin at {}",
      bytes.size(), header.elements);
  return header;
}

void read_tables(ByteReader& in, Shared& shared) {
  const std::size_t texts = in.count("texts");
  for (std::size_t i = 0; i < texts; ++i) {
    const std::size_t length = in.count("bytes of a text");
    shared.texts.push_back(in.take(length));
  }
  const std::size_t types = in.count("types");
  for (std::size_t i = 0; i < types; ++i) {
    const std::size_t at = in.at();
    const std::string_view text = in.take(in.count("bytes of a type"));
    internal::TextReader reader(text, 0, text.size());
    const Type* type = nullptr;
    try {
      type = reader.type();
    } catch (const Error&) {  // dropped: it names a line of a text
    }
    if (type == nullptr || !reader.is_at_end()) {
      in.fail(at, fmt::format("type {} is '{}', which is not a type", i, text.substr(0, 100)));
    }
    shared.types.push_back(type);
  }
}

}  // namespace

GraphRef read_binary(std::string_view bytes) {
  const internal::BinaryHeader header = read_header(bytes);
  ByteReader in(bytes, sizeof header, static_cast<std::size_t>(header.elements));
  Shared shared;
  shared.bytes = bytes;
  shared.elements = static_cast<std::size_t>(header.elements);
  read_tables(in, shared);
  const std::size_t graphs = in.count("graphs");
  if (graphs == 0) in.fail("there is no graph");
  internal::UniqueGraphs unique;
  for (std::size_t i = 0; i < graphs; ++i) {
    Shared::Read read = GraphReader(in, shared).read();
    const GraphRef first = unique.add(read.graph);
    if (i + 1 < graphs) read.graph = first;
    shared.graphs.push_back(std::move(read));
  }
  if (in.left() >= internal::kBinaryAlignment || shared.elements < bytes.size()) {
    in.fail("there are bytes after the last graph or the last constant");
  }
  return shared.graphs.back().graph;
}

}  // namespace etude
