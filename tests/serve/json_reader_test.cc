// SPDX-License-Identifier: Apache-2.0
// The reader of JSON and the parser of nlohmann accept the same texts, with the same
// values. And the text of each refusal.
#include "serve/json_reader.h"

#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "etude/base/error.h"

namespace etude::serve {
namespace {

using Json = nlohmann::json;

Json value_of(JsonReader& reader) {
  switch (reader.kind()) {
    case JsonReader::Kind::kNull:
      reader.skip();
      return nullptr;
    case JsonReader::Kind::kFlag:
      return reader.flag();
    case JsonReader::Kind::kNumber:
      return std::strtod(std::string(reader.number()).c_str(), nullptr);
    case JsonReader::Kind::kText:
      return reader.text();
    case JsonReader::Kind::kList: {
      Json out = Json::array();
      reader.list([&] { out.push_back(value_of(reader)); });
      return out;
    }
    case JsonReader::Kind::kObject: {
      Json out = Json::object();
      reader.object([&](const std::string& key) { out[key] = value_of(reader); });
      return out;
    }
  }
  return nullptr;
}

// Discarded if the text is not JSON.
Json read(const std::string& text) {
  try {
    JsonReader reader(text, 100);
    Json out = value_of(reader);
    reader.finish();
    return out;
  } catch (const Error&) {
    return Json::value_t::discarded;
  }
}
bool skips(const std::string& text) {
  try {
    JsonReader reader(text, 100);
    reader.skip();
    reader.finish();
    return true;
  } catch (const Error&) {
    return false;
  }
}

void expect_equal(const std::string& text) {
  const Json wanted = Json::parse(text, nullptr, false);
  const Json got = read(text);
  EXPECT_EQ(got.is_discarded(), wanted.is_discarded()) << text;
  EXPECT_EQ(skips(text), !wanted.is_discarded()) << text;
  if (wanted.is_discarded()) return;
  EXPECT_EQ(got, wanted) << text;
}

const std::vector<std::string>& examples() {
  static const std::vector<std::string> kAll = {
      R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[[0.5,-1e-3]]}],"id":"7"})",
      " [ null , true,false, 0, -0, 12.50, 1e5, 1E+2, 0.1e-7 ]\n\t\r",
      R"(["", "\"\\\/\b\f\n\r\t", "\u0041\u00e9\u20ac\ud83d\ude00", "é€😀"])",
      R"({"":{},"a":[[],[[]]],"a":{"b":{"c":1}}})",
      "\"plain\"",
      "-7",
      "[1,2",
      "{\"a\":1,}",
      "[1 2]",
      "[01]",
      "[1.]",
      "[.5]",
      "[+1]",
      "[1e]",
      "nul",
      "[\"\\x\"]",
      "[\"\\ud800\"]",
      "[\"\\udc00\"]",
      "[\"\\ud800\\u0041\"]",
      "[\"a\nb\"]",
      "[\"\x80\"]",
      "[\"\xc0\xaf\"]",
      "[\"\xed\xa0\x80\"]",
      "[\"\xf4\x90\x80\x80\"]",
      "[\"\xe2\x82\"]",
      "{1:2}",
      "{\"a\" 1}",
      "[]]",
      "  ",
  };
  return kAll;
}

TEST(JsonReader, AcceptsTheTextsAndValuesOfAParser) {
  for (const std::string& text : examples()) expect_equal(text);
}

TEST(JsonReader, AcceptsTheSameMutatedTexts) {
  std::mt19937 generator(3);
  constexpr std::string_view kBytes = "{}[]\",:\\/0123456789.-+eEtrufalsn \n\xc3\xa9\xf0\x9f";
  for (int i = 0; i < 200000; ++i) {
    std::string text = examples()[generator() % 6];
    for (unsigned edits = 1 + generator() % 3; edits > 0; --edits) {
      const std::size_t at = generator() % text.size();
      const char byte = kBytes[generator() % kBytes.size()];
      if (generator() % 3 == 0) {
        text.insert(at, 1, byte);
      } else {
        text[at] = byte;
      }
    }
    // A parser refuses numbers beyond a double, which the reader leaves to its caller.
    const Json got = read(text);
    if (got.dump(-1, ' ', false, Json::error_handler_t::replace).find("null") ==
        std::string::npos) {
      expect_equal(text);
    }
    if (HasFailure()) return;
  }
}

std::string fault_of(const std::string& text, int levels = 5) {
  try {
    JsonReader reader(text, levels);
    reader.skip();
    reader.finish();
  } catch (const Error& error) {
    return error.text();
  }
  return "";
}

TEST(JsonReader, StatesThePlaceOfAFault) {
  EXPECT_EQ(fault_of("[1,"), "the request is no JSON: it ends at byte 3, before a value");
  EXPECT_EQ(fault_of("[1 2]"), "the request is no JSON: byte 3 is '2', in the place of ',' or ']'");
  EXPECT_EQ(fault_of("{\"a\":1 2}"),
            "the request is no JSON: byte 7 is '2', in the place of ',' or '}'");
  EXPECT_EQ(fault_of("{a:1}"), "the request is no JSON: byte 1 is 'a', in the place of a key");
  EXPECT_EQ(fault_of("{\"a\"1}"), "the request is no JSON: byte 4 is '1', in the place of ':'");
  EXPECT_EQ(fault_of("\"\x01\""),
            "the request is no JSON: byte 1 is 0x01, in the place of a character of UTF-8");
  EXPECT_EQ(fault_of("trux"), "the request is no JSON: byte 0 is 't', in the place of true");
  EXPECT_EQ(fault_of("\"\\u00g0\""),
            "the request is no JSON: byte 5 is 'g', in the place of a hexadecimal digit");
  EXPECT_EQ(fault_of("[[[[[]]]]]"), "");
  EXPECT_EQ(fault_of("[[[[[[]]]]]]"), "the JSON of the request is nested deeper than 5, at byte 5");
}

TEST(JsonReader, ShowsValues) {
  const auto shown = [](const std::string& text) { return JsonReader(text, 5).shown(); };
  EXPECT_EQ(shown(" [1,2]"), "a list");
  EXPECT_EQ(shown("{}"), "an object");
  EXPECT_EQ(shown(" 1.50 "), "1.50");
  EXPECT_EQ(shown("\"" + std::string(100, 'a') + "\""), "\"" + std::string(59, 'a'));
}

}  // namespace
}  // namespace etude::serve
