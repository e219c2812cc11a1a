// SPDX-License-Identifier: Apache-2.0
// What the host grants this process: CPUs and memory, by affinity mask and control groups. Used by
// the thread pool and the allocator. Not what the machine has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace etude::internal {

// The CPUs that this process may run on, ascending; never empty.
std::vector<int> allowed_cpus();
// CPUs granted by the control group's quota (version 1 or 2, the smallest of all levels), rounded
// up; 0: no quota. `root` stands in front of /proc and /sys, for tests.
int cpu_quota(const std::string& root = "");
// Bytes of memory granted by the control group; 0: no limit.
int64_t memory_quota(const std::string& root = "");
// Memory and swap that this process can ever hold. thread-safe. cost: a load after the first call.
int64_t host_memory_bytes();

}  // namespace etude::internal
