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
  std::string path = {};  // component names joined by '/', as in for_each_leaf; "" of a lone leaf
  LeafKind kind = LeafKind::kTensor;
  bool is_marked = false;  // NoDerivative
  bool is_frozen = false;  // gradients and move() leave it unchanged
  uint32_t slot = 0;       // its position among the tensors, or among the other leaves, of Parts
  int32_t tangent = -1;    // its position among the leaves of the tangent; -1: it has none
};

// Immutable; kept as long as the process. threads: thread-safe.
class Form {
 public:
  enum class Kind : uint8_t {
    kLeaf,
    kNothing,   // the place of a part without a tangent, in the form of a tangent
    kFields,    // a struct: named, in order
    kList,      // named "0", "1", ...
    kMap,       // named, sorted
    kOptional,  // one part or none; adds no component to paths
    kVariant,   // one part; names()[0] is the index of the alternative; adds no component
  };

  static const Form* leaf(LeafKind kind, bool is_marked = false, bool is_frozen = false);
  // The form with these parts. Lists and optionals have no names.
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

  // The form of the tangents. It has the same nesting, with kNothing for parts that cannot move,
  // tensors for Variables, and kNewState for layer state. The tangent of the form of a tangent is
  // that form itself.
  const Form* tangent() const;
  // The same form with changed flags of its leaves. `change` receives each leaf with its path, and
  // returns false if it does not change the leaf.
  const Form* with(internal::FunctionRef<bool(FormLeaf&)> change) const;
  // The form of the part at a path. null: there is none.
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

// `value` and `given` are forms of tangents. Returns, for each leaf of `value`, the index of the
// leaf of `given` that is added to it, or -1 for a key of a map, or an optional, that `given`
// lacks.
//
// throws: kInvalidArgument, with the path, for another nesting, other names or lengths.
std::vector<int32_t> align_tangents(const Form& value, const Form& given);

}  // namespace internal
}  // namespace etude
