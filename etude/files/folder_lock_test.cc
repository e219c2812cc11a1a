// SPDX-License-Identifier: Apache-2.0
#include "etude/files/folder_lock.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude::internal {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using tests::expect_error;

TEST(FolderLock, NamesTheHolder) {
  const TempFolder temp;
  const std::string holder = "process " + std::to_string(getpid()) + " on ";
  {
    const FolderLock lock(temp.path(), FolderLock::kRun);
    const FolderLock save(temp.path());  // another lock
    expect_error([&] { FolderLock(temp.path(), FolderLock::kRun, milliseconds(0)); },
                 ErrorCode::kFailedPrecondition,
                 {holder, "saves a run into the folder '" + temp.path().string() + "'",
                  "Take another folder, or end that process"});
    expect_error([&] { FolderLock(temp.path(), FolderLock::kSave, milliseconds(30)); },
                 ErrorCode::kUnavailable,
                 {holder, "has been saving into the folder '" + temp.path().string() + "' for"});
  }
  const FolderLock again(temp.path(), FolderLock::kRun, milliseconds(0));
  EXPECT_EQ(std::distance(fs::directory_iterator(temp.path()), fs::directory_iterator()), 1);
}

TEST(FolderLock, LeavesNothingBehind) {
  const TempFolder temp;
  { const FolderLock lock(temp.path()); }
  EXPECT_TRUE(fs::is_empty(temp.path()));
  expect_error([&] { FolderLock(temp.path() / "none"); }, ErrorCode::kNotFound,
               {"there is no folder '" + (temp.path() / "none").string() + "' to save into"});
}

TEST(FolderLock, ExcludesThreads) {
  const TempFolder temp;
  std::atomic<int> inside = 0, both = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const FolderLock lock(temp.path());
        if (++inside > 1) ++both;
        std::this_thread::yield();
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(both, 0);
  EXPECT_TRUE(fs::is_empty(temp.path()));
}

// The lock of a process ends with it, however it ends.
TEST(FolderLock, AKilledHolderLeavesNoLock) {
  const TempFolder temp;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto lock = std::make_unique<FolderLock>(temp.path(), FolderLock::kRun);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  expect_error([&] { FolderLock(temp.path(), FolderLock::kRun, milliseconds(0)); },
               ErrorCode::kFailedPrecondition, {"process " + std::to_string(child) + " on "});
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  { const FolderLock lock(temp.path(), FolderLock::kRun, milliseconds(0)); }
  EXPECT_TRUE(fs::is_empty(temp.path()));  // also the file that it left
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace etude::internal
