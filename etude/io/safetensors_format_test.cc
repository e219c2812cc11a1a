// SPDX-License-Identifier: Apache-2.0
#include "etude/io/safetensors_format.h"

#include <limits>

#include <gtest/gtest.h>

#include "etude/base/error.h"

namespace etude::internal {
namespace {

using Bytes = std::vector<uint8_t>;

// A file of a header with the right length, and zeros as data.
Bytes file_of(std::string_view json, std::size_t data_bytes) {
  Bytes file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<uint8_t>(json.size() >> (8 * i)));
  file.insert(file.end(), json.begin(), json.end());
  file.resize(file.size() + data_bytes);
  return file;
}

template <class Fn, class... Fragment>
void expect_thrown(ErrorCode code, Fn fn, Fragment... fragments) {
  try {
    fn();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string_view fragment : {std::string_view(), std::string_view(fragments)...}) {
      EXPECT_NE(std::string_view(error.what()).find(fragment), std::string_view::npos)
          << error.what() << "\nlacks " << fragment;
    }
  }
}

template <class... Fragment>
void expect_bad_file(const Bytes& file, Fragment... fragments) {
  expect_thrown(
      ErrorCode::kDataLoss, [&] { parse_safetensors_header(file, "w.st"); }, "'w.st'",
      fragments...);
}

template <class... Fragment>
void expect_bad(std::string_view json, std::size_t data_bytes, Fragment... fragments) {
  SCOPED_TRACE(json);
  expect_bad_file(file_of(json, data_bytes), fragments...);
}

constexpr std::string_view kGood =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,3],"data_offsets":[2,26]},)"
    R"("a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}})";

TEST(SafetensorsFormat, ReadsTensorsInTheOrderOfTheData) {
  const SafetensorsHeader header = parse_safetensors_header(file_of(kGood, 26), "w.st");
  EXPECT_EQ(header.data_offset, 8 + kGood.size());
  EXPECT_EQ(header.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  const std::vector<SafetensorsEntry> want = {{"a", "BF16", {}, 0, 2}, {"b", "F32", {2, 3}, 2, 26}};
  EXPECT_EQ(header.entries, want);
}

TEST(SafetensorsFormat, ReadsNoTensorsAndEmptyTensors) {
  EXPECT_TRUE(parse_safetensors_header(file_of("{}", 0), "w.st").entries.empty());
  EXPECT_TRUE(parse_safetensors_header(file_of("{}   ", 0), "w.st").entries.empty());
  const auto header =
      parse_safetensors_header(file_of(R"({"a":{"dtype":"I64","shape":[0,5],"data_offsets":[1,1]},)"
                                       R"("b":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})",
                                       1),
                               "w.st");
  EXPECT_EQ(header.entries[1].name, "a");
}

TEST(SafetensorsFormat, EveryPrefixIsAnError) {
  const Bytes file = file_of(kGood, 26);
  for (std::size_t n = 0; n < file.size(); ++n) {
    expect_bad_file(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n)));
  }
  // The same with a length that fits, so that the JSON itself is torn.
  for (std::size_t n = 0; n < kGood.size(); ++n) expect_bad(kGood.substr(0, n), 0);
}

TEST(SafetensorsFormat, RejectsBadLengths) {
  expect_bad_file({}, "has 0 bytes");
  expect_bad_file({3, 0, 0, 0, 0, 0, 0, 0, '{', '}'}, "header of 3 bytes, but 2 follow");
  expect_bad_file({1, 0xe1, 0xf5, 5, 0, 0, 0, 0, '{', '}'}, "100000001 bytes; the limit");
  expect_bad_file(Bytes(8, 0xff), "limit is 100000000");
  expect_bad("", 0, "at byte 8");
  expect_bad(" {}", 0, "must start with '{' at byte 8");
  expect_bad("\xef\xbb\xbf{}", 0, "must start with '{' at byte 8");
  expect_bad(kGood, 27, "end at byte 26", "has 27 bytes");
  expect_bad("{}", 1, "end at byte 0", "has 1 bytes");
}

TEST(SafetensorsFormat, RejectsOtherJson) {
  expect_bad("{}{}", 0, "near byte 11");
  expect_bad("{]", 0, "near byte 10", "syntax error");
  expect_bad("{\"\xff\":1}", 0, "UTF-8");
  expect_bad(R"({"a":1})", 0, "a number where an object must be");
  expect_bad(R"({"a":null})", 0, "null");
  expect_bad(R"({"a":[[[[[[]]]]]]})", 0, "an array where an object must be");
  expect_bad(R"({"a":{"dtype":{}}})", 0, "an object where the name of a dtype must be");
  expect_bad(R"({"a":{"dtype":true}})", 0, "a boolean");
  expect_bad(R"({"a":{"size":1}})", 0, "unknown key 'size' in tensor 'a'", "near byte 20");
  expect_bad(R"({"a":{}})", 0, "'a' without dtype");
  expect_bad(R"({"a":{"dtype":"U8","shape":[0]}})", 0, "without dtype, shape or data_offsets");
  expect_bad(R"({"a":{"shape":[[1]]}})", 0, "an array where a size must be");
  expect_bad(R"({"a":{"data_offsets":[0]}})", 0, "without two numbers");
  expect_bad(R"({"a":{"data_offsets":[0,1,2]}})", 0, "a number where an array of begin and end");
  expect_bad(R"({"__metadata__":{"a":1}})", 0, "a string as value of the metadata");
  expect_bad(R"({"__metadata__":{"a":{}}})", 0, "a string as value of the metadata");
  expect_bad(R"({"__metadata__":"x"})", 0, "a string where an object must be");
  expect_bad(std::string(100000, '{'), 0, "near byte");
}

