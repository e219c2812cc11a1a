// SPDX-License-Identifier: Apache-2.0
// Descriptions as JSON, and texts that are none: damaged, hostile or of another program.
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "etude/base/error.h"
#include "etude/kinds/kinds.h"
#include "etude/ops.h"

namespace etude::kinds {
namespace {

void expect_refused(ErrorCode code, const std::string& message, const std::string& text) {
  try {
    from_json(text);
    ADD_FAILURE() << "read: " << text.substr(0, 100);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    EXPECT_STREQ(error.where().file, __FILE__);
  }
}

TEST(KindsJson, HoldsAllValuesByName) {
  const Description d = describe("nn.Dense", {3, 4}, {{"activation", "gelu"}});
  EXPECT_EQ(
      to_json(d),
      R"({"kind":"nn.Dense","in":3,"out":4,"activation":{"kind":"nn.gelu","approximate":"none"},)"
      R"("bias":true,"weight_init":"nn.glorot_uniform","bias_init":"nn.zeros"})");
  EXPECT_EQ(from_json(to_json(d)), d);
}

TEST(KindsJson, LeavesOutAreDefaults) {
  EXPECT_EQ(from_json(R"({"kind": "nn.Dense", "out": 4, "in": 3})"), describe("nn.Dense", {3, 4}));
  EXPECT_EQ(from_json(R"("nn.relu")"), describe("nn.relu"));
  EXPECT_EQ(from_json(R"({"kind": "optim.SGD", "lr": 1})"),
            describe("optim.SGD", {}, {{"lr", 1.0}}));
}

TEST(KindsJson, EveryFormOfValueComesBack) {
  const Tensor filter = zeros({2, 2, 1}) + 0.1F;
  const Description dilation = describe("nn.Dilation2D", {filter}, {{"strides", {1, 2}}});
  EXPECT_EQ(from_json(to_json(dilation)), dilation);
  EXPECT_FALSE(dilation == describe("nn.Dilation2D", {filter + 1.0F}, {{"strides", {1, 2}}}));
  const Description policy = describe("nn.PrecisionPolicy", {}, {{"compute", kBFloat16}});
  EXPECT_EQ(from_json(to_json(policy)), policy);
  EXPECT_NE(to_json(policy).find(R"("compute":"bfloat16")"), std::string::npos);
  const Description rate = describe("optim.exponential", {INFINITY, -0.0});
  EXPECT_EQ(to_json(rate), R"({"kind":"optim.exponential","base":"inf","rate":-0.0})");
  EXPECT_EQ(from_json(to_json(rate)), rate);
  const Description nan = describe("nn.constant", {NAN});
  EXPECT_EQ(from_json(to_json(nan)), nan);
  const Description net =
      describe("nn.ConvNet", {Values{}, Values{Description{"nn.Dense", {{"in", 1}, {"out", 2}}}}});
  EXPECT_EQ(from_json(to_json(net)), net);
}

TEST(KindsJson, TextsThatAreNoDescriptions) {
  using enum ErrorCode;
  expect_refused(kDataLoss, "kinds::from_json: this is not JSON", "");
  expect_refused(kDataLoss, "this is not JSON", "{\"kind\": \"nn.Dense\"");
  expect_refused(kDataLoss, "this is not JSON", "{\"kind\": \"nn.\xff\"}");
  expect_refused(kDataLoss, "an object needs a text \"kind\", but this is [1]", "[1]");
  expect_refused(kDataLoss, "an object needs a text \"kind\", but this is {\"in\":3}",
                 R"({"in": 3})");
  expect_refused(kDataLoss, "an object needs a text \"kind\"", R"({"kind": 3})");
  expect_refused(kDataLoss, "\"in\" is there twice", R"({"kind": "nn.Dense", "in": 3, "in": 4})");
  expect_refused(kDataLoss, "18446744073709551615 is larger than an integer of 64 bits",
                 R"({"kind": "nn.Dense", "in": 18446744073709551615, "out": 1})");
  expect_refused(kDataLoss, "dtype", R"({"kind": "nn.Dilation2D", "filter": {"tensor": {}}})");
  expect_refused(kNotFound, "there is no kind 'nn.Danse'. Similar: nn.Dense",
                 R"({"kind": "nn.Danse"})");
  expect_refused(kInvalidArgument, "nn.Dense: 'out' is missing",
                 R"({"kind": "nn.Dense", "in": 3})");
  expect_refused(kInvalidArgument, "nn.Dense: there is no option 'units'",
                 R"({"kind": "nn.Dense", "in": 3, "out": 4, "units": 5})");
  expect_refused(kInvalidArgument, "nn.Dense: 'bias' is none, but must be of type bool",
                 R"({"kind": "nn.Dense", "in": 3, "out": 4, "bias": null})");
}

TEST(KindsJson, TextsThatWouldTakeTooMuch) {
  using enum ErrorCode;
  expect_refused(kResourceExhausted, "it is nested more than 100 levels deep",
                 R"({"kind": "nn.MLP", "sizes": )" + std::string(100000, '['));
  // A name from a file is compared with the names of all kinds. Errors show its beginning.
  const std::string name(1000000, 'n');
  for (const std::string& text :
       {R"({"kind": ")" + name + "\"}", R"({"kind": "nn.Dense", ")" + name + "\": 1}",
        R"({"kind": "nn.Dense", "in": 3, "out": 4, "activation": ")" + name + "\"}"}) {
    try {
      from_json(text);
      ADD_FAILURE() << text.substr(0, 60);
    } catch (const Error& error) {
      EXPECT_LT(std::string_view(error.what()).size(), 2000) << error.what();
    }
  }
  // A search for each key among those before it would take minutes.
  std::string keys = R"({"kind": "nn.Dense")";
  for (int i = 0; i < 300'000; ++i) keys += ", \"k" + std::to_string(i) + "\": 1";
  expect_refused(kInvalidArgument, "nn.Dense: there is no option 'k", keys + "}");
  std::string deep = "0.1";
  for (int i = 0; i < 63; ++i) deep = R"({"kind": "optim.warmup", "T": 1, "then": )" + deep + "}";
  EXPECT_NO_THROW(from_json(deep));
  std::string many = R"({"kind": "nn.MLP", "sizes": [)";
  for (int i = 0; i < 10'000; ++i) many += "1,";
  const ReadLimits before = set_read_limits({.free_bytes = 1000, .bytes_per_byte = 1});
  expect_refused(kResourceExhausted, "bytes of memory, which is the limit for a file of this size",
                 many + "1]}");
  set_read_limits(before);
  // Huge sizes are a description; no memory is taken for it.
  EXPECT_NO_THROW(from_json(R"({"kind": "nn.Dense", "in": 1000000000000, "out": 1000000000000})"));
}

// Cut at each byte, and with each bit of each byte changed: a description or an error.
TEST(KindsJson, DamagedTexts) {
  const std::string text = to_json(describe("nn.Conv2D", {{3, 3}, 1, 2}, {{"activation", "relu"}}));
  const auto read = [](const std::string& damaged) {
    try {
      const Description d = from_json(damaged);
      EXPECT_EQ(from_json(to_json(d)), d) << damaged;
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << damaged << error.what();
    }
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    read(text.substr(0, i));
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      read(damaged);
    }
  }
}

}  // namespace
}  // namespace etude::kinds
