// SPDX-License-Identifier: Apache-2.0
#include "etude/files/read_budget.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/expect_error.h"

namespace etude::internal {
namespace {

using tests::expect_error;

TEST(ReadBudget, FollowsFromTheSizeOfTheFileAndTheLimits) {
  const ReadLimits before = set_read_limits(
      {.depth = 3, .free_bytes = 1000, .bytes_per_byte = 10, .free_items = 5, .items_per_byte = 2});
  ReadBudget small("small.pt", 0), large("large.pt", 100);
  set_read_limits(before);  // a reader keeps the limits of its start
  small.need_bytes(1000, 7);
  expect_error([&] { small.need_bytes(1, 7); }, ErrorCode::kResourceExhausted,
               {"small.pt: offset 7: its 0 bytes need more than 1000 bytes of memory, which is the "
                "limit for a file of this size. If the file is trusted, raise this limit by "
                "set_read_limits()"});
  EXPECT_TRUE(large.has_bytes(2000));
  EXPECT_FALSE(large.has_bytes(1));
  EXPECT_TRUE(large.has_items(205));
  expect_error([&] { large.need_items(1, 9); }, ErrorCode::kResourceExhausted,
               {"large.pt: offset 9: its 100 bytes hold more than 205 values"});
  large.need_depth(3, 0);
  expect_error([&] { large.need_depth(4, 2); }, ErrorCode::kResourceExhausted,
               {"large.pt: offset 2: it is nested more than 3 levels deep"});
  // A size from a file may be any number.
  EXPECT_FALSE(small.has_bytes(~uint64_t{0}));
}

TEST(ReadBudget, LimitsAreChecked) {
  expect_error([] { set_read_limits({.depth = 0}); }, ErrorCode::kInvalidArgument,
               {"set_read_limits: depth is 0"});
  expect_error([] { set_read_limits({.bytes_per_byte = 0}); }, ErrorCode::kInvalidArgument,
               {"bytes_per_byte is 0"});
  EXPECT_EQ(read_limits().depth, ReadLimits{}.depth);
  // The largest limits do not overflow.
  const ReadLimits before = set_read_limits({.free_bytes = INT64_MAX, .bytes_per_byte = INT64_MAX});
  EXPECT_TRUE(ReadBudget("f", ~uint64_t{0}).has_bytes(~uint64_t{0}));
  set_read_limits(before);
}

TEST(ReadBudget, CountsJson) {
  const auto count = [](const std::string& text) {
    ReadBudget budget("f.json", text.size());
    count_json(text, budget);
  };
  const std::string many(100, '['), close(100, ']');
  count(many + close);
  expect_error([&] { count("[" + many + close + "]"); }, ErrorCode::kResourceExhausted,
               {"f.json: offset 100: it is nested more than 100 levels deep"});
  count("\"" + many + many + "\\\"" + many + "\"");  // text
  std::string rows = "[";
  for (int i = 0; i < 200; ++i) rows += "[1,{\"a\":2}],";
  count(rows + "0]");  // side by side
  const ReadLimits before = set_read_limits({.free_bytes = 100, .bytes_per_byte = 1});
  expect_error([&] { count(rows + "0]"); }, ErrorCode::kResourceExhausted, {"bytes of memory"});
  set_read_limits(before);
}

}  // namespace
}  // namespace etude::internal
