// SPDX-License-Identifier: Apache-2.0
// Common parts of records of draws whose shape is an attribute and whose operand 0 holds keys [k..,
// 2] for its first axes. For random.cc and attention.cc.
#pragma once

#include "etude/core/op/batching.h"
#include "etude/core/op/op.h"

namespace etude::ops {

// Keys of examples are keys for one more axis of the draws, the first.
inline Values draw_batch(const BatchCall& call) {
  return batching::call_again(call, {call.in[0]},
                              {{"shape", batching::behind(call.size, call.attrs.ints("shape"))}});
}

}  // namespace etude::ops
