// SPDX-License-Identifier: Apache-2.0
// The dispatch cache: prepared kernels per (op, attributes, operand types), one table per thread.
// Used by the eager context. Not a cache of results.
#pragma once

#include <cstdint>

#include "etude/base/thread_table.h"
#include "etude/core/call/call_key.h"

namespace etude::internal {

inline constexpr std::size_t kDispatchOperands = 6;  // calls with more are never cached

// The key is everything that the prepared kernel depends on. It fills one cache line; the data to
// run the call fill another. The size is a power of two, so that a shift finds an entry.
struct alignas(64) DispatchEntry : CallKey<kDispatchOperands> {
  KernelFn run = nullptr;
  KernelState state;
  const Type* result = nullptr;  // of a single result
  uint64_t in_place = 0;
  RefPtr<Prepared> prepared;

  static void table_was_made();  // by a thread's first call; defined in etude/startup.cc
};

static_assert(sizeof(DispatchEntry) == 128);

using DispatchTable = ThreadTable<DispatchEntry, 2048>;

// The entry at the place of this call's key, which may belong to another call.
inline DispatchEntry& latest_entry(const Op& op, uint32_t attrs, const Type* const* types,
                                   std::size_t size) {
  return DispatchTable::latest(call_hash(op, attrs, types, size));
}

// The entry of a call, prepared if missing; `scratch` serves calls that are not cached. throws: the
// errors of the type rule and of the kernel's preparation.
const DispatchEntry& dispatch(const Op& op, const Attrs& attrs, const Type* const* types,
                              std::size_t size, DispatchEntry& scratch);

// Prepares a call to run on the device of its operands. throws: the errors of the type rule and of
// the kernel's preparation; kUnimplemented, naming the device, if the op has no kernel for it.
RefPtr<Prepared> prepare(const Op& op, const Attrs& attrs, std::span<const Type* const> types);
// The message of a call that a Cancellation refuses.
inline constexpr std::string_view kCancelledText =
    "did not run: the Cancellation of a CancelScope around it was cancelled";
// Whether the kernel only enqueues its work, so that it needs a note of the op and the user's line
// (core/internal/late_calls.h).
inline bool is_queued(const Prepared& call) noexcept { return call.state.stream.handle != nullptr; }
// report_fault() for a thrown error: for kernels that run plans.
bool report_error(const Error& error);
// Throws the fault that a failed kernel reported. Call it only after a failure.
[[noreturn]] void throw_fault();
// The same for a call of `op`. The error of an internal op names the public op that it works for
// (OpDef::works_for).
[[noreturn, gnu::cold]] void throw_fault(const Op& op, const Attrs& attrs);

}  // namespace etude::internal
