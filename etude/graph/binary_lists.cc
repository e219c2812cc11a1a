// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/binary_lists.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "etude/core/context/context.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/op/registry.h"
#include "etude/core/op/upgrade.h"
#include "etude/graph/binary_format.h"
#include "etude/graph/check_call.h"
#include "etude/graph/text/programs.h"
#include "etude/graph/text/text_reader.h"

namespace etude::internal {
namespace {

// The bytes that a copy of the value takes, except those in the value itself.
std::size_t size_of(const AttrValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return text->size();
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) return 8 * ints->size();
  if (const auto* reals = std::get_if<std::vector<double>>(&value)) return 8 * reals->size();
  return 0;
}

}  // namespace

BinaryLists::BinaryLists(std::string_view bytes, uint32_t version, ByteReader& in,
                         std::size_t elements)
    : bytes_(bytes),
      version_(version),
      in_(in),
      elements_(elements),
      budget_("a graph in binary form", bytes.size()) {
  read_texts();
  read_types();
  if (is_first_version()) return;
  read_programs();
  read_ops();
  read_constants();
}

void BinaryLists::charge(std::size_t at, std::size_t bytes) {
  if (budget_.has_bytes(bytes)) return;
  in_.fail(at,
           "with texts, defaults, constants and graphs counted at each use, " + budget_.excess(),
           ErrorCode::kResourceExhausted);
}

void BinaryLists::charge_node(std::size_t at) {
  constexpr std::size_t kBytes = 256;
  if (!budget_.has_items()) in_.fail(at, budget_.excess(), ErrorCode::kResourceExhausted);
  charge(at, kBytes);
}

std::string BinaryLists::copied_text() {
  const std::size_t at = in_.at();
  const std::string_view out = text();
  charge(at, out.size());
  return std::string(out);
}

void BinaryLists::read_texts() {
  const std::size_t texts = in_.count("texts");
  for (std::size_t i = 0; i < texts; ++i) {
    const std::size_t length = in_.count("bytes of a text");
    texts_.push_back(in_.take(length));
  }
}

void BinaryLists::read_types() {
  const std::size_t types = in_.count("types");
  for (std::size_t i = 0; i < types; ++i) {
    const std::size_t at = in_.at();
    const std::string_view text = in_.take(in_.count("bytes of a type"));
    if (!is_first_version() && text.find('@') != std::string_view::npos) {
      in_.fail(at,
               fmt::format("type {} is '{}', but files know no devices", i, text.substr(0, 100)));
    }
    TextReader reader(text, 0, text.size());
    const Type* type = nullptr;
    try {
      type = reader.type();
    } catch (const Error&) {  // dropped: it names a line of a text
    }
    if (type == nullptr || !reader.is_at_end()) {
      in_.fail(at, fmt::format("type {} is '{}', which is not a type", i, text.substr(0, 100)));
    }
    // A graph in a file is of the host; it is placed on devices after it was read.
    types_.push_back(intern_type(type->dtype(), type->shape()));
  }
}

// ---- programs

void BinaryLists::read_programs() {
  const std::size_t programs = in_.count("programs");
  for (std::size_t i = 0; i < programs; ++i) {
    const std::size_t at = in_.at();
    const std::string_view spelled = text();
    ProgramPlace where;
    const uint64_t record = in_.number(texts_.size(), "the number of a record's name");
    if (record > 0) {
      // Null for a record that is no more: the text has the meaning.
      where.op = Registry::global().find(texts_[static_cast<std::size_t>(record - 1)]);
      where.place = static_cast<uint32_t>(in_.number(kProgramPlaces - 1, "the place of a program"));
    }
    programs_.push_back(program_at(where, spelled));
    if (programs_.back() == nullptr) {
      in_.fail(at, fmt::format("{{{}}} is no scalar program", spelled.substr(0, 1000)),
               ErrorCode::kNotFound);
    }
  }
}

const ScalarDef* BinaryLists::spelled_program() {
  const std::size_t at = in_.at();
  const std::string_view spelled = text();
  const ScalarDef* out = internal::spelled_program(spelled);
  if (out == nullptr) {
    in_.fail(at, fmt::format("{} is no scalar program", spelled.substr(0, 1000)),
             ErrorCode::kNotFound);
  }
  return out;
}

