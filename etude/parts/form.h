// SPDX-License-Identifier: Apache-2.0
// Form: the nesting and the names of Parts (parts.h), without their values. Forms are interned:
// equal forms are one object, and are compared by address. Used by parts.h and by code that builds
// structures, such as conversions and readers of files.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "etude/base/internal/function_ref.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// The kinds of leaves. kState and kNewState: layer state and its update (diff/layer_state.h).
enum class LeafKind : uint8_t { kTensor, kVariable, kState, kNewState, kHost };

// One leaf of a Form.
struct FormLeaf {
  std::string path = {};  // component names joined by '/', as in for_each_leaf; "" for a lone leaf
  LeafKind kind = LeafKind::kTensor;
  bool is_marked = false;  // NoDerivative
  bool is_frozen = false;  // its tangent is zero, and move() leaves it unchanged
  uint32_t slot = 0;       // position among the tensors of Parts, or among the other leaves
  int32_t tangent = -1;    // position among the leaves of the tangent; -1: no tangent
};

// Immutable; never destroyed. threads: thread-safe.
class Form {
 public:
  enum class Kind : uint8_t {
    kLeaf,
    kNothing,   // only in the form of a tangent: a part that has no tangent
    kFields,    // a struct: named, in order
    kList,      // named "0", "1", ...
    kMap,       // named, sorted
    kOptional,  // one part or none; adds no component to paths
    kVariant,   // one part; names()[0] is the index of the alternative; adds no component
  };

  static const Form* leaf(LeafKind kind, bool is_marked = false, bool is_frozen = false);
  // The form of a structure with these parts. Pass no names for lists and optionals.
  // throws: kInvalidArgument for a name that is empty or repeated.
  static const Form* of(Kind kind, std::vector<std::string> names, std::vector<const Form*> parts);

  Kind kind() const noexcept { return kind_; }
  const std::vector<std::string>& names() const noexcept { return names_; }
  const std::vector<const Form*>& parts() const noexcept { return parts_; }
  // All leaves, in order.
  const std::vector<FormLeaf>& leaves() const noexcept { return leaves_; }
  uint32_t tensors() const noexcept { return tensors_; }
  uint32_t others() const noexcept { return others_; }
  // The path component of part i; "" if it adds none.
  std::string component(std::size_t i) const;

  // The form of a tangent of this form. The nesting is the same. A part without a tangent becomes
  // kNothing. A Variable becomes a tensor, and layer state becomes kNewState. If this is already
  // the form of a tangent, returns it unchanged.
  const Form* tangent() const;
  // The same form, with the flags of leaves changed. `change` receives each leaf with its path, and
  // returns whether it changed the leaf.
  const Form* with(internal::FunctionRef<bool(FormLeaf&)> change) const;
  // The form of the part at a path; null if there is no such part.
  const Form* find(std::string_view path) const;

  // "{weight: tensor, bias: tensor, rate: host}", "[tensor, tensor]", "{'a': tensor}", "absent".
  std::string to_string() const;

  Form(const Form&) = delete;
  Form& operator=(const Form&) = delete;

 private:
  friend struct FormTable;
  Form(Kind kind, FormLeaf leaf, std::vector<std::string> names, std::vector<const Form*> parts);
  const Form* with(const std::string& path, internal::FunctionRef<bool(FormLeaf&)> change) const;
  const Form* make_tangent() const;

  Kind kind_;
  std::vector<std::string> names_;
  std::vector<const Form*> parts_;
  std::vector<FormLeaf> leaves_;
  uint32_t tensors_ = 0, others_ = 0;
  mutable std::atomic<const Form*> tangent_{nullptr};
};

namespace internal {

// Matches the leaves of two forms of tangents. Returns for each leaf of `value` the index of the
// same leaf of `given`. The index is -1 if `given` lacks the key of a map or the value of an
// optional.
//
// throws: kInvalidArgument, with the path, if nesting, names or lengths differ otherwise.
std::vector<int32_t> align_tangents(const Form& value, const Form& given);

}  // namespace internal
}  // namespace etude
