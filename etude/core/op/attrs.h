// SPDX-License-Identifier: Apache-2.0
// The attributes of a call: an immutable list of values in the order of the op's definitions, with
// generated equality, hash and printing. A value that depends on data is an operand, not an
// attribute.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "etude/base/internal/ref_ptr.h"
#include "etude/core/op/attr_view.h"
#include "etude/version.h"

namespace ETUDE_API etude {

std::string to_string(const AttrValue& value);  // exact: exact_text.h

// One attribute of an op record.
//   {"transpose_x", false}             optional, with its default
//   {"axis", AttrKind::kInts, none}    optional, absent by default
//   {"shape", AttrKind::kInts}         required: a positional parameter of the C++ function
struct AttrDef {
  std::string_view name;
  AttrKind kind;
  bool required = false;
  bool is_first = false;  // the function takes it before its operands: full(shape, value)
  AttrValue default_value;

  // Defined in attrs.cc: constructing an AttrValue inline would cost more compile time than the
  // rest of this file.
  AttrDef(const char* n, bool v);
  AttrDef(const char* n, int v);
  AttrDef(const char* n, double v);
  AttrDef(const char* n, DType v);
  AttrDef(const char* n, const char* v);
  AttrDef(const char* n, std::vector<int64_t> v);
  AttrDef(const char* n, AttrKind k, bool first = false);
  AttrDef(const char* n, AttrKind k, std::monostate absent);
};
inline constexpr std::monostate none;

namespace internal {

// The head of a set of attributes. The values follow it in attrs.cc, so that programs that only
// call ops do not compile their destructor.
struct AttrBlock : RefCounted {
  std::span<const AttrDef> defs;
  uint64_t hash = 0;
  uint32_t dispatch_id = ~uint32_t{0};  // Attrs::dispatch_id()
};

}  // namespace internal

// A value; copying is O(1). threads: thread-safe to read.
class Attrs {
 public:
  Attrs() noexcept = default;
  Attrs(const Attrs& other) noexcept : block_(other.block_) {
    if (is_counted()) block_->retain();
  }
  Attrs(Attrs&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Attrs& operator=(Attrs other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Attrs() {
    if (is_counted()) block_->release();
  }
  // Values in the order of `defs`, already of the right kinds.
  Attrs(std::span<const AttrDef> defs, std::vector<AttrValue> values);

  // Access by name. A rule reads attributes of its own record only. throws: kInternal for another
  // name.
  const AttrValue& value(std::string_view name) const;
  bool has(std::string_view name) const { return value(name).index() != 0; }
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  DType dtype(std::string_view name) const;
  const std::vector<int64_t>& ints(std::string_view name) const;
  const std::vector<double>& reals(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const AttrObject& object(std::string_view name) const;
  std::span<const internal::RefPtr<const AttrObject>> objects(std::string_view name) const;
  const HostObject& host(std::string_view name) const;
  // The first value that exists only in this process; null: none.
  const HostObject* find_host() const noexcept;

  std::span<const AttrDef> defs() const;
  std::span<const AttrValue> values() const;
  uint64_t hash() const { return block_ != nullptr ? block_->hash : 0; }
  // The cache id of the set. 0: the defaults of the op. Below kFirstOwn: the set is permanent, and
  // all threads share it. From kFirstOwn on: the set is in the cache of one thread. Ids are unique
  // and never reused. kUncached: do not cache calls with this set.
  static constexpr uint32_t kFirstOwn = uint32_t{1} << 16, kUncached = ~uint32_t{0};
  uint32_t dispatch_id() const noexcept { return block_ != nullptr ? block_->dispatch_id : 0; }
  // "axis=[0], keepdims=true": the values that differ from the defaults.
  std::string to_string() const;
  bool operator==(const Attrs& other) const;

 private:
  friend class Op;
  // Permanent sets are not reference-counted.
  bool is_counted() const noexcept { return block_ != nullptr && block_->dispatch_id >= kFirstOwn; }

  internal::AttrBlock* block_ = nullptr;
};

}  // namespace etude