const ScalarDef* BinaryLists::program() {
  if (is_first_version()) return spelled_program();
  return programs_[in_.place(programs_.size(), "program")];
}

// ---- ops

void BinaryLists::read_ops() {
  const std::size_t ops = in_.count("ops");
  for (std::size_t i = 0; i < ops; ++i) {
    const std::size_t at = in_.at();
    StoredOp op = stored_op();
    if (!ops_by_name_.emplace(op.op->name(), i).second) {
      in_.fail(at, fmt::format("op '{}' is listed twice", op.op->full_name()));
    }
    ops_.push_back(std::move(op));
  }
}

StoredOp BinaryLists::stored_op() {
  const std::size_t at = in_.at();
  StoredOp out;
  out.op = &in_.shown_at(at, [name = text()]() -> const Op& { return find_read_op(name); });
  out.version = static_cast<uint32_t>(in_.number(~uint32_t{0}, "the version of an op"));
  in_.shown_at(at, [&] { require_readable(*out.op, out.version); });
  const std::size_t attrs = in_.count("attributes");
  for (std::size_t i = 0; i < attrs; ++i) out.attrs.push_back(stored_attr(out));
  if (out.is_present()) take_defaults(at, out);
  return out;
}

StoredAttr BinaryLists::stored_attr(const StoredOp& op) {
  const std::size_t at = in_.at();
  StoredAttr out;
  out.name = text();
  const auto is_same = [&](const StoredAttr& other) { return other.name == out.name; };
  if (std::ranges::any_of(op.attrs, is_same)) {
    in_.fail(at, fmt::format("attribute '{}' is listed twice", out.name.substr(0, 100)));
  }
  const uint8_t kind = in_.byte();
  if (kind == 0 || kind > static_cast<uint8_t>(AttrKind::kGraphs)) {
    in_.fail(at, fmt::format("attribute '{}' has kind {}: kinds are 1 to {}",
                             out.name.substr(0, 100), kind, static_cast<int>(AttrKind::kGraphs)));
  }
  out.kind = static_cast<AttrKind>(kind);
  const uint8_t given = in_.byte();
  if (given > static_cast<uint8_t>(BinaryDefault::kValue)) {
    in_.fail(at, fmt::format("the default of attribute '{}' is of form {}: forms are 0 to 2",
                             out.name.substr(0, 100), given));
  }
  out.is_required = given == static_cast<uint8_t>(BinaryDefault::kRequired);
  if (given != static_cast<uint8_t>(BinaryDefault::kValue)) return out;
  int depth = 0;
  out.value = value(at, out.name, out.kind, depth);  // graphs come later: none is a default
  out.size = size_of(out.value);
  return out;
}

// Compares the attributes with the record, once for all calls.
void BinaryLists::take_defaults(std::size_t at, StoredOp& op) const {
  const std::vector<AttrDef>& defs = op.op->def().attrs;
  std::vector<bool> is_stored(defs.size());
  for (StoredAttr& attr : op.attrs) {
    const AttrDef& def = in_.shown_at(
        at, [&]() -> const AttrDef& { return find_read_attr(*op.op, op.version, attr.name); });
    attr.place = static_cast<std::size_t>(&def - defs.data());
    is_stored[attr.place] = true;
    if (attr.is_required) continue;
    const bool is_same = !def.required && AttrView(attr.value).is(def.default_value);
    if (is_same) {
      attr.value = {};  // which means the default
      attr.size = 0;
    } else if (attr.value.index() == 0) {
      in_.fail(at,
               fmt::format("attribute '{}' of op '{}' may be absent here, but not in the record of "
                           "version {}",
                           attr.name, op.op->full_name(), op.version),
               ErrorCode::kInvalidArgument);
    }
  }
  for (std::size_t i = 0; i < defs.size(); ++i) {
    if (is_stored[i] || !defs[i].required) continue;
    in_.fail(at,
             fmt::format("op '{}' has no attribute '{}' here, but its record requires it",
                         op.op->full_name(), defs[i].name),
             ErrorCode::kInvalidArgument);
  }
}

