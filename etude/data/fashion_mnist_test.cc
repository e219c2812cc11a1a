// SPDX-License-Identifier: Apache-2.0
#include "etude/data/fashion_mnist.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "etude/base/error.h"

namespace etude::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPackage = "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz";

// spec: EX2.a
TEST(FashionMnist, LoadsThePackage) {
  if (!fs::exists(kPackage)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const FashionMnist data = fashion_mnist();
  EXPECT_EQ(data.train.inputs.type()->to_string(), "float32[60000,28,28,1]");
  EXPECT_EQ(data.train.labels.type()->to_string(), "int32[60000]");
  EXPECT_EQ(data.test.inputs.type()->to_string(), "float32[10000,28,28,1]");
  std::array<int, 10> counts{};
  for (const int32_t label : data.train.labels.data<int32_t>()) {
    ++counts[static_cast<std::size_t>(label)];
  }
  for (const int count : counts) EXPECT_EQ(count, 6000);
  const auto first = data.train.labels.data<int32_t>().first(5);
  EXPECT_EQ(std::vector<int32_t>(first.begin(), first.end()),
            (std::vector<int32_t>{9, 0, 0, 3, 0}));
  const auto pixels = data.train.inputs.data<float>();
  const auto [low, high] = std::minmax_element(pixels.begin(), pixels.end());
  EXPECT_EQ(*low, 0.0f);
  EXPECT_EQ(*high, 1.0f);
}

TEST(FashionMnist, Standardizes) {
  if (!fs::exists(kPackage)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const FashionMnist data = fashion_mnist({.standardize = true});
  double sum = 0, squares = 0;
  const auto pixels = data.train.inputs.data<float>();
  for (const float x : pixels) {
    sum += static_cast<double>(x);
    squares += static_cast<double>(x) * static_cast<double>(x);
  }
  const auto n = static_cast<double>(pixels.size());
  EXPECT_NEAR(sum / n, 0, 1e-5);
  EXPECT_NEAR(squares / n, 1, 1e-5);
}

class OwnFolder : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, std::vector<unsigned char> bytes) const {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  void write_part(const std::string& part, unsigned char label) const {
    std::vector<unsigned char> images = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28};
    for (int i = 0; i < 784; ++i) images.push_back(static_cast<unsigned char>(i % 256));
    write(part + "-images-idx3-ubyte", images);
    write(part + "-labels-idx1-ubyte", {0, 0, 8, 1, 0, 0, 0, 1, label});
  }
  Error failure() const {
    try {
      fashion_mnist({.folder = folder_});
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorCode::kInternal, "no error");
  }

  fs::path folder_ = fs::temp_directory_path() / ("etude_fashion_" + std::to_string(::getpid()));
};

TEST_F(OwnFolder, ReadsPlainFiles) {
  write_part("train", 7);
  write_part("t10k", 9);
  const FashionMnist data = fashion_mnist({.folder = folder_});
  EXPECT_EQ(data.train.labels.item<int>(), 7);
  EXPECT_EQ(data.test.inputs.data<float>()[51], 0.2f);
}

TEST_F(OwnFolder, AMissingFileNamesThePackage) {
  const Error error = failure();
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_NE(std::string(error.what()).find("package dataset-fashion-mnist"), std::string::npos);
  EXPECT_NE(std::string(error.what()).find("train-images-idx3-ubyte"), std::string::npos);
}

TEST_F(OwnFolder, ALabelOutsideIsDataLoss) {
  write_part("train", 10);
  write_part("t10k", 1);
  const Error error = failure();
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_NE(std::string(error.what()).find("a train label"), std::string::npos);
}

}  // namespace
}  // namespace etude::data
