// SPDX-License-Identifier: Apache-2.0
// Attributes of a call: an immutable list of values in the order of the op's definitions, with
// generated equality, hash and printing. What depends on data is an operand, not an attribute.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "etude/base/ref_ptr.h"
#include "etude/core/dtype.h"
#include "etude/core/shape.h"
#include "etude/version.h"

namespace ETUDE_API etude {

struct ScalarDef;

enum class AttrKind : uint8_t { kNone, kFlag, kInt, kReal, kDType, kInts, kText, kReals, kProgram };

// kNone stands for "not given" where an attribute may be absent.
using AttrValue = std::variant<std::monostate, bool, int64_t, double, DType, std::vector<int64_t>,
                               std::string, std::vector<double>, const ScalarDef*>;
std::string to_string(const AttrValue& value);

// One attribute of an op record.
//   {"transpose_x", false}             optional, with its default
//   {"axis", AttrKind::kInts, none}    optional, absent by default
//   {"shape", AttrKind::kInts}         required: a positional parameter of the C++ function
struct AttrDef {
  std::string_view name;
  AttrKind kind;
  bool required = false;
  AttrValue default_value;

  AttrDef(const char* n, bool v) : name(n), kind(AttrKind::kFlag), default_value(v) {}
  AttrDef(const char* n, int v) : name(n), kind(AttrKind::kInt), default_value(int64_t{v}) {}
  AttrDef(const char* n, double v) : name(n), kind(AttrKind::kReal), default_value(v) {}
  AttrDef(const char* n, DType v) : name(n), kind(AttrKind::kDType), default_value(v) {}
  AttrDef(const char* n, const char* v)
      : name(n), kind(AttrKind::kText), default_value(std::string(v)) {}
  AttrDef(const char* n, std::vector<int64_t> v)
      : name(n), kind(AttrKind::kInts), default_value(std::move(v)) {}
  AttrDef(const char* n, AttrKind k) : name(n), kind(k), required(true) {}
  AttrDef(const char* n, AttrKind k, std::monostate absent)
      : name(n), kind(k), default_value(absent) {}
};
inline constexpr std::monostate none;

// A list of axes or sizes as a parameter: {0, 1}, a single number, a Shape, or absent.
class IntList {
 public:
  IntList() = default;  // absent
  IntList(std::initializer_list<int64_t> list)
      : is_given_(true), values_(list) {}  // NOLINT(google-explicit-constructor)
  IntList(int64_t value)
      : is_given_(true), values_{value} {}  // NOLINT(google-explicit-constructor)
  IntList(std::vector<int64_t> list)
      : is_given_(true), values_(std::move(list)) {}  // NOLINT(google-explicit-constructor)
  IntList(const Shape& shape)
      : is_given_(true), values_(shape.to_vector()) {}  // NOLINT(google-explicit-constructor)

  bool is_given() const { return is_given_; }
  const std::vector<int64_t>& values() const { return values_; }
  AttrValue attr() const { return is_given_ ? AttrValue(values_) : AttrValue(); }

 private:
  bool is_given_ = false;
  std::vector<int64_t> values_;
};

namespace internal {

// A parameter of a generated function as an attribute.
inline AttrValue to_attr(const IntList& v) { return v.attr(); }
template <class T>
AttrValue to_attr(const std::optional<T>& v) {
  return v ? AttrValue(*v) : AttrValue();
}
template <class T>
AttrValue to_attr(const T& v) {
  return v;
}

struct AttrBlock : RefCounted {
  std::span<const AttrDef> defs;
  std::vector<AttrValue> values;
  uint64_t hash = 0;
  uint32_t dispatch_id = 0;  // small number of an interned set; 0: not interned
};

}  // namespace internal

// A value; copying is O(1). thread-safe to read.
class Attrs {
 public:
  Attrs() = default;
  // Values in the order of `defs`, already of the right kinds.
  Attrs(std::span<const AttrDef> defs, std::vector<AttrValue> values);

  // Access by name. A rule asks for names of its own record: anything else is kInternal.
  const AttrValue& value(std::string_view name) const;
  bool has(std::string_view name) const { return value(name).index() != 0; }
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  DType dtype(std::string_view name) const;
  const std::vector<int64_t>& ints(std::string_view name) const;
  const std::vector<double>& reals(std::string_view name) const;
  const std::string& text(std::string_view name) const;

  std::span<const AttrDef> defs() const;
  std::span<const AttrValue> values() const;
  uint64_t hash() const { return block_ ? block_->hash : 0; }
  uint32_t dispatch_id() const { return block_ ? block_->dispatch_id : 0; }
  // "axis=[0], keepdims=true": what differs from the defaults.
  std::string to_string() const;
  friend bool operator==(const Attrs& a, const Attrs& b);

 private:
  friend class Op;
  internal::RefPtr<internal::AttrBlock> block_;
};

}  // namespace etude
