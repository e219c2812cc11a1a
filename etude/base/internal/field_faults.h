// SPDX-License-Identifier: Apache-2.0
// The reasons why the fields of a type cannot be read, with remedies, as compiler messages. Used by
// field_count.h and fields.h, and by traversals that explain more about a type.
#pragma once

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Reasons why the fields of a type cannot be read.
enum class FieldsFault { kNone, kClass, kBase, kArray, kTooMany, kImmovable, kReference };

// Reports why the fields of a T cannot be read. A class, so that the message appears once for each
// T.
template <class T, FieldsFault fault>
struct FieldsNotVisible {
  static constexpr bool is_plain_struct = fault != FieldsFault::kClass;
  static_assert(is_plain_struct,
                "etude: the fields of a class with constructors, private members or virtual "
                "functions are not visible; list them with ETUDE_FIELDS(Class, a, b) in its body");
  static constexpr bool has_no_base = fault != FieldsFault::kBase;
  static_assert(has_no_base,
                "etude: the fields of a struct with a base class are not visible; list them with "
                "ETUDE_FIELDS(Class, a, b) in its body");
  static constexpr bool is_counted = fault != FieldsFault::kArray;
  static_assert(is_counted,
                "etude: a field of this struct is a C array with more than 64 elements, beside "
                "fields that braces do not make; use std::array");
  static constexpr bool has_at_most_64 = fault != FieldsFault::kTooMany;
  static_assert(has_at_most_64,
                "etude: a struct may have at most 64 fields; group them into nested structs");
  static constexpr bool can_be_moved = fault != FieldsFault::kImmovable;
  static_assert(can_be_moved,
                "etude: a field of this struct can be neither copied nor moved; list the "
                "other fields with ETUDE_FIELDS(Class, a, b) in its body");
  static constexpr bool holds_values = fault != FieldsFault::kReference;
  static_assert(holds_values,
                "etude: a field of this struct is a reference; hold a value or a pointer");
};

}  // namespace internal
}  // namespace etude
