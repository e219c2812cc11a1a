// SPDX-License-Identifier: Apache-2.0
// Compiled programs on disk: files that are found again, and files that are ignored.
#include "etude/codegen/object_cache.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/temp_folder.h"

namespace etude::codegen {
namespace {

namespace fs = std::filesystem;

class Cached : public ::testing::Test {
 protected:
  ~Cached() override { fs::permissions(folder_, fs::perms::owner_all); }
  // The only file of the folder.
  fs::path file() const { return fs::directory_iterator(folder_)->path(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  const internal::TempFolder own_;
  const std::string folder_ = own_.path().string();
};

std::string text_of(const fs::path& path) {
  std::stringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

TEST_F(Cached, WhatIsStoredIsFound) {
  const ObjectCache cache(folder_ + "/new/folder");
  const std::string key("a\0key", 5), object(100000, '\7');
  EXPECT_FALSE(cache.find(key).has_value());
  EXPECT_TRUE(cache.store(key, object));
  EXPECT_EQ(cache.find(key), object);
  EXPECT_TRUE(cache.store(key, "another"));
  EXPECT_EQ(cache.find(key), "another");
  EXPECT_FALSE(cache.find("a").has_value());
  EXPECT_EQ(ObjectCache(folder_ + "/new/folder").find(key), "another");
  EXPECT_FALSE(ObjectCache("").store(key, object));
  EXPECT_FALSE(ObjectCache("").find(key).has_value());
}

TEST_F(Cached, DamagedFilesAreLeftAside) {
  const ObjectCache cache(folder_);
  ASSERT_TRUE(cache.store("key", "object"));
  const std::string whole = text_of(file());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string torn = whole.substr(0, i);
    std::ofstream(file(), std::ios::binary) << torn;
    EXPECT_FALSE(cache.find("key").has_value()) << i;
    torn = whole;
    torn[i] = static_cast<char>(torn[i] ^ 16);
    std::ofstream(file(), std::ios::binary) << torn;
    EXPECT_FALSE(cache.find("key").has_value()) << i;
  }
  std::ofstream(file(), std::ios::binary) << whole << "more";
  EXPECT_FALSE(cache.find("key").has_value());
  ASSERT_TRUE(cache.store("key", "object"));
  EXPECT_EQ(cache.find("key"), "object");
}

TEST_F(Cached, FilesOfOtherKeysAreLeftAside) {
  const ObjectCache cache(folder_);
  ASSERT_TRUE(cache.store("one", "object"));
  const std::string other = text_of(file());
  const fs::path path = file();
  fs::remove(path);
  ASSERT_TRUE(cache.store("two", "object"));
  std::ofstream(file(), std::ios::binary) << other;  // as if two keys had one hash
  EXPECT_FALSE(cache.find("two").has_value());
}

TEST_F(Cached, WhatOthersMayWriteToIsLeftAside) {
  const ObjectCache cache(folder_);
  ASSERT_TRUE(cache.store("key", "object"));
  ASSERT_EQ(chmod(file().c_str(), 0666), 0);
  EXPECT_FALSE(cache.find("key").has_value());
  ASSERT_EQ(chmod(file().c_str(), 0600), 0);
  EXPECT_TRUE(cache.find("key").has_value());
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  EXPECT_FALSE(cache.find("key").has_value());
  EXPECT_FALSE(cache.store("key", "object"));
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  const fs::path link = file();
  const fs::path target = folder_ + "/elsewhere";
  fs::rename(link, target);
  fs::create_symlink(target, link);
  EXPECT_FALSE(cache.find("key").has_value());
}

TEST_F(Cached, FoldersThatCannotBeWrittenAreNone) {
  EXPECT_FALSE(ObjectCache("/proc/none/such").store("key", "object"));
  EXPECT_FALSE(ObjectCache("/dev/null").store("key", "object"));
  EXPECT_FALSE(ObjectCache("/dev/null").find("key").has_value());
}

// A limit on the size of files fails as a full disk does.
TEST_F(Cached, AFullDiskLeavesNothingBehind) {
  const ObjectCache cache(folder_);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(3);
    const bool is_stored = cache.store("key", std::string(100000, 'x'));
    _exit(is_stored ? 1 : cache.find("key").has_value() ? 2 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(files(), 0u);
}

TEST_F(Cached, WritersAtOnceLeaveWholeFiles) {
  const ObjectCache cache(folder_);
  const std::string a(50000, 'a'), b(60000, 'b');
  std::vector<std::thread> threads;
  for (const std::string* object : {&a, &b, &a, &b}) {
    threads.emplace_back([&, object] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_TRUE(cache.store("key", *object));
        const auto found = cache.find("key");
        EXPECT_TRUE(found == a || found == b);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(files(), 1u);
}

// The folder may have older files of the user, which stay.
TEST_F(Cached, HoldsABoundedNumberOfFiles) {
  const ObjectCache cache(folder_);
  const std::vector<std::string> others = {"notes.txt", "main.o", std::string(32, 'a') + ".o",
                                           std::string(32, 'b') + ".txt", ".etude-notes.tmp"};
  for (const std::string& name : others) {
    std::ofstream(folder_ + "/" + name) << "a file of the user, of any length";
    fs::last_write_time(folder_ + "/" + name,
                        fs::file_time_type::clock::now() - std::chrono::hours(9000));
  }
  fs::create_directory(folder_ + "/" + std::string(32, 'c') + ".o");
  for (int i = 0; i < 2300; ++i) ASSERT_TRUE(cache.store("key" + std::to_string(i), "object"));
  EXPECT_LE(files(), 2048u + 64 + others.size() + 1);
  EXPECT_TRUE(cache.find("key2299").has_value());
  EXPECT_FALSE(cache.find("key0").has_value());
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder_ + "/" + name)) << name;
  EXPECT_TRUE(fs::is_directory(folder_ + "/" + std::string(32, 'c') + ".o"));
}

}  // namespace
}  // namespace etude::codegen
