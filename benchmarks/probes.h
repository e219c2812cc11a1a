// SPDX-License-Identifier: Apache-2.0
// The peak rates of one thread of this machine, for comparison with the figures of workloads.
#pragma once

namespace etude::bench {

// Fused multiply-adds of float32 in registers, two operations each. cost: 30 ms.
double probe_gflops();
// Copies of 64 MiB, bytes read and bytes written, in 10^9 a second. cost: 0.2 s.
double probe_copy_gb();

}  // namespace etude::bench
