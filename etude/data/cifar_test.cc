// SPDX-License-Identifier: Apache-2.0
#include "etude/data/cifar.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/expect_error.h"

namespace etude::data {
namespace {

using Bytes = std::vector<uint8_t>;

// A record whose byte i of colour c is 50 c + i % 50.
Bytes record(uint8_t label) {
  Bytes bytes = {label};
  for (int colour = 0; colour < 3; ++colour) {
    for (int i = 0; i < 1024; ++i) bytes.push_back(static_cast<uint8_t>(50 * colour + i % 50));
  }
  return bytes;
}
Bytes records(std::initializer_list<uint8_t> labels) {
  Bytes all;
  for (const uint8_t label : labels) {
    const Bytes one = record(label);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

class Folder {
 public:
  Folder() { std::filesystem::create_directories(path_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  void write(const std::string& name, const Bytes& bytes) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("etude_cifar_" + std::to_string(getpid()));
};

// spec: EX1
TEST(Cifar, PlanesBecomePixels) {
  const Samples found = parse_cifar10(records({3, 9}), "x.bin");
  EXPECT_EQ(found.inputs.shape(), (Shape{2, 32, 32, 3}));
  EXPECT_EQ(found.labels.to_vector<int32_t>(), (std::vector<int32_t>{3, 9}));
  const std::vector<float> values = found.inputs.to_vector<float>();
  for (const std::size_t i : {0U, 1U, 33U, 1023U}) {
    for (const std::size_t colour : {0U, 1U, 2U}) {
      const std::size_t at = 3 * (1024 + i) + colour;  // of the second image
      EXPECT_EQ(values[at], static_cast<float>(50 * colour + i % 50) / 255.0F) << at;
    }
  }
}

TEST(Cifar, TheFilesOfTheSetAreJoined) {
  const Folder folder;
  for (uint8_t k = 1; k <= 5; ++k)
    folder.write("data_batch_" + std::to_string(k) + ".bin", records({k, 0}));
  etude::tests::expect_error(
      [&] { cifar10({folder.path()}); }, ErrorCode::kNotFound,
      {"CIFAR-10: there is no '", "test_batch.bin'", "set ETUDE_DATA", "cifar_test.cc"});
  folder.write("test_batch.bin", records({7}));
  const Cifar10 found = cifar10({folder.path()});
  EXPECT_EQ(found.train.labels.to_vector<int32_t>(),
            (std::vector<int32_t>{1, 0, 2, 0, 3, 0, 4, 0, 5, 0}));
  EXPECT_EQ(found.train.inputs.shape(), (Shape{10, 32, 32, 3}));
  EXPECT_EQ(found.test.labels.to_vector<int32_t>(), std::vector<int32_t>{7});
}

// Any prefix, and a wrong label, is an error with file and byte.
TEST(Cifar, DamageIsTold) {
  const Bytes whole = records({1, 2});
  for (std::size_t size = 0; size < whole.size(); size += size < 3070 || size > 3076 ? 307 : 1) {
    if (size == 3073) continue;
    const std::string text = size < 3073 ? "that at byte 0 has " : "that at byte 3073 has ";
    etude::tests::expect_error([&] { parse_cifar10(std::span(whole).first(size), "x.bin"); },
                               ErrorCode::kDataLoss,
                               {"'x.bin': records of CIFAR-10 have 3073 bytes", text, "cut off"});
  }
  etude::tests::expect_error(
      [&] {
        parse_cifar10(records({1, 10}), "x.bin");
      },
      ErrorCode::kDataLoss, {"'x.bin': the label at byte 3073 is 10, but classes are 0 to 9"});
}

}  // namespace
}  // namespace etude::data
