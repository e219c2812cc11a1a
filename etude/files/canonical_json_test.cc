// SPDX-License-Identifier: Apache-2.0
#include "etude/files/canonical_json.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace etude::internal {
namespace {

using nlohmann::json;

// The expected result, by the parser and dump() of the library for JSON.
bool is_canonical(const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  try {
    return !parsed.is_discarded() && parsed.dump() == text;
  } catch (const json::type_error&) {
    return false;
  }
}

void expect_as_parser(const std::string& text) {
  const JsonTree<json> tree = read_canonical_json(text);
  ASSERT_EQ(!tree.root().is_discarded(), is_canonical(text)) << text;
  if (tree.root().is_discarded()) return;
  const json want = json::parse(text);
  EXPECT_EQ(tree.root(), want) << text;
  EXPECT_EQ(tree.root().dump(), text);
  EXPECT_EQ(tree.root().type(), want.type()) << text;
}

TEST(CanonicalJson, ReadsWhatDumpWrites) {
  for (const char* text : {"null",
                           "true",
                           "false",
                           "0",
                           "7",
                           "-7",
                           "18446744073709551615",
                           "-9223372036854775808",
                           "1.5",
                           "-0.0",
                           "1e+300",
                           "\"\"",
                           "\"a b~\"",
                           "\"\\n\\u0001\\\\\\\"/\"",
                           "\"\x7f\"",
                           "\"\xc3\xa4\"",
                           "[]",
                           "[1,[],{}]",
                           "{}",
                           "{\"\":1}",
                           "{\"a\":[1,\"x\"],\"b\":{\"c\":null}}"}) {
    EXPECT_TRUE(is_canonical(text)) << text;
    expect_as_parser(text);
  }
}

TEST(CanonicalJson, RefusesOtherForms) {
  for (const char* text : {"",
                           " 1",
                           "1 ",
                           "[1, 2]",
                           "{\"b\":1,\"a\":2}",
                           "{\"a\":1,\"a\":2}",
                           "01",
                           "-0",
                           "-",
                           "--1",
                           "-01",
                           "1.0e3",
                           "1e300",
                           "18446744073709551616",
                           "-9223372036854775809",
                           "\"\\u000a\"",
                           "\"\\/\"",
                           "\"\\u00e4\"",
                           "\"\xff\"",
                           "\"\xc3\"",
                           "\"a",
                           "\"a\\\"",
                           "\"\n\"",
                           "[1,]",
                           "[1",
                           "{\"a\"}",
                           "{\"a\":1,}",
                           "{\"a\":1",
                           "{1:2}",
                           "tru",
                           "nul",
                           "truex",
                           "[]x",
                           "{}{}",
                           "NaN",
                           "1.",
                           ".5",
                           "+1",
                           "\"a\"b"}) {
    EXPECT_FALSE(is_canonical(text)) << text;
    expect_as_parser(text);
  }
}

class Values {
 public:
  explicit Values(unsigned seed) : draw_(seed) {}

  std::size_t below(std::size_t n) { return draw_() % n; }
  json any(int depth) {
    switch (below(depth > 0 ? 8 : 6)) {
      case 0:
        return nullptr;
      case 1:
        return below(2) == 0;
      case 2:
        return below(1000);
      case 3:
        return -static_cast<int64_t>(below(1000)) - 1;
      case 4:
        return static_cast<double>(below(1000)) / 8;
      case 5:
        return text();
      case 6: {
        json out = json::array();
        for (std::size_t i = below(4); i > 0; --i) out.push_back(any(depth - 1));
        return out;
      }
      default: {
        json out = json::object();
        for (std::size_t i = below(4); i > 0; --i) out[text()] = any(depth - 1);
        return out;
      }
    }
  }

 private:
  std::string text() {
    static const char* const kParts[] = {"a", "b", "/", "\"", "\\", "\n", " ", "\xc3\xa4", "\x01"};
    std::string out;
    for (std::size_t i = below(4); i > 0; --i) out += kParts[below(9)];
    return out;
  }
  std::mt19937 draw_;
};

// Random values, and their texts with a byte changed, removed or doubled.
TEST(CanonicalJson, AgreesWithTheParser) {
  Values values(1);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = values.any(3).dump();
    expect_as_parser(text);
    const std::size_t at = values.below(text.size());
    switch (values.below(3)) {
      case 0:
        text[at] = "0123456789-+.eE\"\\{}[],: antrufl\x01\xc3"[values.below(34)];
        break;
      case 1:
        text.erase(at, 1);
        break;
      default:
        text.insert(at, 1, text[at]);
    }
    expect_as_parser(text);
    refused += is_canonical(text) ? 0 : 1;
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace etude::internal