TEST(SafetensorsFormat, RejectsKeysGivenTwice) {
  expect_bad(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
             R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
             0, "the key 'a', which was given before");
  expect_bad(R"({"a":{"dtype":"U8","dtype":"I8"}})", 0, "the key 'dtype' twice in tensor 'a'");
  expect_bad(R"({"__metadata__":{"k":"1","k":"2"}})", 0, "the metadata key 'k'");
  expect_bad(R"({"__metadata__":{},"__metadata__":{}})", 0, "the key '__metadata__'");
}

// The one tensor "a" with these pieces of JSON.
std::string one(std::string dtype, std::string shape, std::string offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":[)" + shape + R"(],"data_offsets":[)" +
         offsets + "]}}";
}

TEST(SafetensorsFormat, RejectsNumbersThatAreNoSizes) {
  for (const char* size : {"-1", "1.0", "1e0", "-0", "18446744073709551616"}) {
    expect_bad(one("U8", size, "0,1"), 1, "there is a");
    expect_bad(one("U8", "1", std::string("0,") + size), 1, "there is a");
  }
  expect_bad(one("U8", "18446744073709551615", "0,1"), 1, "63 bits");
  expect_bad(one("U8", "1e999", "0,1"), 1, "near byte");
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  expect_bad(one("U8", ones, "0,1"), 1, "64 axes");
}

TEST(SafetensorsFormat, RejectsPlacesThatDoNotFit) {
  expect_bad(one("F32", "2", "0,7"), 7, "F32[2] needs 8 bytes", "[0, 7)");
  expect_bad(one("F32", "", "0,0"), 0, "F32[] needs 4 bytes");
  expect_bad(one("U8", "2", "0,2"), 1, "[0, 2) of the data, which has 1 bytes");
  expect_bad(one("U8", "2", "2,0"), 2, "[2, 0)");
  expect_bad(one("U8", "1", "1,2"), 2, "without hole or overlap");
  expect_bad(one("F64", "4611686018427387904,4", "0,0"), 0, "more than 2^63");
  expect_bad(one("F64", "0,4611686018427387904,4", "0,0"), 0, "more than 2^63");
  const std::string a = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)";
  expect_bad(a + R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3, "'b' begins at",
             "without hole or overlap");
  expect_bad(a + R"("b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})", 5, "'b' begins at");
  expect_bad(a + R"("b":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})", 2, "'b' begins at");
}

TEST(SafetensorsFormat, RejectsUnknownDtypes) {
  expect_thrown(
      ErrorCode::kUnimplemented,
      [] { parse_safetensors_header(file_of(one("F8_E4M3", "1", "0,1"), 1), "w.st"); },
      "'w.st': tensor 'a' has the unknown dtype 'F8_E4M3'; known are BOOL U8");
  EXPECT_EQ(safetensors_element_bytes("C64"), 8u);
  EXPECT_EQ(safetensors_element_bytes("f32"), 0u);
}

TEST(SafetensorsFormat, WritesWhatItReads) {
  std::vector<SafetensorsEntry> entries = {{"z\"\n\u00e4", "U8", {3}, 0, 0},
                                           {"b", "F32", {2, 2}, 0, 0},
                                           {"a", "F32", {}, 0, 0},
                                           {"empty", "F64", {0, 7}, 0, 0},
                                           {"c", "C64", {1}, 0, 0}};
  const std::map<std::string, std::string> metadata = {{"format", "etude"}, {"\\", ""}};
  const std::string text = make_safetensors_header(entries, metadata);
  EXPECT_EQ(text.size() % 8, 0u);
  Bytes file(text.begin(), text.end());
  file.resize(file.size() + 8 + 4 + 16 + 3);
  const SafetensorsHeader header = parse_safetensors_header(file, "w.st");
  EXPECT_EQ(header.data_offset, text.size());
  EXPECT_EQ(header.metadata, metadata);
  EXPECT_EQ(header.entries, entries);
  const std::vector<SafetensorsEntry> want = {{"c", "C64", {1}, 0, 8},
                                              {"empty", "F64", {0, 7}, 8, 8},
                                              {"a", "F32", {}, 8, 12},
                                              {"b", "F32", {2, 2}, 12, 28},
                                              {"z\"\n\u00e4", "U8", {3}, 28, 31}};
  EXPECT_EQ(entries, want);
}

TEST(SafetensorsFormat, WritesAFileWithoutTensors) {
  std::vector<SafetensorsEntry> none;
  EXPECT_EQ(make_safetensors_header(none, {}), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

template <class... Fragment>
void expect_not_written(std::vector<SafetensorsEntry> entries, Fragment... fragments) {
  expect_thrown(
      ErrorCode::kInvalidArgument, [&] { make_safetensors_header(entries, {}); }, fragments...);
}

TEST(SafetensorsFormat, RefusesToWriteWhatNobodyCanRead) {
  expect_not_written({{"a", "U8", {1}, 0, 0}, {"a", "I8", {1}, 0, 0}},
                     "two tensors are called 'a'");
  expect_not_written({{"__metadata__", "U8", {1}, 0, 0}}, "rename it");
  expect_not_written({{"a", "F8", {1}, 0, 0}}, "unknown dtype 'F8'");
  expect_not_written({{"a", "U8", {-1}, 0, 0}}, "U8[-1] has a negative size");
  expect_not_written({{"a\xff", "U8", {1}, 0, 0}}, "'a?' is not UTF-8");
  const int64_t huge = std::numeric_limits<int64_t>::max();
  expect_not_written({{"a", "F32", {huge}, 0, 0}}, "too large");
  expect_not_written({{"a", "U8", std::vector<int64_t>(65, 1), 0, 0}}, "65 axes");
}

}  // namespace
}  // namespace etude::internal
