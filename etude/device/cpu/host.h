// SPDX-License-Identifier: Apache-2.0
// The CPUs and memory available to this process, by affinity mask and control groups. Used by the
// thread pool and the allocator. They may be less than the machine has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace etude::internal {

// The CPUs that this process may use, ascending; never empty. An OpenMP runtime that bound the main
// thread to some of them (OMP_PROC_BIND) changes nothing: the process still has the others.
std::vector<int> allowed_cpus();
// The number of CPUs that this process can keep busy: by affinity and by the quota of its group.
int usable_cpus();
// The CPU quota of the control group (version 1 or 2, the smallest of all levels), rounded up; 0:
// no quota. `root` is a prefix of /proc and /sys, for tests.
int cpu_quota(const std::string& root = "");
// The memory limit of the control group in bytes; 0: no limit.
int64_t memory_quota(const std::string& root = "");
// The maximum of memory plus swap that this process can hold. threads: thread-safe. cost: a load
// after the first call.
int64_t host_memory_bytes();

}  // namespace etude::internal
