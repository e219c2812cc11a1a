// SPDX-License-Identifier: Apache-2.0
#include "etude/files/file_reader.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude::internal {
namespace {

namespace fs = std::filesystem;
using tests::expect_error;

class FileReaderTest : public ::testing::Test {
 protected:
  fs::path put(const std::string& text) const {
    std::ofstream(temp_.path() / "file", std::ios::binary) << text;
    return temp_.path() / "file";
  }
  const TempFolder temp_;
};

TEST_F(FileReaderTest, ReadsAtAnyOffset) {
  const fs::path path = put("0123456789");
  const FileReader file(path);
  EXPECT_EQ(file.size(), 10u);
  std::vector<uint8_t> part(3);
  file.read(4, part);
  EXPECT_EQ(std::string(part.begin(), part.end()), "456");
  EXPECT_EQ(FileBytes(path).text(), "0123456789");
  // Sources in memory and in a file have the same bytes.
  const FileBytes bytes(path);
  for (const ByteSource& source : {ByteSource(bytes.bytes()), ByteSource(file)}) {
    EXPECT_EQ(source.size(), 10u);
    std::vector<uint8_t> room;
    const auto view = source.view(7, 3, room);
    EXPECT_EQ(std::string(view.begin(), view.end()), "789");
    source.read(0, part);
    EXPECT_EQ(std::string(part.begin(), part.end()), "012");
  }
  EXPECT_EQ(FileBytes(put("")).text(), "");
}

// A mapped file would end the process here.
TEST_F(FileReaderTest, AFileThatIsCutOffWhileItIsReadIsAnError) {
  const fs::path path = put(std::string(100'000, 'x'));
  const FileReader file(path);
  fs::resize_file(path, 5000);
  std::vector<uint8_t> all(100'000);
  expect_error(
      [&] { file.read(0, all); }, ErrorCode::kDataLoss,
      {path.string() + ": offset 5000: the file ends here, but it had 100000 bytes when it "
                       "was opened: it was cut off while it was read"});
}

TEST_F(FileReaderTest, ANewFileInItsPlaceDoesNotChangeIt) {
  const fs::path path = put("old");
  const FileReader file(path);
  std::ofstream(temp_.path() / "new") << "newer";
  fs::rename(temp_.path() / "new", path);
  std::vector<uint8_t> all(file.size());
  file.read(0, all);
  EXPECT_EQ(std::string(all.begin(), all.end()), "old");
}

TEST_F(FileReaderTest, OtherThingsThanFilesAreRefusedAtOnce) {
  expect_error([&] { FileReader file(temp_.path() / "none"); }, ErrorCode::kNotFound,
               {"none: cannot be read: No such file or directory"});
  expect_error([&] { FileReader file(temp_.path()); }, ErrorCode::kInvalidArgument,
               {"is not a regular file"});
  const fs::path pipe = temp_.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
  expect_error([&] { FileReader file(pipe); }, ErrorCode::kInvalidArgument,
               {pipe.string() + " is not a regular file"});
  expect_error([&] { FileReader file("/dev/null"); }, ErrorCode::kInvalidArgument,
               {"/dev/null is not a regular file"});
}

}  // namespace
}  // namespace etude::internal
