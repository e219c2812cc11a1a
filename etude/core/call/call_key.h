// SPDX-License-Identifier: Apache-2.0
// The key of a call in caches: the op, the id of its attribute set, and the types of its operands.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "etude/core/op/attrs.h"
#include "etude/core/op/op.h"
#include "etude/core/type.h"

namespace etude::internal {

// Compares exactly. Holds up to `kMost` operands.
template <std::size_t kMost>
struct CallKey {
  const Op* op = nullptr;  // null: no call
  uint32_t attrs = 0;
  uint32_t size = 0;
  std::array<const Type*, kMost> types{};

  static bool can_hold(std::size_t operands, uint32_t attr_id) noexcept {
    return operands <= kMost && attr_id != Attrs::kUncached;
  }
  bool holds(const Op& of, uint32_t attr_id, const Type* const* given,
             std::size_t n) const noexcept {
    if (op != &of || attrs != attr_id || size != n) return false;
    for (std::size_t i = 0; i < n; ++i) {
      if (types[i] != given[i]) return false;
    }
    return true;
  }
  void set(const Op& of, uint32_t attr_id, const Type* const* given, std::size_t n) noexcept {
    op = &of;
    attrs = attr_id;
    size = static_cast<uint32_t>(n);
    for (std::size_t i = 0; i < n; ++i) types[i] = given[i];
  }
};

// The hash for a ThreadTable, which uses the highest bits.
inline uint64_t call_hash(const Op& op, uint32_t attrs, const Type* const* types, std::size_t size,
                          uint64_t more = 0) noexcept {
  uint64_t h = op.index() * 0x9E3779B97F4A7C15ull + (attrs ^ more) * 0xC2B2AE3D27D4EB4Full;
  for (std::size_t i = 0; i < size; ++i) {
    h = (h ^ (types[i] == nullptr ? 0 : types[i]->id())) * 0x9E3779B97F4A7C15ull;
  }
  return h;
}

}  // namespace etude::internal
