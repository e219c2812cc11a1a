// SPDX-License-Identifier: Apache-2.0
// Common parts of records of draws whose shape is an attribute and whose operand 0 holds keys [k..,
// 2] for its first axes. For random.cc and attention.cc.
#pragma once

#include "etude/core/op/batching.h"
#include "etude/core/op/op.h"

namespace etude::ops {

// In a batch, the keys of the examples are keys for an additional first axis of the draws.
inline Values draw_batch(const BatchCall& call) {
  return batching::call_again(call, {call.in[0]},
                              {{"shape", batching::behind(call.size, call.attrs.ints("shape"))}});
}

}  // namespace etude::ops
