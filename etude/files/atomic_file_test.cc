// SPDX-License-Identifier: Apache-2.0
#include "etude/files/atomic_file.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etude/base/error.h"
#include "tests/temp_folder.h"

namespace etude::internal {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class AtomicFileTest : public testing::Test {
 protected:
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  void put(const fs::path& path, std::string_view text) const {
    AtomicFile file(path);
    file.write(text);
    file.commit();
  }

  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

template <class Fn>
void expect_error(ErrorCode code, const std::string& fragment, Fn fn) {
  try {
    fn();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos) << error.what();
  }
}

TEST_F(AtomicFileTest, AppearsOnCommitOnly) {
  const fs::path path = folder_ / "weights";
  {
    AtomicFile file(path);
    file.write("one ");
    file.write("two");
    EXPECT_EQ(file.size_bytes(), 7u);
    EXPECT_FALSE(fs::exists(path));
    file.commit();
    EXPECT_EQ(content(path), "one two");
  }
  EXPECT_EQ(content(path), "one two");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFileTest, ANameMayFollowFromTheContent) {
  put(folder_ / "of 3", "old");
  AtomicFile file(folder_ / "new");
  file.write("abc");
  file.commit_as(fmt::format("of {}", file.size_bytes()));
  EXPECT_EQ(content(folder_ / "of 3"), "abc");
  EXPECT_EQ(files(), 1u);
  expect_error(ErrorCode::kFailedPrecondition, "of 3' takes no more data: it was committed",
               [&] { file.commit_as("other"); });

  fs::create_directory(folder_ / "taken");
  AtomicFile refused(folder_ / "new");
  expect_error(ErrorCode::kFailedPrecondition, "taken': it is a folder",
               [&] { refused.commit_as("taken"); });
}

TEST_F(AtomicFileTest, LeavesNothingWithoutCommit) {
  const fs::path path = folder_ / "weights";
  put(path, "old");
  {
    AtomicFile file(path);
    file.write("new");
  }
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFileTest, AnOpenOlderFileStaysWhole) {
  const fs::path path = folder_ / "weights";
  put(path, "old");
  std::ifstream old(path);
  put(path, "new and longer");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(old), {}), "old");
}

TEST_F(AtomicFileTest, KeepsPermissions) {
  const fs::path path = folder_ / "weights";
  put(path, "old");
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  put(path, "new");
  EXPECT_EQ(fs::status(path).permissions(), static_cast<fs::perms>(0640));
}

TEST_F(AtomicFileTest, APrivateFileIsForItsUserAlone) {
  const fs::path path = folder_ / "code";
  put(path, "old");
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  AtomicFile file(path, {.is_private = true, .is_durable = false});
  file.write("new");
  file.commit();
  EXPECT_EQ(content(path), "new");
  EXPECT_EQ(fs::status(path).permissions(), static_cast<fs::perms>(0600));
}

TEST_F(AtomicFileTest, ReplacesASymbolicLink) {
  put(folder_ / "target", "target");
  fs::create_symlink("target", folder_ / "link");
  put(folder_ / "link", "new");
  EXPECT_EQ(content(folder_ / "target"), "target");
  EXPECT_FALSE(fs::is_symlink(folder_ / "link"));
}

TEST_F(AtomicFileTest, ErrorsNamePathAndReason) {
  const fs::path missing = folder_ / "missing" / "weights";
  expect_error(ErrorCode::kNotFound, "'" + missing.string() + "': No such file or directory",
               [&] { AtomicFile file(missing); });
  fs::create_directory(folder_ / "sub");
  expect_error(ErrorCode::kFailedPrecondition, "it is a folder, which a file must not replace",
               [&] { put(folder_ / "sub", "x"); });
  expect_error(ErrorCode::kFailedPrecondition, "Is a directory", [&] { put("", "x"); });
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFileTest, TakesNothingAfterCommit) {
  AtomicFile file(folder_ / "weights");
  file.commit();
  expect_error(ErrorCode::kFailedPrecondition, "it was committed", [&] { file.write("x"); });
  expect_error(ErrorCode::kFailedPrecondition, "it was committed", [&] { file.commit(); });
}

TEST_F(AtomicFileTest, AKilledWriterLeavesTheOldOrTheNewFile) {
  const fs::path path = folder_ / "weights";
  const std::string old_text(10000, 'o'), part(3000, 'n');
  const int parts = 5;
  std::string new_text;
  for (int i = 0; i < parts; ++i) new_text += part;
  const int rename_call = parts + 3, last_call = parts + 4;  // writes, fsync, close, rename, fsync
  for (int n = 1; n <= last_call + 1; ++n) {
    put(path, old_text);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      setenv("ETUDE_TEST_KILL_AT_WRITE", std::to_string(n).c_str(), 1);
      AtomicFile file(path);
      for (int i = 0; i < parts; ++i) file.write(part);
      file.commit();
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), n <= last_call ? 137 : 0) << n;
    EXPECT_EQ(content(path), n <= rename_call ? old_text : new_text) << n;
  }
}

