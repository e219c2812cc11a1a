// SPDX-License-Identifier: Apache-2.0
// The processors and threads of a process under OMP_PROC_BIND, taskset, limits of threads, and the
// quotas of a control group.
// Each case is a child process: this test program again, with another environment.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etude/base/error.h"
#include "etude/base/sanitizers.h"
#include "etude/base/warning.h"
#include "etude/device/cpu/host.h"
#include "etude/device/cpu/parallel.h"
#include "etude/device/cpu/threads.h"
#include "etude/etude.h"

namespace etude {
namespace {

int cpus_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  return CPU_COUNT(&set);
}

// The part that a child runs. It prints facts about its processors.
TEST(Processors, DISABLED_Child) {
  std::printf("main %d allowed %zu workers %d\n", cpus_of_this_thread(),
              internal::allowed_cpus().size(), worker_count());
  int in_thread = 0;
  internal::start_thread("a test", [&] { in_thread = cpus_of_this_thread(); }).join();
  std::printf("thread %d\n", in_thread);
  // Both threads of a loop have a processor of their own.
  if (internal::usable_cpus() >= 2) {
    set_thread_count(2);
    std::atomic<int> arrived{0}, where[2] = {-1, -1};
    std::atomic<bool> apart{false};  // at some time; another process may push both to one processor
    parallel_for(2, 1000, [&](int64_t i) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
      while (std::chrono::steady_clock::now() < end) {
        const int here = where[i] = sched_getcpu();
        const int there = where[1 - i];
        if (there >= 0 && there != here) apart = true;
      }
    });
    std::printf("apart %d\n", apart ? 1 : 0);
  }
  std::printf("product %g\n", matmul(ones({2, 2}), ones({2, 2})).to_vector<float>()[0]);
}

struct Ended {
  int status = 0;
  std::string text;
};

// Runs test `name` of this program in a process of its own, after `prepare` in that process.
template <class F>
Ended run_child(const std::string& name, const F& prepare) {
  int ends[2];
  if (pipe(ends) != 0) return {-1, "no pipe"};
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    prepare();
    const std::string filter = "--gtest_filter=" + name;
    execl("/proc/self/exe", "processors_test", filter.c_str(), "--gtest_also_run_disabled_tests",
          static_cast<char*>(nullptr));
    _exit(99);
  }
  close(ends[1]);
  Ended out;
  char part[4096];
  for (ssize_t n; (n = read(ends[0], part, sizeof(part))) > 0;) {
    out.text.append(part, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  waitpid(child, &out.status, 0);
  return out;
}

void use_one_cpu() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(internal::allowed_cpus().front(), &one);
  sched_setaffinity(0, sizeof(one), &one);
}

TEST(Processors, ABindingOfTheMainThreadIsNotThatOfTheProcess) {
  const std::size_t cpus = internal::allowed_cpus().size();
  if (cpus < 2) GTEST_SKIP() << "one processor";
  for (const char* wish : {"true", "close", "spread"}) {
    const Ended child = run_child("Processors.DISABLED_Child", [&] {
      setenv("OMP_PROC_BIND", wish, 1);
      unsetenv("ETUDE_THREADS");
    });
    const std::string expected =
        "main 1 allowed " + std::to_string(cpus) + " workers " + std::to_string(cpus);
    EXPECT_NE(child.text.find(expected), std::string::npos) << child.text;
    EXPECT_NE(child.text.find("thread " + std::to_string(cpus)), std::string::npos) << child.text;
    EXPECT_NE(child.text.find("apart 1"), std::string::npos) << child.text;
  }
}

TEST(Processors, TheMaskOfTheProcessCounts) {
  for (const char* bind : {"", "true"}) {
    const Ended child = run_child("Processors.DISABLED_Child", [&] {
      use_one_cpu();  // as taskset does
      if (*bind != '\0') setenv("OMP_PROC_BIND", bind, 1);
      unsetenv("ETUDE_THREADS");
    });
    EXPECT_NE(child.text.find("main 1 allowed 1 workers 1"), std::string::npos) << child.text;
  }
}

TEST(Processors, MoreThreadsThanProcessorsAreAWarning) {
  const Ended child = run_child("Processors.DISABLED_Child", [&] {
    use_one_cpu();
    setenv("ETUDE_THREADS", "3", 1);
  });
  EXPECT_NE(child.text.find("workers 3"), std::string::npos) << child.text;
  EXPECT_NE(child.text.find("3 threads were requested by ETUDE_THREADS, but this process may use 1 "
                            "processor, by its affinity mask"),
            std::string::npos)
      << child.text;
  EXPECT_NE(child.text.find("Request at most 1, or give the process more processors"),
            std::string::npos)
      << child.text;
}

TEST(Processors, ARequestBeyondTheProcessorsWarnsOnce) {
  std::string text;
  int warnings = 0;
  internal::forget_warnings();
  const WarningHandler before = set_warning_handler([&](std::string_view message) {
    text = message;
    ++warnings;
  });
  const int usable = internal::usable_cpus();
  set_thread_count(usable);
  EXPECT_EQ(warnings, 0);
  set_thread_count(usable + 1);
  set_thread_count(usable + 1);
  set_warning_handler(before);
  set_thread_count(0);
  EXPECT_EQ(warnings, 1);
  EXPECT_NE(text.find("threads were requested by set_thread_count(), but this process may use"),
            std::string::npos)
      << text;
}

