// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/call_estimates.h"

namespace etude::kernels::cpu {

bool estimate_call(const Prepared& call, CallTime& time) {
  return estimate_product(call, time) || estimate_convolution(call, time) ||
         estimate_attention(call, time) || estimate_matrices(call, time);
}

}  // namespace etude::kernels::cpu
