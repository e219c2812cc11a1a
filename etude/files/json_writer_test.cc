// SPDX-License-Identifier: Apache-2.0
#include "etude/files/json_writer.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace etude::internal {
namespace {

using nlohmann::json;

void write_all(JsonWriter& out) {
  const std::vector<int64_t> none, sizes = {1, -2};
  out.object([&] {
    out.member("a", "a \"text\"\n");
    out.member("b", true);
    out.member("c", [&] { out.list(sizes); });
    out.member("d", [&] { out.list(none); });
    out.member("e", [&] { out.object([] {}); });
    out.member("f", [&] {
      out.list(sizes, [&](int64_t size) { out.object([&] { out.member("size", size); }); });
    });
    out.member("g", nullptr);
    out.member("h", std::numeric_limits<uint64_t>::max());
    out.member("i", 0.25);
    out.member("j", [&] { out.raw("[0.5]"); });
    out.member("k", std::nan(""));
    out.member("l", [&] { out.pair([&] { out.value("x"); }, [&] { out.value(1); }); });
  });
}

// The texts equal the texts of nlohmann::json, whose readers compare them with their own.
TEST(JsonWriter, WritesAsTheLibraryOfJson) {
  const json expected = json::parse(
      R"({"a":"a \"text\"\n","b":true,"c":[1,-2],"d":[],"e":{},"f":[{"size":1},{"size":-2}],)"
      R"("g":null,"h":18446744073709551615,"i":0.25,"j":[0.5],"k":null,"l":["x",1]})");
  JsonWriter line;
  write_all(line);
  EXPECT_EQ(line.text(), expected.dump());
  JsonWriter out;
  out.list(std::vector<std::string>{"x", "y"});
  EXPECT_EQ(out.text(), R"(["x","y"])");
  JsonWriter alone;
  alone.value("x");
  EXPECT_EQ(alone.text(), "\"x\"");
}

TEST(JsonWriter, IndentsAsTheLibraryOfJson) {
  const auto members = [](JsonWriter& out) {
    out.object([&] {
      out.member("a", 1);
      out.member("b", [&] {
        out.object([&] {
          out.member("c", "t");
          out.member("d", [&] { out.list(std::vector<int>{1, 2}); });
        });
      });
      out.member("e", [&] { out.object([] {}); });
    });
  };
  JsonWriter out(JsonWriter::Texts::kRefused, 2);
  members(out);
  EXPECT_EQ(out.text(), json::parse(out.text()).dump(2));
  EXPECT_EQ(out.text().substr(0, 20), "{\n  \"a\": 1,\n  \"b\": {");
}

TEST(JsonWriter, ATextThatIsNotUtf8IsReplacedOrRefused) {
  JsonWriter replaces(JsonWriter::Texts::kReplaced), refuses;
  replaces.value("a\xff");
  EXPECT_EQ(replaces.text(), "\"a\xef\xbf\xbd\"");
  EXPECT_THROW(refuses.value("a\xff"), json::exception);
}

}  // namespace
}  // namespace etude::internal
