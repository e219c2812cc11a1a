// SPDX-License-Identifier: Apache-2.0
#include "etude/files/json_tree.h"

#include <string>

#include <gtest/gtest.h>

namespace etude::internal {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

TEST(JsonTree, HasTheValuesOfTheParser) {
  for (const char* text :
       {"null", "true", "-3", "18446744073709551615", "0.25", R"("aé\n")", "[]", "{}",
        R"([1,[2,[],{"b":[3,{"c":null}]}],"x"])", R"({"z":{"y":[]},"a":[[[[]]]],"b":"t"})",
        R"({"a":[1,2,3],"b":4,"a":{"c":5}})", " [ 1 , 2 ] "}) {
    EXPECT_EQ(JsonTree<json>(text).root(), json::parse(text)) << text;
    EXPECT_EQ(JsonTree<ordered_json>(text).root(), ordered_json::parse(text)) << text;
  }
}

TEST(JsonTree, WhatIsNoJsonIsDiscarded) {
  for (const char* text : {"", "[1", "[1,]", "{\"a\"}", "nul", "1e999", "[1] 2", "\"\xff\"",
                           "{1:2}", "[[[[[[{\"a\":[1,2,", "]"}) {
    EXPECT_TRUE(JsonTree<json>(text).root().is_discarded()) << text;
    EXPECT_FALSE(JsonTree<json>(text).error().empty()) << text;
    EXPECT_TRUE(json::parse(text, nullptr, false).is_discarded()) << text;
  }
  EXPECT_EQ(JsonTree<json>("[1,]").error().substr(0, 24), "parse error at line 1, c");
  EXPECT_EQ(JsonTree<json>("[1]").error(), "");
}

TEST(JsonTree, ARepeatedKeyIsNamed) {
  EXPECT_EQ(JsonTree<json>(R"({"a":{"b":1},"b":{"a":2}})").repeated_key(), "");
  EXPECT_EQ(JsonTree<json>(R"([{"a":1,"b":[2],"b":3,"a":4}])").repeated_key(), "b");
}

TEST(JsonTree, AReleasedValueIsEmptyInside) {
  json value = json::parse(R"([[1,[2]],{"a":[3],"b":{"c":[4]}}])");
  release_json(value);
  EXPECT_EQ(value, json::array());
  json text = "text";
  release_json(text);
  EXPECT_EQ(text, "text");
}

TEST(JsonTree, AMoveTakesTheValue) {
  JsonTree<json> a("[1,[2]]");
  const JsonTree<json> b(std::move(a));
  EXPECT_EQ(b.root(), json::parse("[1,[2]]"));
}

}  // namespace
}  // namespace etude::internal
