// SPDX-License-Identifier: Apache-2.0
// Calls of older versions of an op, in containers of both versions and in texts, become calls of
// the present version with the results that they had.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/core/op/registry.h"
#include "etude/core/op/upgrade.h"
#include "etude/etude.h"
#include "tests/expect_error.h"
#include "tests/saved/hand_made.h"

namespace etude::saved_test {
namespace {

using tests::expect_error;
using tests::HandMade;
using tests::raw;
using tests::real_bytes;

// Version 1: y = x * amount, or x * -amount where mode is "down".
//   (x) {amount: int = 2; mode: text = "up"} -> y
// Version 2: y = x * factor + shift, where old calls have the shift 0.
//   (x) {factor: real = 3; shift: real = 0.5} -> y
// Version 3: the shift is an operand, there is one more result, and another default.
//   (x, shift) {factor: real = 4} -> count, y
void upgrade_from_1(StoredCall& call) {
  call.set_missing("amount", int64_t{2});
  call.set_missing("mode", std::string("up"));
  const auto amount = static_cast<double>(std::get<int64_t>(call.remove("amount")));
  const auto mode = std::get<std::string>(call.remove("mode"));
  call.set("factor", mode == "down" ? -amount : amount);
  call.set("shift", 0.0);
}
void upgrade_from_2(StoredCall& call) {
  call.set_missing("factor", 3.0);
  call.set_missing("shift", 0.5);
  const Tensor shift = full({}, std::get<double>(call.remove("shift")));
  const DType dtype = call.operands.at(0).type->dtype();
  call.operands.push_back({.constant = astype(shift, dtype)});
  call.results = {1};
}

const Op& versioned_op() {
  static const Op& made = Registry::global().define({
      .name = "versioned_sample",
      .space = "samples",
      .kind = Kind::kComposition,
      .doc = "For tests of versions.",
      .operands = {"x", "shift"},
      .attrs = {{"factor", 4.0}},
      .results = {"count", "y"},
      .version = 3,
      .upgrades = {{1, upgrade_from_1, {{"amount", 2}, {"mode", "up"}}},
                   {2, upgrade_from_2, {{"shift", 0.5}}}},
      .dtypes = kFloating,
      .lower =
          [](Operands in, const Attrs& attrs) {
            const Tensor factor = astype(full({}, attrs.real("factor")), in[0].dtype());
            return Values{sum(ones_like(in[0])), in[0] * factor + in[1]};
          },
  });
  return made;
}

constexpr int kFlag = 1, kInt = 2, kReal = 3, kText = 6;

// f(x) = y of one call of the op, in container 2. `attrs`: of the node.
std::string file(int version, const std::string& defaults, const std::string& attrs,
                 const std::string& operands = raw({1, 1}), int results = 1, int value = 2) {
  versioned_op();
  HandMade made;
  made.texts = {
      "f",     "x",      "samples.versioned_sample", "amount", "mode", "up", "down", "factor",
      "shift", "float32"};
  made.types = {"float32[2]"};
  made.ops = raw({1, 2, version}) + defaults;
  made.graphs =
      raw({0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0}) + operands + raw({results}) + attrs + raw({1, value});
  return made.bytes();
}
const std::string kVersion1 = raw({2, 3, kInt, 2, 4, 4, kText, 2, 5});
std::string version_2(double factor, double shift) {
  return raw({2, 7, kReal, 2}) + real_bytes(factor) + raw({8, kReal, 2}) + real_bytes(shift);
}

void expect_results(const Graph& graph, float first, float second) {
  const std::vector<float> y =
      interpret(graph, std::vector<Tensor>{Tensor({1.0F, 10.0F})})[0].to_vector<float>();
  EXPECT_EQ(y, (std::vector<float>{first, second})) << to_text(graph);
}

TEST(OpVersions, ContainersKeepTheMeaningOfTheirVersion) {
  expect_results(*read_binary(file(1, kVersion1, raw({0}))), 2, 20);
  expect_results(*read_binary(file(1, kVersion1, raw({1, 0, 10}))), 5, 50);
  expect_results(*read_binary(file(1, kVersion1, raw({2, 0, 10, 1, 6}))), -5, -50);
  expect_results(*read_binary(file(2, version_2(3, 0.5), raw({0}))), 3.5F, 30.5F);
  expect_results(*read_binary(file(2, version_2(3, 0.5), raw({1, 1}) + real_bytes(-1))), 2, 29);
  const std::string now = raw({1, 7, kReal, 2}) + real_bytes(4);
  expect_results(*read_binary(file(3, now, raw({0}), raw({2, 1, 1}), 2, 3)), 5, 50);
}

// The file has the defaults, whatever the record has now.
TEST(OpVersions, DefaultsAreThoseOfTheFile) {
  const std::string other = raw({1, 7, kReal, 2}) + real_bytes(-8);
  expect_results(*read_binary(file(3, other, raw({0}), raw({2, 1, 1}), 2, 3)), -7, -70);
  expect_results(*read_binary(file(2, version_2(7, 1), raw({0}))), 8, 71);
  // An attribute that the record got later.
  expect_results(*read_binary(file(3, raw({0}), raw({0}), raw({2, 1, 1}), 2, 3)), 5, 50);
}

TEST(OpVersions, UpgradedCallsAreWrittenAsCallsOfThePresentVersion) {
  const GraphRef graph = read_binary(file(1, kVersion1, raw({0})));
  const std::string text = to_text(*graph);
  EXPECT_EQ(text,
            "graph f(x: float32[2]) -> (float32[2])\n"
            "  %1 = constant float32[] 0\n"
            "  %2, %3 = samples.versioned_sample@3(x, %1, factor=2)\n"
            "  return %3\n");
  EXPECT_TRUE(read_binary(to_binary(*graph))->same(*graph));
  EXPECT_TRUE(parse_graph(text)->same(*graph));
}

// Container 1 names attributes that differ from the defaults of its time, and has version 1 of all.
TEST(OpVersions, TheFirstContainerHasVersionOneOfAllOps) {
  versioned_op();
  HandMade made;
  made.version = 1;
  made.texts = {"f", "x", "samples.versioned_sample", "amount", "mode", "down", "factor"};
  made.types = {"float32[2]"};
  const auto of = [&](const std::string& attrs) {
    made.graphs = raw({0, 1, 1, 0, 0, 0, 0, 1, 2, 0, 0, 1, 1}) + attrs + raw({1, 2});
    return made.bytes();
  };
  expect_results(*read_binary(of(raw({0}))), 2, 20);
  expect_results(*read_binary(of(raw({2, 4, 1, 5, 3, 1, 6}))), -3, -30);
  expect_error(
      [&] {
        read_binary(of(raw({1, 1, 1, 1})));
      },
      ErrorCode::kInvalidArgument,
      {"versioned_sample has no attribute 'x'. It has amount, mode, shift, factor"});
}

TEST(OpVersions, TextsStateVersionsAboveOne) {
  versioned_op();
  const auto of = [](std::string_view call) {
    return parse_graph(
        fmt::format("graph f(x: float32[2]) -> (float32[2])\n"
                    "  %1 = samples.versioned_sample{}\n"
                    "  return %1\n",
                    call));
  };
  expect_results(*of("(x)"), 2, 20);
  expect_results(*of("(x, amount=5, mode=\"down\")  # a.cc:3"), -5, -50);
  expect_results(*of("@2(x, shift=1)"), 4, 31);
  expect_error([&] { of("@4(x)"); }, ErrorCode::kUnimplemented,
               {"line 2", "version 4 of op 'samples.versioned_sample' is newer than this library"});
  expect_error([&] { of("@new(x)"); }, ErrorCode::kInvalidArgument,
               {"'@' after an op is followed by its version, as in samples.versioned_sample@2"});
  expect_error([&] { of("@3(x, x)"); }, ErrorCode::kInvalidArgument,
               {"versioned_sample has 2 results here, but 1 names before it"});
}

TEST(OpVersions, RefusesVersionsThatCannotBeRead) {
  expect_error([] { read_binary(file(4, raw({0}), raw({0}))); }, ErrorCode::kUnimplemented,
               {"byte 125 of a graph in binary form: version 4 of op 'samples.versioned_sample' is "
                "newer than this library, which has version 3. Read the file with the release that "
                "wrote it, or a later one"});
  expect_error([] { read_binary(file(0, raw({0}), raw({0}))); }, ErrorCode::kUnimplemented,
               {"version 0 of op 'samples.versioned_sample' has no upgrade to version 3: this "
                "library reads versions 1 to 3"});
}

TEST(OpVersions, RefusesCallsThatAreNoneOfTheirVersion) {
  const auto refused = [](const std::string& bytes, ErrorCode code, std::string_view text) {
    expect_error([&] { read_binary(bytes); }, code, {"of a graph in binary form: ", text});
  };
  // An attribute of another kind, an operand too few, one result too many.
  refused(file(1, raw({1, 3, kFlag, 2, 1}), raw({0})), ErrorCode::kInvalidArgument,
          "this is no call of version 1 of op 'samples.versioned_sample': ");
  refused(file(1, kVersion1, raw({0}), raw({0})), ErrorCode::kInvalidArgument,
          "this is no call of version 2 of op 'samples.versioned_sample': ");
  refused(file(1, kVersion1, raw({0}), raw({1, 1}), 2), ErrorCode::kDataLoss,
          "versioned_sample has 1 results, but 2 here");
  refused(file(3, raw({1, 7, kReal, 2}) + real_bytes(4), raw({0}), raw({2, 1, 1}), 1, 3),
          ErrorCode::kDataLoss, "versioned_sample has 2 results, but 1 here");
  // Operands that the present version refuses.
  refused(file(1, kVersion1, raw({0}), raw({2, 1, 1})), ErrorCode::kInvalidArgument,
          "versioned_sample");
}

}  // namespace
}  // namespace etude::saved_test
