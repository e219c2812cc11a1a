// SPDX-License-Identifier: Apache-2.0
#include "etude/device/cpu/host.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>

#include <sched.h>
#include <sys/sysinfo.h>
#include <unistd.h>

// The functions of the OpenMP runtime itself: <omp.h> is not installed for every compiler. Null in
// a program without a runtime.
extern "C" {
[[gnu::weak]] int omp_get_num_places(void);
[[gnu::weak]] int omp_get_place_num_procs(int place);
[[gnu::weak]] void omp_get_place_proc_ids(int place, int* cpus);
}

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

// The CPUs of the main thread: the affinity of the process, unless a library changed it.
std::vector<int> cpus_of_main_thread() {
  std::vector<int> cpus;
  for (int most = CPU_SETSIZE; most <= 1 << 16; most *= 4) {  // machines with more than 1024 CPUs
    const auto free = [](cpu_set_t* set) { CPU_FREE(set); };
    const std::unique_ptr<cpu_set_t, decltype(free)> set(CPU_ALLOC(most), free);
    const size_t bytes = CPU_ALLOC_SIZE(most);
    const bool known = set != nullptr && sched_getaffinity(getpid(), bytes, set.get()) == 0;
    for (int cpu = 0; known && cpu < most; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(cpu);
    }
    if (known) break;
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

// The CPUs of the process, if an OpenMP runtime bound the main thread to some of them; else those
// of the main thread. Under OMP_PROC_BIND a runtime notes the CPUs of the process as "places" when
// it is loaded, and then binds the main thread to one place.
std::vector<int> without_binding(const std::vector<int>& main) {
  if (omp_get_num_places == nullptr || omp_get_place_num_procs == nullptr ||
      omp_get_place_proc_ids == nullptr) {
    return main;
  }
  std::vector<int> all;
  bool is_bound = false;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> cpus(static_cast<std::size_t>(std::max(omp_get_place_num_procs(place), 0)));
    if (!cpus.empty()) omp_get_place_proc_ids(place, cpus.data());
    std::ranges::sort(cpus);
    is_bound = is_bound || cpus == main;
    all.insert(all.end(), cpus.begin(), cpus.end());
  }
  if (!is_bound) return main;
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

}  // namespace

std::vector<int> allowed_cpus() { return without_binding(cpus_of_main_thread()); }

int usable_cpus() {
  const int cpus = static_cast<int>(allowed_cpus().size()), quota = cpu_quota();
  return quota > 0 ? std::min(cpus, quota) : cpus;
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
    int64_t quota = 0;
    try {
      quota = memory_quota();
    } catch (const std::exception&) {
      // No memory to read the files of the group. The allocator must not throw for that.
    }
    return quota > 0 ? std::min(total, quota) : total;
  }();
  return bytes;
}

}  // namespace etude::internal
