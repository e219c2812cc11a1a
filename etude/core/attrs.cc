// SPDX-License-Identifier: Apache-2.0
#include "etude/core/attrs.h"

#include <bit>

#include "etude/base/check.h"
#include "etude/base/hash.h"
#include "etude/core/op.h"

namespace etude {
namespace {

template <class T>
std::string join(const std::vector<T>& items) {
  std::string text = "[";
  for (std::size_t i = 0; i < items.size(); ++i)
    text += fmt::format("{}{}", i > 0 ? ", " : "", items[i]);
  return text + "]";
}

uint64_t hash_of(const AttrValue& value) {
  using internal::mix;
  struct Hasher {
    uint64_t operator()(std::monostate) const { return 1; }
    uint64_t operator()(bool v) const { return v ? 2 : 3; }
    uint64_t operator()(int64_t v) const { return mix(static_cast<uint64_t>(v)); }
    uint64_t operator()(double v) const { return mix(std::bit_cast<uint64_t>(v)); }
    uint64_t operator()(DType v) const { return mix(static_cast<uint64_t>(v)); }
    uint64_t operator()(const std::vector<int64_t>& v) const {
      uint64_t h = v.size();
      for (const int64_t i : v) h = mix(h, static_cast<uint64_t>(i));
      return h;
    }
    uint64_t operator()(const std::string& v) const { return std::hash<std::string>{}(v); }
    uint64_t operator()(const std::vector<double>& v) const {
      uint64_t h = v.size();
      for (const double d : v) h = mix(h, std::bit_cast<uint64_t>(d));
      return h;
    }
    uint64_t operator()(const ScalarDef* v) const { return mix(std::bit_cast<uintptr_t>(v)); }
  };
  return mix(value.index(), std::visit(Hasher{}, value));
}

// Doubles compare by bits, so that -0.0 and 0.0 are two values and a NaN is one.
bool same(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  if (const double* x = std::get_if<double>(&a)) {
    return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(std::get<double>(b));
  }
  return a == b;
}

}  // namespace

std::string to_string(const AttrValue& value) {
  struct Printer {
    std::string operator()(std::monostate) const { return "none"; }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return fmt::format("{}", v); }
    std::string operator()(DType v) const { return std::string(name(v)); }
    std::string operator()(const std::vector<int64_t>& v) const { return join(v); }
    std::string operator()(const std::string& v) const { return '"' + v + '"'; }
    std::string operator()(const std::vector<double>& v) const { return join(v); }
    std::string operator()(const ScalarDef* v) const { return scalar::to_string(*v->program); }
  };
  return std::visit(Printer{}, value);
}

Attrs::Attrs(std::span<const AttrDef> defs, std::vector<AttrValue> values) {
  ETUDE_CHECK(defs.size() == values.size(), "{} attribute values for {} definitions", values.size(),
              defs.size());
  block_ = internal::make_ref<internal::AttrBlock>();
  block_->defs = defs;
  block_->values = std::move(values);
  for (const AttrValue& value : block_->values) {
    block_->hash = internal::mix(block_->hash, hash_of(value));
  }
}

const AttrValue& Attrs::value(std::string_view name) const {
  for (std::size_t i = 0; i < defs().size(); ++i) {
    if (defs()[i].name == name) return block_->values[i];
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

std::span<const AttrDef> Attrs::defs() const {
  return block_ ? block_->defs : std::span<const AttrDef>{};
}
std::span<const AttrValue> Attrs::values() const {
  return block_ ? std::span<const AttrValue>(block_->values) : std::span<const AttrValue>{};
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

bool operator==(const Attrs& a, const Attrs& b) {
  if (a.block_.get() == b.block_.get()) return true;
  if (a.hash() != b.hash() || a.values().size() != b.values().size()) return false;
  for (std::size_t i = 0; i < a.values().size(); ++i) {
    if (!same(a.values()[i], b.values()[i])) return false;
  }
  return true;
}

}  // namespace etude
