// SPDX-License-Identifier: Apache-2.0
// Borrowed attribute values. This header has the minimum that the generated functions of
// etude/ops.h need. Sets of attributes are in attrs.h.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/base/internal/ref_ptr.h"
#include "etude/core/dtype.h"
#include "etude/core/shape.h"
#include "etude/version.h"

namespace ETUDE_API etude {

struct ScalarDef;

// An attribute value that is an object: a graph (graph/graph.h). Immutable and reference-counted.
// Two objects with equal contents are the same value for all comparisons of attributes.
class AttrObject : public internal::RefCounted {
 public:
  virtual uint64_t hash() const noexcept = 0;
  virtual bool same(const AttrObject& other) const noexcept = 0;
  // A short text for this object in a printed call.
  virtual std::string to_string() const = 0;
};

// An attribute value that exists only in this process, such as a callable of a program. It equals
// only itself. Code that saves graphs refuses it, with its text and the user's line in the error.
class HostObject : public AttrObject {
 public:
  uint64_t hash() const noexcept final { return reinterpret_cast<uintptr_t>(this) >> 4; }
  bool same(const AttrObject& other) const noexcept final { return this == &other; }
};

enum class AttrKind : uint8_t {
  kNone,
  kFlag,
  kInt,
  kReal,
  kDType,
  kInts,
  kText,
  kReals,
  kProgram,
  kGraph,
  kGraphs,
  kHost,
};
constexpr bool holds_graphs(AttrKind kind) noexcept {
  return kind == AttrKind::kGraph || kind == AttrKind::kGraphs;
}
// Whether values of this kind own objects. Caches do not keep such values alive after their last
// user.
constexpr bool holds_objects(AttrKind kind) noexcept {
  return holds_graphs(kind) || kind == AttrKind::kHost;
}

// kNone means "not given" if an attribute may be absent.
using AttrValue =
    std::variant<std::monostate, bool, int64_t, double, DType, std::vector<int64_t>, std::string,
                 std::vector<double>, const ScalarDef*, internal::RefPtr<const AttrObject>,
                 std::vector<internal::RefPtr<const AttrObject>>,
                 internal::RefPtr<const HostObject>>;

// A list of axes or sizes as a parameter: {0, 1}, a single number, a Shape, or absent.
class IntList {
 public:
  IntList() = default;  // absent
  IntList(std::initializer_list<int64_t> list) : is_given_(true), values_(list) {}
  // Integers only: a real number would be truncated silently, as in full(2.5, {3}).
  template <std::integral T>
  requires(!std::same_as<T, bool>) IntList(T value)
      : is_given_(true), values_{static_cast<int64_t>(value)} {}
  IntList(std::vector<int64_t> list) : is_given_(true), values_(std::move(list)) {}
  IntList(const Shape& shape) : is_given_(true), values_(shape.to_vector()) {}

  bool is_given() const { return is_given_; }
  const std::vector<int64_t>& values() const { return values_; }
  friend bool operator==(const IntList&, const IntList&) = default;

 private:
  bool is_given_ = false;
  std::vector<int64_t> values_;
};

// A borrowed attribute value, valid for one call. Looking up a known set of attributes copies
// nothing.
class AttrView {
 public:
  AttrView() noexcept : integer_(0) {}
  AttrView(std::monostate) noexcept : AttrView() {}
  // A template, so that programs that only call ops do not compile the variant.
  template <std::same_as<AttrValue> T>
  AttrView(const T& value) noexcept : AttrView(of(value)) {}
  AttrView(const IntList& list) noexcept : AttrView() {
    if (list.is_given()) *this = AttrView(list.values());
  }
  template <class T>
  AttrView(const std::optional<T>& v) noexcept : AttrView() {
    if (v) *this = AttrView(*v);
  }
  template <std::same_as<bool> T>
  AttrView(T v) noexcept : kind_(AttrKind::kFlag), integer_(v) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) AttrView(T v)
  noexcept : kind_(AttrKind::kInt), integer_(static_cast<int64_t>(v)) {}
  AttrView(double v) noexcept : kind_(AttrKind::kReal), real_(v) {}
  AttrView(DType v) noexcept : kind_(AttrKind::kDType), integer_(static_cast<int64_t>(v)) {}
  AttrView(const std::vector<int64_t>& v) noexcept
      : kind_(AttrKind::kInts), size_(v.size()), data_(v.data()) {}
  AttrView(std::string_view v) noexcept
      : kind_(AttrKind::kText), size_(v.size()), data_(v.data()) {}
  AttrView(const std::string& v) noexcept : AttrView(std::string_view(v)) {}
  AttrView(const char* v) noexcept : AttrView(std::string_view(v)) {}
  AttrView(const std::vector<double>& v) noexcept
      : kind_(AttrKind::kReals), size_(v.size()), data_(v.data()) {}
  AttrView(const ScalarDef* v) noexcept : kind_(AttrKind::kProgram), data_(v) {}
  AttrView(const AttrObject* v) noexcept : kind_(AttrKind::kGraph), data_(v) {}
  AttrView(const HostObject* v) noexcept : kind_(AttrKind::kHost), data_(v) {}
  AttrView(const internal::RefPtr<const HostObject>& v) noexcept : AttrView(v.get()) {}
  AttrView(const internal::RefPtr<const AttrObject>& v) noexcept : AttrView(v.get()) {}
  AttrView(const std::vector<internal::RefPtr<const AttrObject>>& v) noexcept
      : kind_(AttrKind::kGraphs), size_(v.size()), data_(v.data()) {}

  // A copy of the value. cost: the elements of a list.
  AttrValue own() const;
  uint64_t hash() const noexcept;
  // Whether both have the same kind and the same bits: -0.0 and 0.0 differ, and a NaN equals
  // itself.
  bool is(const AttrValue& value) const noexcept;

 private:
  static AttrView of(const AttrValue& value) noexcept;
  std::span<const internal::RefPtr<const AttrObject>> graphs() const noexcept {
    return {static_cast<const internal::RefPtr<const AttrObject>*>(data_), size_};
  }

  AttrKind kind_ = AttrKind::kNone;
  std::size_t size_ = 0;
  union {
    int64_t integer_;  // also flags and dtypes
    double real_;
    const void* data_;  // elements of lists and texts; a program; an object
  };
};

}  // namespace etude
