// SPDX-License-Identifier: Apache-2.0
#include "etude/device/cpu/host.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace etude::internal {
namespace {

// A folder with made-up /proc and /sys files.
class FakeRoot {
 public:
  FakeRoot() : folder_(std::filesystem::path(testing::TempDir()) / "etude_host_test") {
    std::filesystem::remove_all(folder_);
  }
  ~FakeRoot() { std::filesystem::remove_all(folder_); }

  FakeRoot& with(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return *this;
  }
  std::string path() const { return folder_.string(); }

 private:
  std::filesystem::path folder_;
};

TEST(Host, VersionTwoTakesTheSmallestOfAllLevels) {
  FakeRoot root;
  root.with("proc/self/cgroup", "0::/a/b\n")
      .with("sys/fs/cgroup/a/cpu.max", "150000 100000\n")
      .with("sys/fs/cgroup/a/b/cpu.max", "400000 100000\n")
      .with("sys/fs/cgroup/a/memory.max", "max\n")
      .with("sys/fs/cgroup/a/b/memory.max", "1073741824\n");
  EXPECT_EQ(cpu_quota(root.path()), 2);
  EXPECT_EQ(memory_quota(root.path()), 1 << 30);
}

TEST(Host, VersionTwoInsideAContainer) {
  FakeRoot root;  // the name is the host's, the files lie at the mount point
  root.with("proc/self/cgroup", "0::/docker/123\n")
      .with("sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(cpu_quota(root.path()), 3);
}

TEST(Host, VersionOne) {
  FakeRoot root;
  root.with("proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n1:cpuset:/\n")
      .with("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "250000\n")
      .with("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n")
      .with("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
      .with("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
      .with("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2147483648\n")
      .with("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(cpu_quota(root.path()), 3);
  EXPECT_EQ(memory_quota(root.path()), int64_t{1} << 31);
}

TEST(Host, NoQuotaAndNoFiles) {
  FakeRoot root;
  EXPECT_EQ(cpu_quota(root.path()), 0);
  EXPECT_EQ(memory_quota(root.path()), 0);
  root.with("proc/self/cgroup", "0::/\n").with("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota(root.path()), 0);
}

TEST(Host, ThisOne) {
  EXPECT_GE(allowed_cpus().size(), 1u);
  EXPECT_GT(host_memory_bytes(), 1 << 20);
}

}  // namespace
}  // namespace etude::internal
