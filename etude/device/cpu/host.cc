// SPDX-License-Identifier: Apache-2.0
#include "etude/device/cpu/host.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string_view>

#include <sched.h>
#include <sys/sysinfo.h>
#include <unistd.h>

namespace etude::internal {
namespace {

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

// The folders of this process's group for `controller` and of the enclosing groups. Inside a
// container the name in /proc may not exist under /sys, but then the folder at the mount point is
// our own.
std::vector<std::string> group_folders(const std::string& root, std::string_view controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  std::vector<std::string> folders;
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    std::string base = root + "/sys/fs/cgroup";
    if (!names.empty()) {
      const std::string list = "," + names + ",", wanted = "," + std::string(controller) + ",";
      if (list.find(wanted) == std::string::npos) continue;
      base += "/" + std::string(controller);
    }
    for (std::string path = line.substr(second + 1);; path.erase(path.rfind('/'))) {
      folders.push_back(base + path);
      if (path.find('/') == std::string::npos) break;
    }
  }
  return folders;
}

// The smallest value that `read` finds in the folders; 0 if it finds none.
template <class T>
T smallest(const std::vector<std::string>& folders,
           const std::function<std::optional<T>(const std::string&)>& read) {
  T best = 0;
  for (const std::string& folder : folders) {
    const std::optional<T> found = read(folder);
    if (found && *found > 0) best = best == 0 ? *found : std::min(best, *found);
  }
  return best;
}

std::optional<int64_t> read_number(const std::string& path) {
  const std::optional<std::string> line = first_line(path);
  int64_t value = 0;
  if (!line || !(std::istringstream(*line) >> value)) return std::nullopt;
  return value;
}

}  // namespace

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  for (int most = CPU_SETSIZE; most <= 1 << 16; most *= 4) {  // machines with more than 1024 CPUs
    cpu_set_t* set = CPU_ALLOC(most);
    const size_t bytes = CPU_ALLOC_SIZE(most);
    const bool known = set != nullptr && sched_getaffinity(getpid(), bytes, set) == 0;
    for (int cpu = 0; known && cpu < most; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (known) break;
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

int cpu_quota(const std::string& root) {
  const double cpus = smallest<double>(
      group_folders(root, "cpu"), [](const std::string& folder) -> std::optional<double> {
        int64_t quota = 0, period = 0;
        if (const auto line = first_line(folder + "/cpu.max")) {
          if (!(std::istringstream(*line) >> quota >> period)) return std::nullopt;  // "max 100000"
        } else {
          quota = read_number(folder + "/cpu.cfs_quota_us").value_or(-1);
          period = read_number(folder + "/cpu.cfs_period_us").value_or(0);
        }
        if (quota <= 0 || period <= 0) return std::nullopt;
        return static_cast<double>(quota) / static_cast<double>(period);
      });
  const int whole = static_cast<int>(cpus);
  return whole < cpus ? whole + 1 : whole;
}

int64_t memory_quota(const std::string& root) {
  const int64_t bytes = smallest<int64_t>(
      group_folders(root, "memory"), [](const std::string& folder) -> std::optional<int64_t> {
        const std::optional<int64_t> limit = read_number(folder + "/memory.max");
        return limit ? limit : read_number(folder + "/memory.limit_in_bytes");
      });
  return bytes < (int64_t{1} << 60) ? bytes : 0;  // version 1 spells "none" as a huge number
}

int64_t host_memory_bytes() {
  static const int64_t bytes = [] {
    struct sysinfo info = {};
    if (sysinfo(&info) != 0) return int64_t{1} << 44;
    const auto total = static_cast<int64_t>((info.totalram + info.totalswap) * info.mem_unit);
    const int64_t quota = memory_quota();
    return quota > 0 ? std::min(total, quota) : total;
  }();
  return bytes;
}

}  // namespace etude::internal
