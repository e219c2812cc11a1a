// SPDX-License-Identifier: Apache-2.0
// The dispatch cache: kernels made ready per (op, attributes, operand types), one table per thread.
// Used by the eager context. Not a cache of results.
#pragma once

#include <array>
#include <cstdint>

#include "etude/core/op.h"

namespace etude::internal {

inline constexpr std::size_t kDispatchOperands = 6;  // calls with more are prepared every time

// One slot. The key is exact: everything that the prepared kernel depends on is compared.
struct DispatchEntry {
  const Op* op = nullptr;
  uint32_t attrs = 0;
  uint32_t size = 0;
  std::array<const Type*, kDispatchOperands> types{};
  KernelFn run = nullptr;
  const void* params = nullptr;
  const Type* result = nullptr;  // of a single result
  uint64_t in_place = 0;
  RefPtr<Prepared> prepared;

  bool holds(const Op& of, uint32_t attr_id, const Type* const* given,
             std::size_t n) const noexcept {
    if (op != &of || attrs != attr_id || size != n) return false;
    for (std::size_t i = 0; i < n; ++i) {
      if (types[i] != given[i]) return false;
    }
    return true;
  }
};

inline constexpr std::size_t kDispatchSlots = 4096;

// The table of this thread. cost: made at the first call.
DispatchEntry* dispatch_table();

inline std::size_t dispatch_slot(const Op& op, uint32_t attrs, const Type* const* types,
                                 std::size_t size) noexcept {
  uint64_t h = op.index() * 0x9E3779B97F4A7C15ull + attrs * 0xC2B2AE3D27D4EB4Full;
  for (std::size_t i = 0; i < size; ++i) {
    h = (h ^ (types[i] == nullptr ? 0 : types[i]->id())) * 0x9E3779B97F4A7C15ull;
  }
  return static_cast<std::size_t>(h >> 52);
}
static_assert(kDispatchSlots == 1 << 12);

// The entry of a call, prepared if it was not there; `scratch` serves calls that are not cached.
// throws: what the type rule and the kernel's preparation throw.
const DispatchEntry& dispatch(const Op& op, const Attrs& attrs, const Type* const* types,
                              std::size_t size, DispatchEntry& scratch);

}  // namespace etude::internal
