// SPDX-License-Identifier: Apache-2.0
#include "etude/core/op/attrs.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "etude/base/check.h"
#include "etude/base/internal/hash.h"
#include "etude/core/op/exact_text.h"
#include "etude/core/op/op.h"

namespace etude {
namespace {

template <class T>
std::string join(const std::vector<T>& items) {
  std::string text = "[";
  for (const T& item : items) text += (text.size() > 1 ? ", " : "") + internal::exact_text(item);
  return text + "]";
}

// Doubles compare by bits.
bool same(const AttrValue& a, const AttrValue& b) { return AttrView(a).is(b); }

// Enough for tables that compare the whole value after a hit.
constexpr uint64_t step(uint64_t h, uint64_t value) noexcept {
  h = (h ^ value) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 32);
}

template <class T>
bool same_bytes(const void* data, std::size_t size, const T& list) noexcept {
  return size == list.size() &&
         (size == 0 || std::memcmp(data, list.data(), size * sizeof(list[0])) == 0);
}

struct OwnedAttrs final : internal::AttrBlock {
  std::vector<AttrValue> values;
};

}  // namespace

std::string to_string(const AttrValue& value) {
  struct Printer {
    std::string operator()(std::monostate) const { return "none"; }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return internal::exact_text(v); }
    std::string operator()(DType v) const { return std::string(name(v)); }
    std::string operator()(const std::vector<int64_t>& v) const { return join(v); }
    std::string operator()(const std::string& v) const { return internal::quoted_text(v); }
    std::string operator()(const std::vector<double>& v) const { return join(v); }
    std::string operator()(const ScalarDef* v) const { return scalar::to_string(*v->program); }
    std::string operator()(const internal::RefPtr<const AttrObject>& v) const {
      return v->to_string();
    }
    std::string operator()(const std::vector<internal::RefPtr<const AttrObject>>& v) const {
      std::string text = "[";
      for (const auto& x : v) text += (text.size() > 1 ? ", " : "") + x->to_string();
      return text + "]";
    }
    std::string operator()(const internal::RefPtr<const HostObject>& v) const {
      return v->to_string();
    }
  };
  return std::visit(Printer{}, value);
}

AttrView AttrView::of(const AttrValue& value) noexcept {
  return std::visit([](const auto& v) { return AttrView(v); }, value);
}

AttrValue AttrView::own() const {
  const auto list = [this]<class T>(const T* data) { return std::vector<T>(data, data + size_); };
  switch (kind_) {
    case AttrKind::kNone:
      return {};
    case AttrKind::kFlag:
      return integer_ != 0;
    case AttrKind::kInt:
      return integer_;
    case AttrKind::kReal:
      return real_;
    case AttrKind::kDType:
      return static_cast<DType>(integer_);
    case AttrKind::kInts:
      return list(static_cast<const int64_t*>(data_));
    case AttrKind::kText:
      return std::string(static_cast<const char*>(data_), size_);
    case AttrKind::kReals:
      return list(static_cast<const double*>(data_));
    case AttrKind::kProgram:
      return static_cast<const ScalarDef*>(data_);
    case AttrKind::kGraph:
      return internal::RefPtr<const AttrObject>(static_cast<const AttrObject*>(data_));
    case AttrKind::kGraphs:
      return list(static_cast<const internal::RefPtr<const AttrObject>*>(data_));
    case AttrKind::kHost:
      return internal::RefPtr<const HostObject>(static_cast<const HostObject*>(data_));
  }
  return {};
}

uint64_t AttrView::hash() const noexcept {
  const uint64_t kind = static_cast<uint64_t>(kind_);
  switch (kind_) {
    case AttrKind::kReal:
      return step(kind, std::bit_cast<uint64_t>(real_));
    case AttrKind::kProgram:
    case AttrKind::kHost:
      return step(kind, std::bit_cast<uintptr_t>(data_));
    case AttrKind::kGraph:
      return step(kind, static_cast<const AttrObject*>(data_)->hash());
    case AttrKind::kGraphs: {
      uint64_t h = step(kind, size_);
      for (const auto& graph : graphs()) h = step(h, graph->hash());
      return h;
    }
    case AttrKind::kText:
      return step(kind, std::hash<std::string_view>{}({static_cast<const char*>(data_), size_}));
    case AttrKind::kInts:
    case AttrKind::kReals: {
      uint64_t h = step(kind, size_);
      for (std::size_t i = 0; i < size_; ++i) {
        uint64_t bits;
        std::memcpy(&bits, static_cast<const char*>(data_) + i * sizeof(bits), sizeof(bits));
        h = step(h, bits);
      }
      return h;
    }
    default:
      return step(kind, static_cast<uint64_t>(integer_));
  }
}

