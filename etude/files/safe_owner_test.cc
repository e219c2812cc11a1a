// SPDX-License-Identifier: Apache-2.0
#include "etude/files/safe_owner.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/temp_folder.h"

namespace etude::internal {
namespace {

namespace fs = std::filesystem;

struct stat facts_of(uid_t owner, gid_t group, mode_t mode) {
  struct stat out {};
  out.st_uid = owner;
  out.st_gid = group;
  out.st_mode = mode;
  return out;
}

TEST(SafeOwner, OnlyUsersWhoControlTheProcessMayWrite) {
  const uid_t me = geteuid(), other = me + 1000, third = me + 2000;
  EXPECT_EQ(why_unsafe(facts_of(me, 7777, S_IFREG | 0755), me), "");
  EXPECT_EQ(why_unsafe(facts_of(other, 7777, S_IFREG | 0755), other), "");
  EXPECT_EQ(why_unsafe(facts_of(third, 7777, S_IFREG | 0755), other),
            "it belongs to user " + std::to_string(third));
  EXPECT_EQ(why_unsafe(facts_of(me, 7777, S_IFREG | 0757), me), "all users may write to it");
  EXPECT_EQ(why_unsafe(facts_of(me, 7777, S_IFREG | 0775), me), "group 7777 may write to it");
  EXPECT_EQ(why_unsafe(facts_of(me, me, S_IFREG | 0775), me), "");  // a private group
}

TEST(SafeOwner, AProgramAndItsFoldersMustBeSafe) {
  const TempFolder temp;  // below /tmp, in which all may write and remove their own files only
  const fs::path bin = temp.path() / "bin", program = bin / "helper", library = bin / "library";
  fs::create_directory(bin);
  std::ofstream(program) << "x";
  std::ofstream(library) << "x";
  EXPECT_EQ(why_unsafe_program(bin / "none", library), "it cannot be looked at");
  EXPECT_EQ(why_unsafe_program(bin, library), "it is no program");
  ASSERT_EQ(chmod(program.c_str(), 0644), 0);
  EXPECT_EQ(why_unsafe_program(program, library), "it is no program");
  ASSERT_EQ(chmod(program.c_str(), 0755), 0);
  EXPECT_EQ(why_unsafe_program(program, library), "");
  ASSERT_EQ(chmod(program.c_str(), 0777), 0);
  EXPECT_EQ(why_unsafe_program(program, library), "all users may write to it");
  ASSERT_EQ(chmod(program.c_str(), 0755), 0);
  ASSERT_EQ(chmod(bin.c_str(), 0777), 0);
  EXPECT_EQ(why_unsafe_program(program, library),
            "'" + fs::canonical(bin).string() + "': all users may write to it");
  ASSERT_EQ(chmod(bin.c_str(), 01777), 0);
  EXPECT_EQ(why_unsafe_program(program, library), "");
  // A link is followed to the program.
  fs::create_symlink(program, temp.path() / "link");
  EXPECT_EQ(why_unsafe_program(temp.path() / "link", library), "");
  if (geteuid() != 0) return;  // only root can give files away
  ASSERT_EQ(chown(program.c_str(), 1234, 1234), 0);
  EXPECT_EQ(why_unsafe_program(program, library), "it belongs to user 1234");
  ASSERT_EQ(chown(library.c_str(), 1234, 1234), 0);  // whose library this process runs
  EXPECT_EQ(why_unsafe_program(program, library), "");
}

}  // namespace
}  // namespace etude::internal