// A child that may start `further` threads and no more. The superuser has no such limit, so the
// limit is for address space, which the stacks of threads use up.
void limit_threads(int further) {
  constexpr rlim_t kStack = rlim_t{8} << 20;
  long pages = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  const auto now = static_cast<rlim_t>(pages) * 4096;
  const rlimit limit{now + static_cast<rlim_t>(further) * (kStack + (rlim_t{1} << 20)) + kStack / 2,
                     RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &limit);
}

TEST(Processors, DISABLED_FewThreads) {
  limit_threads(2);
  set_thread_count(8);
  int64_t sum = 0;
  std::atomic<int64_t> parts{0};
  parallel_for(100, 1000, [&](int64_t i) { parts += i; });
  sum = parts;
  std::printf("sum %ld\n", static_cast<long>(sum));
}

// A loop on eight threads, then a thread of its own.
void loop_and_start() {
  set_thread_count(8);
  std::atomic<int64_t> parts{0};
  parallel_for(100, 1000, [&](int64_t i) { parts += i; });
  std::printf("sum %ld\n", static_cast<long>(parts));
  try {
    internal::start_thread("a test", [] {}).join();
    std::printf("a thread\n");
  } catch (const Error& error) {
    std::printf("%s: %s\n", std::string(to_string(error.code())).c_str(), error.what());
  }
}

TEST(Processors, DISABLED_NoThreads) {
  limit_threads(0);
  loop_and_start();
}

TEST(Processors, FewerThreadsThanWishedAreFewerThreads) {
  if constexpr (internal::kHasAddressSanitizer || internal::kHasThreadSanitizer) {
    GTEST_SKIP() << "sanitizers map more memory than the limit of the child";
  }
  for (const std::string name : {"FewThreads", "NoThreads"}) {
    const Ended child = run_child("Processors.DISABLED_" + name, [] {});
    EXPECT_TRUE(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0) << child.text;
    EXPECT_NE(child.text.find("sum 4950"), std::string::npos) << child.text;
    EXPECT_NE(child.text.find("of 8 threads: the process gets no further thread"),
              std::string::npos)
        << child.text;
    if (name == "FewThreads") continue;
    EXPECT_NE(child.text.find("loops run on 1 of 8 threads"), std::string::npos) << child.text;
    EXPECT_NE(child.text.find("resource exhausted: no thread could be started for a test"),
              std::string::npos)
        << child.text;
  }
}

// A control group of this test, if the test may make one. Children enter it.
class ControlGroup {
 public:
  // `setting` is a file that the group has.
  ControlGroup(const std::string& controller, const std::string& setting) {
    for (const std::string& root :
         {"/sys/fs/cgroup/" + controller, std::string("/sys/fs/cgroup")}) {
      if (!std::filesystem::exists(root + "/cgroup.procs")) continue;
      path_ = root + "/etude_test_" + std::to_string(getpid());
      std::error_code refused;
      if (!std::filesystem::create_directory(path_, refused)) break;
      is_ready_ = std::filesystem::exists(path_ + "/" + setting);
      break;
    }
  }
  ControlGroup(const ControlGroup&) = delete;
  ~ControlGroup() {
    if (!path_.empty()) rmdir(path_.c_str());
  }
  bool is_ready() const { return is_ready_; }
  bool set(const std::string& name, const std::string& text) const {
    std::ofstream file(path_ + "/" + name);
    file << text;
    file.close();
    return static_cast<bool>(file);
  }
  void enter() const { static_cast<void>(set("cgroup.procs", std::to_string(getpid()))); }

 private:
  std::string path_;
  bool is_ready_ = false;
};

TEST(Processors, TheQuotaOfTheControlGroupCounts) {
  const ControlGroup old_form("cpu", "cpu.cfs_quota_us"), new_form("cpu", "cpu.max");
  const ControlGroup& group = old_form.is_ready() ? old_form : new_form;
  if (!group.is_ready()) GTEST_SKIP() << "no control group can be made here";
  ASSERT_TRUE(group.set(old_form.is_ready() ? "cpu.cfs_quota_us" : "cpu.max", "100000"));
  const Ended child = run_child("Processors.DISABLED_Child", [&] {
    group.enter();
    unsetenv("ETUDE_THREADS");
  });
  EXPECT_NE(child.text.find("workers 1\n"), std::string::npos) << child.text;
  const Ended wishes = run_child("Processors.DISABLED_Child", [&] {
    group.enter();
    setenv("ETUDE_THREADS", "3", 1);
  });
  EXPECT_NE(wishes.text.find("workers 3\n"), std::string::npos) << wishes.text;
  EXPECT_NE(wishes.text.find("but this process may use 1 processor, by the quota of its control "
                             "group"),
            std::string::npos)
      << wishes.text;
}

TEST(Processors, DISABLED_ManyThreads) { loop_and_start(); }

// As in a container with a limit of processes, which holds for the superuser as well.
TEST(Processors, AControlGroupMayLimitThreads) {
  const ControlGroup group("pids", "pids.max");
  if (!group.is_ready()) GTEST_SKIP() << "no control group can be made here";
  for (const int most : {1, 3}) {
    ASSERT_TRUE(group.set("pids.max", std::to_string(most)));
    const Ended child = run_child("Processors.DISABLED_ManyThreads", [&] { group.enter(); });
    EXPECT_TRUE(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0) << child.text;
    EXPECT_NE(child.text.find("sum 4950"), std::string::npos) << child.text;
    EXPECT_NE(child.text.find("loops run on " + std::to_string(most) + " of 8 threads"),
              std::string::npos)
        << child.text;
    EXPECT_NE(child.text.find("resource exhausted: no thread could be started for a test"),
              std::string::npos)
        << child.text;
  }
}

}  // namespace
}  // namespace etude
