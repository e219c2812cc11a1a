// SPDX-License-Identifier: Apache-2.0
// The mapping of an operand to a broadcast result: merged axes, and expansion of ranges of the
// result into a dense buffer. Used by element-wise kernels and by op records.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

struct BroadcastPlan {
  WordOf<bool> is_dense = true;  // same shape: no expansion
  WordOf<int> rank = 0;
  std::array<int64_t, kMaxRank> sizes{};    // merged axes of the result, outermost first
  std::array<int64_t, kMaxRank> strides{};  // of the operand, in elements; 0 on broadcast axes
  int64_t period = 0;  // the operand repeats after this many result elements; 0: never
};
static_assert(std::has_unique_object_representations_v<BroadcastPlan>);  // see KernelParams

// shapes: `from` broadcasts to `to`; all sizes are known.
BroadcastPlan plan_broadcast(const Shape& from, const Shape& to);

// Writes elements [begin, begin + n) of the result, of `bytes` each, into `out`.
void expand(const BroadcastPlan& plan, void* out, const void* in, int64_t bytes, int64_t begin,
            int64_t n);
// Writes the whole result of `count` elements. Uses several threads beyond about 100 KB.
void expand_all(const BroadcastPlan& plan, void* out, const void* in, int64_t bytes, int64_t count);
// Writes `count` copies of one element.
void fill(void* out, const void* element, int64_t bytes, int64_t count);

// The result is operand 0 repeated to its shape; a view if nothing is repeated.
void prepare_broadcast(const PrepareCall& call);
// Fills the result with the one element of operand 0.
void prepare_fill(const PrepareCall& call);

}  // namespace etude::kernels::cpu