// Whatever call fails, the old file stays or the new one is there, and the next write works.
TEST_F(AtomicFileTest, AFailedWriterLeavesTheOldOrTheNewFile) {
  const fs::path path = folder_ / "weights";
  const int rename_call = 4, last_call = 5;  // write, fsync, close, rename, fsync of the folder
  for (int n = 1; n <= last_call + 1; ++n) {
    put(path, "old");
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      setenv("ETUDE_TEST_FAIL_AT_WRITE", std::to_string(n).c_str(), 1);
      bool is_refused = false;
      try {
        put(path, "new");
      } catch (const Error& error) {
        is_refused = error.code() == ErrorCode::kDataLoss &&
                     std::string(error.what()).find(folder_.string()) != std::string::npos;
      }
      const bool is_right = is_refused == (n <= last_call) && files() == 1 &&
                            content(path) == (n <= rename_call ? "old" : "new");
      unsetenv("ETUDE_TEST_FAIL_AT_WRITE");
      put(path, "again");
      _exit(is_right && content(path) == "again" ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << n;
  }
}

TEST_F(AtomicFileTest, ReplacesRegularFilesOnly) {
  const auto refuses = [&](const fs::path& path, const std::string& what) {
    expect_error(ErrorCode::kFailedPrecondition,
                 "cannot save to '" + path.string() + "': it is " + what +
                     ", which a file must not replace. Give the path of a file",
                 [&] { put(path, "x"); });
  };
  const fs::path pipe = folder_ / "pipe", link = folder_ / "link";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
  refuses(pipe, "a pipe");
  EXPECT_TRUE(fs::is_fifo(pipe));
  fs::create_symlink("/dev/null", link);
  refuses(link, "a link to a device");
  EXPECT_TRUE(fs::is_symlink(link));
  fs::remove(link);
  fs::create_symlink(folder_, link);
  refuses(link, "a link to a folder");
  refuses("/dev/null", "a device");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(files(), 2u);
  fs::remove(link);
  fs::create_symlink("nowhere", link);
  put(link, "x");  // a link to nothing is replaced
  EXPECT_FALSE(fs::is_symlink(link));
  // It may come while the file is written.
  AtomicFile file(folder_ / "later");
  ASSERT_EQ(mkfifo((folder_ / "later").c_str(), 0666), 0);
  expect_error(ErrorCode::kFailedPrecondition, "it is a pipe", [&] { file.commit(); });
  EXPECT_TRUE(fs::is_fifo(folder_ / "later"));
}

TEST_F(AtomicFileTest, LeftoversOfKilledProcessesAreRemoved) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    AtomicFile file(folder_ / "weights");
    file.write("half");
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(files(), 1u);
  const fs::path left = fs::directory_iterator(folder_)->path();
  AtomicFile open_file(folder_ / "mine");  // the first of this process in the folder
  EXPECT_FALSE(fs::exists(left));
  // Files of processes that still write, and files of others, stay.
  std::ofstream(folder_ / ".etude-notes.tmp") << "x";
  std::ofstream(folder_ / ".etude-12-a.tmp") << "x";
  std::ofstream(folder_ / ".etude-12-3.tmp") << "x";
  remove_leftovers(folder_);
  EXPECT_TRUE(fs::exists(folder_ / ".etude-notes.tmp"));
  EXPECT_TRUE(fs::exists(folder_ / ".etude-12-a.tmp"));
  EXPECT_FALSE(fs::exists(folder_ / ".etude-12-3.tmp"));
  open_file.write("x");
  open_file.commit();
  EXPECT_EQ(content(folder_ / "mine"), "x");
}

TEST_F(AtomicFileTest, AFolderThatCannotBeReadIsNotAnEmptyOne) {
  put(folder_ / "a", "x");
  EXPECT_EQ(paths_in(folder_), std::vector<fs::path>{folder_ / "a"});
  EXPECT_TRUE(paths_in(folder_ / "none").empty());
  EXPECT_TRUE(paths_in(folder_ / "a").empty());
  expect_error(ErrorCode::kFailedPrecondition, "cannot read the folder '",
               [&] { paths_in(folder_ / std::string(300, 'n')); });
}

}  // namespace
}  // namespace etude::internal
