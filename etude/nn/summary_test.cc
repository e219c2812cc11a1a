// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/summary.h"

#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>

#include <gtest/gtest.h>

#include "etude/base/error.h"
#include "etude/nn/layers/attention.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/sequential.h"
#include "etude/nn/precision.h"
#include "etude/ops.h"
#include "tests/expect_error.h"

namespace etude::nn::summary_test {
namespace {

using etude::tests::thrown_by;

// Layers wherever a structure may hold them.
struct Holder {
  std::map<std::string, Dense> named{{"first", Dense(2, 3)}};
  std::unordered_map<std::string, Dense> hashed{{"second", Dense(3, 4)}};
  std::optional<Dense> maybe{Dense(4, 5)};
  std::optional<Dense> nothing;
  std::deque<Dense> queue{Dense(5, 6)};
  std::pair<Flatten, Dense> both{Flatten(), Dense(6, 7)};
  std::variant<Dense, Flatten> either{Dense(7, 8)};
  std::map<std::string, std::vector<std::optional<Dense>>> deep{{"list", {Dense(8, 9)}}};

  Tensor operator()(const Tensor& x) const {
    const Tensor y =
        both.second(both.first(queue[0]((*maybe)(hashed.at("second")(named.at("first")(x))))));
    return (*deep.at("list")[0])(std::get<Dense>(either)(y));
  }
};

TEST(Summary, FindsLayersInContainersOfAllKinds) {
  const Summary found = summary(Holder(), {1, 2});
  std::vector<std::string> paths;
  int64_t parameters = 0;
  for (const LayerSummary& layer : found.layers) {
    paths.push_back(layer.path);
    parameters += layer.parameters;
    EXPECT_EQ(layer.parameters > 0, layer.kind == "Dense") << layer.path;
    EXPECT_EQ(layer.bytes, 4 * layer.parameters) << layer.path;
  }
  EXPECT_EQ(paths, (std::vector<std::string>{"named/first", "hashed/second", "maybe", "queue/0",
                                             "both/0", "both/1", "either", "deep/list/0"}));
  EXPECT_EQ(parameters, found.parameters);
}

struct Embedded {
  Tensor table = ones({10, 4});
  Dense output{4, 2};
  Tensor operator()(const Tensor& words) const { return output(take(table, words, {.axis = 0})); }
};

// A layer whose first field is a layer, a layer next to an empty layer in a tuple, and layers of
// both kinds in a Precision: two objects at one address.
struct Shared {
  MultiHeadAttention attention{4, 2};
  Sequential<Flatten, Dense, Flatten, Dense> tail{Flatten(), Dense(8, 3), Flatten(), Dense(3, 2)};
  Tensor operator()(const Tensor& x) const { return tail(attention(x)); }
};

void expect_shared(const Summary& found, const std::string& prefix) {
  // Four maps of 4 to 4 with biases, one of 8 to 3, one of 3 to 2.
  std::map<std::string, std::pair<std::string, int64_t>> want{
      {"attention", {"MultiHeadAttention", 80}},
      {"tail/layers/0", {"Flatten", 0}},
      {"tail/layers/1", {"Dense", 27}},
      {"tail/layers/2", {"Flatten", 0}},
      {"tail/layers/3", {"Dense", 8}}};
  for (const LayerSummary& layer : found.layers) {
    if (layer.kind == "Precision" || layer.path.find("attention/") != std::string::npos) continue;
    ASSERT_TRUE(layer.path.starts_with(prefix)) << layer.path;
    const auto at = want.find(layer.path.substr(prefix.empty() ? 0 : prefix.size() + 1));
    ASSERT_NE(at, want.end()) << layer.path << " " << layer.kind;
    EXPECT_EQ(layer.kind, at->second.first) << layer.path;
    EXPECT_EQ(layer.parameters, at->second.second) << layer.path;
    want.erase(at);
  }
  EXPECT_TRUE(want.empty());
}

TEST(Summary, TellsLayersAtOneAddressApart) {
  expect_shared(summary(Shared(), {1, 2, 4}), "");
  expect_shared(summary(Precision<Shared>(Shared()), {1, 2, 4}), "layer");
}

// If a class derived from a layer calls the layer's operator, both are one layer.
struct Louder : Dense {
  Louder() : Dense(2, 3) {}
  Tensor operator()(const Tensor& x) const { return 2.0F * Dense::operator()(x); }
  ETUDE_FIELDS(Louder, weight, bias);
};
struct HasLouder {
  Louder first;
  Tensor operator()(const Tensor& x) const { return first(x); }
};

TEST(Summary, FindsTheBaseOfALayer) {
  const Summary found = summary(HasLouder(), {1, 2});
  ASSERT_EQ(found.layers.size(), 1U);
  EXPECT_EQ(found.layers[0].path, "first");
  EXPECT_EQ(found.layers[0].parameters, 9);
}

TEST(Summary, TakesInputsOfAnyDtype) {
  const Summary found = summary(Embedded(), {{8, 20}, kInt32});
  EXPECT_EQ(found.result, (Shape{8, 20, 2}));
  EXPECT_EQ(found.layers.at(0).path, "output");
  EXPECT_EQ(found.parameters, 50);
}

TEST(Summary, ErrorsHaveOpAndLine) {
  const Error wrong = thrown_by([] { summary(Embedded(), {8, 20}); });
  EXPECT_EQ(wrong.op(), "take");
  EXPECT_STREQ(wrong.where().file, __FILE__);
  EXPECT_NE(std::string(wrong.what()).find("take: operand 'indices' is float32"), std::string::npos)
      << wrong.what();
  const Error unknown = thrown_by([] { summary(Embedded(), {{kAny, 20}, kInt32}); });
  EXPECT_NE(std::string(unknown.what()).find("has an unknown size"), std::string::npos);
  EXPECT_STREQ(unknown.where().file, __FILE__);
  const Lambda twice([](const Tensor& x) { return x + ones({3}); });
  const Error inside = thrown_by([&] { summary(std::pair{twice, 1}.first, {2}); });
  EXPECT_NE(std::string(inside.what()).find("Lambda: add: operands 'x1' and 'x2'"),
            std::string::npos)
      << inside.what();
  EXPECT_STREQ(inside.where().file, __FILE__);
}

}  // namespace
}  // namespace etude::nn::summary_test