const StoredOp& BinaryLists::op() {
  if (!is_first_version()) return ops_[in_.place(ops_.size(), "op")];
  const std::size_t at = in_.at();
  const std::string_view name = text();
  const auto [known, is_new] = ops_by_name_.try_emplace(name, ops_.size());
  if (is_new) {
    ops_.push_back({&in_.shown_at(at, [&]() -> const Op& { return find_read_op(name); })});
    in_.shown_at(at, [&] { require_readable(*ops_.back().op, 1); });
  }
  return ops_[known->second];
}

// ---- constants

void BinaryLists::read_constants() {
  const std::size_t constants = in_.count("constants");
  for (std::size_t i = 0; i < constants; ++i) {
    const std::size_t at = in_.at();
    constants_.push_back(elements_of(at, type()));
  }
  is_taken_.resize(constants_.size());
}

Tensor BinaryLists::constant() {
  const std::size_t at = in_.at();
  if (is_first_version()) return elements_of(at, type());
  const std::size_t place = in_.place(constants_.size(), "constant");
  // A graph hashes its constants.
  if (is_taken_[place]) charge(at, static_cast<std::size_t>(constants_[place].type()->bytes()));
  is_taken_[place] = true;
  return constants_[place];
}

Tensor BinaryLists::elements_of(std::size_t at, const Type* type) {
  const std::size_t begin = binary_aligned(elements_);
  const auto bytes = static_cast<uint64_t>(type->bytes());
  if (begin > bytes_.size() || bytes > bytes_.size() - begin) {
    in_.fail(at, fmt::format("a constant is {}, but the bytes end before its last element",
                             type->to_string()));
  }
  const std::string_view elements = bytes_.substr(begin, bytes);
  const auto is_wrong = [](char c) { return static_cast<uint8_t>(c) > 1; };
  if (type->dtype() == kBool && std::ranges::any_of(elements, is_wrong)) {
    in_.fail(begin, "an element of a constant of dtype bool is neither 0 nor 1");
  }
  elements_ = begin + bytes;
  Tensor out = make_tensor(type);
  if (bytes > 0) std::memcpy(new_host_elements(out), elements.data(), bytes);
  return out;
}

// ---- attributes

AttrValue BinaryLists::value(std::size_t at, std::string_view name, AttrKind kind, int& depth) {
  switch (kind) {
    case AttrKind::kFlag:
      return in_.number(1, "a flag") != 0;
    case AttrKind::kInt:
      return in_.integer();
    case AttrKind::kReal:
      return in_.real();
    case AttrKind::kDType:
      return dtype();
    case AttrKind::kInts:
      return list<int64_t>([this] { return in_.integer(); });
    case AttrKind::kText:
      return copied_text();
    case AttrKind::kReals:
      return list<double>([this] { return in_.real(); });
    case AttrKind::kProgram:
      return program();
    case AttrKind::kGraph:
      return graph(depth);
    case AttrKind::kGraphs:
      return list<Object>([&] { return graph(depth); });
    case AttrKind::kHost:
      in_.fail(at,
               fmt::format("attribute '{}' exists only in the process that made it, so no file has "
                           "it",
                           name),
               ErrorCode::kUnimplemented);
    case AttrKind::kNone:
      break;
  }
  in_.fail(at, fmt::format("attribute '{}' has no kind", name));
}

DType BinaryLists::dtype() {
  const std::size_t at = in_.at();
  const auto out = dtype_named(text());
  if (!out) in_.fail(at, "a dtype is needed, but the text is not one");
  return *out;
}

template <class T, class F>
std::vector<T> BinaryLists::list(F&& item) {
  const std::size_t items = in_.count("items of a list");
  std::vector<T> out;
  out.reserve(std::min<std::size_t>(items, in_.left() / sizeof(T) + 1));
  for (std::size_t i = 0; i < items; ++i) out.push_back(item());
  return out;
}

BinaryLists::Object BinaryLists::graph(int& depth) {
  const std::size_t at = in_.at();
  Read& of = graphs_[in_.place(graphs_.size(), "graph")];
  depth = std::max(depth, of.depth + 1);
  if (!budget_.has_depth(depth)) {
    in_.fail(at,
             fmt::format("graphs refer to graphs more than {} levels deep", budget_.limits().depth),
             ErrorCode::kInvalidArgument);
  }
  if (!of.shared) of.shared = unique_.add(of.graph);
  return Object(of.shared);
}

}  // namespace etude::internal
