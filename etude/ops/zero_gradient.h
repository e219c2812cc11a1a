// SPDX-License-Identifier: Apache-2.0
// The reverse rule of ops whose gradient exists and is zero, in contrast to `no_derivative`.
#pragma once

#include "etude/core/call/builtin.h"
#include "etude/core/op/op.h"

namespace etude::ops {

inline Values zero_gradient(const VjpCall& call) {
  Values out(call.in.size());
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (call.wants(i) && is_differentiable(call.in[i].dtype())) {
      out[i] = internal::full(call.in[i].type(), 0);
    }
  }
  return out;
}

}  // namespace etude::ops