bool AttrView::is(const AttrValue& value) const noexcept {
  if (value.index() != static_cast<std::size_t>(kind_)) return false;
  switch (kind_) {
    case AttrKind::kNone:
      return true;
    case AttrKind::kFlag:
      return *std::get_if<bool>(&value) == (integer_ != 0);
    case AttrKind::kInt:
      return *std::get_if<int64_t>(&value) == integer_;
    case AttrKind::kReal:
      return std::bit_cast<uint64_t>(*std::get_if<double>(&value)) ==
             std::bit_cast<uint64_t>(real_);
    case AttrKind::kDType:
      return *std::get_if<DType>(&value) == static_cast<DType>(integer_);
    case AttrKind::kInts:
      return same_bytes(data_, size_, *std::get_if<std::vector<int64_t>>(&value));
    case AttrKind::kText:
      return same_bytes(data_, size_, *std::get_if<std::string>(&value));
    case AttrKind::kReals:
      return same_bytes(data_, size_, *std::get_if<std::vector<double>>(&value));
    case AttrKind::kProgram:
      return *std::get_if<const ScalarDef*>(&value) == data_;
    case AttrKind::kGraph: {
      const AttrObject& other = **std::get_if<internal::RefPtr<const AttrObject>>(&value);
      return static_cast<const AttrObject*>(data_)->same(other);
    }
    case AttrKind::kGraphs:
      return std::ranges::equal(
          graphs(), *std::get_if<std::vector<internal::RefPtr<const AttrObject>>>(&value),
          [](const auto& x, const auto& y) { return x->same(*y); });
    case AttrKind::kHost:
      return std::get_if<internal::RefPtr<const HostObject>>(&value)->get() == data_;
  }
  return false;
}

AttrDef::AttrDef(const char* n, bool v) : name(n), kind(AttrKind::kFlag), default_value(v) {}
AttrDef::AttrDef(const char* n, int v) : name(n), kind(AttrKind::kInt), default_value(int64_t{v}) {}
AttrDef::AttrDef(const char* n, double v) : name(n), kind(AttrKind::kReal), default_value(v) {}
AttrDef::AttrDef(const char* n, DType v) : name(n), kind(AttrKind::kDType), default_value(v) {}
AttrDef::AttrDef(const char* n, const char* v)
    : name(n), kind(AttrKind::kText), default_value(std::string(v)) {}
AttrDef::AttrDef(const char* n, std::vector<int64_t> v)
    : name(n), kind(AttrKind::kInts), default_value(std::move(v)) {}
AttrDef::AttrDef(const char* n, AttrKind k, bool first)
    : name(n), kind(k), required(true), is_first(first) {}
AttrDef::AttrDef(const char* n, AttrKind k, std::monostate absent)
    : name(n), kind(k), default_value(absent) {}

Attrs::Attrs(std::span<const AttrDef> defs, std::vector<AttrValue> values) {
  ETUDE_CHECK(defs.size() == values.size(), "{} attribute values for {} definitions", values.size(),
              defs.size());
  auto* block = new OwnedAttrs;
  block_ = block;
  block->retain();
  block->defs = defs;
  block->values = std::move(values);
  for (const AttrValue& value : block->values) {
    block->hash = internal::mix(block->hash, AttrView(value).hash());
  }
}

const AttrValue& Attrs::value(std::string_view name) const {
  for (std::size_t i = 0; i < defs().size(); ++i) {
    if (defs()[i].name == name) return values()[i];
  }
  ETUDE_THROW(kInternal, "a rule asks for attribute '{}', which its record does not define", name);
}

bool Attrs::flag(std::string_view name) const { return std::get<bool>(value(name)); }
int64_t Attrs::integer(std::string_view name) const { return std::get<int64_t>(value(name)); }
double Attrs::real(std::string_view name) const { return std::get<double>(value(name)); }
DType Attrs::dtype(std::string_view name) const { return std::get<DType>(value(name)); }
const std::vector<int64_t>& Attrs::ints(std::string_view name) const {
  return std::get<std::vector<int64_t>>(value(name));
}
const std::vector<double>& Attrs::reals(std::string_view name) const {
  return std::get<std::vector<double>>(value(name));
}
const std::string& Attrs::text(std::string_view name) const {
  return std::get<std::string>(value(name));
}

const AttrObject& Attrs::object(std::string_view name) const {
  return *std::get<internal::RefPtr<const AttrObject>>(value(name));
}
std::span<const internal::RefPtr<const AttrObject>> Attrs::objects(std::string_view name) const {
  return std::get<std::vector<internal::RefPtr<const AttrObject>>>(value(name));
}

const HostObject& Attrs::host(std::string_view name) const {
  return *std::get<internal::RefPtr<const HostObject>>(value(name));
}

const HostObject* Attrs::find_host() const noexcept {
  for (const AttrValue& value : values()) {
    const auto* host = std::get_if<internal::RefPtr<const HostObject>>(&value);
    if (host != nullptr) return host->get();
  }
  return nullptr;
}

std::span<const AttrDef> Attrs::defs() const {
  return block_ != nullptr ? block_->defs : std::span<const AttrDef>{};
}
std::span<const AttrValue> Attrs::values() const {
  if (block_ == nullptr) return {};
  return static_cast<const OwnedAttrs*>(block_)->values;
}

std::string Attrs::to_string() const {
  std::string text;
  for (std::size_t i = 0; i < defs().size(); ++i) {
    const AttrDef& def = defs()[i];
    if (!def.required && same(values()[i], def.default_value)) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("{}={}", def.name, etude::to_string(values()[i]));
  }
  return text;
}

bool Attrs::operator==(const Attrs& other) const {
  if (block_ == other.block_) return true;
  if (hash() != other.hash() || values().size() != other.values().size()) return false;
  for (std::size_t i = 0; i < values().size(); ++i) {
    if (!same(values()[i], other.values()[i])) return false;
  }
  return true;
}

}  // namespace etude
