// SPDX-License-Identifier: Apache-2.0
// Estimates of the time of prepared calls, for plans (plan/call_time.h). Each kernel that makes
// more than a few passes over its elements has a function that estimates its time from its prepared
// parameters.
#pragma once

#include "etude/plan/call_time.h"

namespace etude::kernels::cpu {

using etude::internal::CallTime;

// Adds the time of this call on one thread. Returns false for a kernel without an estimate.
bool estimate_call(const Prepared& call, CallTime& time);

// The speed of products and convolutions on one thread. Kernels use a lower estimate to split their
// work.
inline constexpr double kFlopsPerUsAlone = 100e3;

// Adds work that a kernel splits over threads if it takes long and has several chunks.
inline void add_flops(CallTime& time, double flops, double flops_per_us, double chunks) {
  constexpr double kSplitUs = 40;  // a chunk, by the kernels' own estimate
  const bool splits = chunks > 1 && flops / 50e3 > kSplitUs;
  (splits ? time.split : time.alone) += flops / flops_per_us;
}

// Defined in the files of the kernels.
bool estimate_product(const Prepared& call, CallTime& time);
bool estimate_convolution(const Prepared& call, CallTime& time);
bool estimate_attention(const Prepared& call, CallTime& time);
bool estimate_matrices(const Prepared& call, CallTime& time);

}  // namespace etude::kernels::cpu
