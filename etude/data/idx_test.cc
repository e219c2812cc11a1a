// SPDX-License-Identifier: Apache-2.0
#include "etude/data/idx.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include "etude/base/error.h"

namespace etude::data {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes gzipped(const Bytes& plain) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes out(deflateBound(&stream, plain.size()) + 64);
  stream.next_in = const_cast<Bytef*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Expects an error of that code whose text holds every fragment and the name of the file.
template <class... Fragment>
void expect_error(const Bytes& file, ErrorCode code, Fragment... fragments) {
  try {
    parse_idx(file, "some.idx");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& fragment : {std::string("'some.idx'"), std::string(fragments)...}) {
      EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos)
          << error.what() << "\nlacks " << fragment;
    }
  }
}

const Bytes kMatrix = {0, 0, 0x08, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};

TEST(Idx, ReadsBytes) {
  for (const Bytes& file : {kMatrix, gzipped(kMatrix)}) {
    const IdxArray array = parse_idx(file, "some.idx");
    EXPECT_EQ(array.type_code, 0x08);
    EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(array.bytes, (Bytes{1, 2, 3, 4, 5, 6}));
  }
}

template <class T>
void expect_elements(uint8_t type_code, const Bytes& big_endian, std::vector<T> want) {
  Bytes file = {0, 0, type_code, 1, 0, 0, 0, static_cast<uint8_t>(want.size())};
  file.insert(file.end(), big_endian.begin(), big_endian.end());
  const IdxArray array = parse_idx(file, "some.idx");
  ASSERT_EQ(array.bytes.size(), want.size() * sizeof(T));
  std::vector<T> got(want.size());
  std::memcpy(got.data(), array.bytes.data(), array.bytes.size());
  EXPECT_EQ(got, want);
}

TEST(Idx, SwapsElementsToTheHostsOrder) {
  expect_elements<int8_t>(0x09, {0xff, 2}, {-1, 2});
  expect_elements<int16_t>(0x0B, {0xff, 0xfe, 1, 2}, {-2, 0x102});
  expect_elements<int32_t>(0x0C, {1, 2, 3, 4}, {0x01020304});
  expect_elements<float>(0x0D, {0x3f, 0xc0, 0, 0, 0xbf, 0x80, 0, 0}, {1.5f, -1.0f});
  expect_elements<double>(0x0E, {0x40, 0x04, 0, 0, 0, 0, 0, 0}, {2.5});
}

TEST(Idx, ReadsAnEmptyArray) {
  const Bytes file = {0, 0, 0x0D, 2, 0, 0, 0, 0, 0, 0, 0, 28};
  for (const Bytes& form : {file, gzipped(file)}) {
    const IdxArray array = parse_idx(form, "some.idx");
    EXPECT_EQ(array.shape, (std::vector<int64_t>{0, 28}));
    EXPECT_TRUE(array.bytes.empty());
  }
}

TEST(Idx, EveryPrefixIsAnError) {
  for (const Bytes& file : {kMatrix, gzipped(kMatrix)}) {
    for (std::size_t n = 0; n < file.size(); ++n) {
      expect_error(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n)),
                   ErrorCode::kDataLoss, "byte");
    }
  }
}

TEST(Idx, APrefixInsideGzipIsAnError) {
  for (std::size_t n = 0; n < kMatrix.size(); ++n) {
    expect_error(gzipped(Bytes(kMatrix.begin(), kMatrix.begin() + static_cast<std::ptrdiff_t>(n))),
                 ErrorCode::kDataLoss);
  }
}

TEST(Idx, TrailingBytesAreAnError) {
  Bytes plain = kMatrix;
  plain.push_back(0);
  expect_error(plain, ErrorCode::kDataLoss, "at byte 18", "1 more bytes");
  expect_error(gzipped(plain), ErrorCode::kDataLoss, "inflated byte 18", "more bytes follow");
  Bytes behind = gzipped(kMatrix);
  behind.push_back(0);
  expect_error(behind, ErrorCode::kDataLoss, "gzip stream ends", "1 more bytes");
  Bytes twice = gzipped(kMatrix);  // a second gzip member
  const Bytes once = twice;
  twice.insert(twice.end(), once.begin(), once.end());
  expect_error(twice, ErrorCode::kDataLoss, "gzip stream ends");
}

TEST(Idx, DamageInGzipIsAnError) {
  const Bytes good = gzipped(kMatrix);
  for (std::size_t i = good.size() - 8; i < good.size(); ++i) {  // checksum and length
    Bytes bad = good;
    bad[i] ^= 0x10;
    expect_error(bad, ErrorCode::kDataLoss, "gzip stream is damaged");
  }
}

TEST(Idx, RejectsOtherFiles) {
  expect_error({'P', 'K', 3, 4, 0, 0}, ErrorCode::kInvalidArgument, "not an IDX file", "50 4b");
  expect_error(gzipped({1, 0, 8, 1}), ErrorCode::kInvalidArgument, "not an IDX file");
  expect_error({0, 0, 0x0A, 1, 0, 0, 0, 0}, ErrorCode::kDataLoss, "element type 0x0a at byte 2");
  expect_error({0, 0, 0x08, 0, 1}, ErrorCode::kDataLoss, "axes at byte 3 is 0");
  expect_error({0, 0, 0x08, 33, 1}, ErrorCode::kDataLoss, "axes at byte 3 is 33");
}

TEST(Idx, RejectsHugeSizesWithoutTakingMemory) {
  const Bytes three = {0,    0,    0x08, 3,    0xff, 0xff, 0xff, 0xff,
                       0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  expect_error(three, ErrorCode::kDataLoss, "4294967295 x 4294967295",
               "declare more than 2^63 bytes");
  expect_error(gzipped(three), ErrorCode::kDataLoss, "declare more than 2^63 bytes");
  Bytes with_zero = three;
  std::fill_n(with_zero.begin() + 4, 4, uint8_t{0});
  expect_error(with_zero, ErrorCode::kDataLoss, "declare more than 2^63 bytes");
  const Bytes below = {0, 0, 0x08, 1, 0xff, 0xff, 0xff, 0xff, 7};
  expect_error(below, ErrorCode::kDataLoss, "4294967295 bytes", "from byte 8", "no more than 1");
  expect_error(gzipped(below), ErrorCode::kDataLoss, "4294967295 bytes", "from inflated byte 8");
}

TEST(Idx, ReadsAFileLargerThanOneStep) {
  Bytes file = {0, 0, 0x08, 1, 0, 0x30, 0, 0};
  for (uint32_t i = 0; i < 0x300000; ++i) {
    file.push_back(static_cast<uint8_t>(i * i >> 3));
  }
  const Bytes want(file.begin() + 8, file.end());
  EXPECT_EQ(parse_idx(file, "some.idx").bytes, want);
  EXPECT_EQ(parse_idx(gzipped(file), "some.idx").bytes, want);
  Bytes zeros(file.size());
  std::copy_n(file.begin(), 8, zeros.begin());  // close to the highest ratio of deflate
  EXPECT_EQ(parse_idx(gzipped(zeros), "some.idx").bytes, Bytes(want.size()));
}

TEST(Idx, ReadsFromDisk) {
  const auto folder = std::filesystem::temp_directory_path();
  const auto path = folder / ("etude_idx_test_" + std::to_string(getpid()));
  try {
    read_idx(path);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos);
  }
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(kMatrix.data()),
             static_cast<std::streamsize>(kMatrix.size()));
  EXPECT_EQ(read_idx(path).bytes.size(), 6u);
  std::filesystem::remove(path);
  try {
    read_idx(folder);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace etude::data
