// SPDX-License-Identifier: Apache-2.0
// Calls that ONNX has no operator for come back as the same calls, unless another program changed
// their nodes.
#include "etude/onnx/formula.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/onnx/onnx.h"
#include "tests/onnx/model_reader.h"
#include "tests/temp_folder.h"

namespace etude::onnx_test {
namespace {

namespace fs = std::filesystem;
using onnx::internal::Places;

class OnnxFormulas : public ::testing::Test {
 protected:
  fs::path file() const { return folder_.path() / "model.onnx"; }
  void replace(const std::string& from, const std::string& to) const {
    std::string bytes = content_of(file());
    const std::size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, from.size(), to);
    std::ofstream(file(), std::ios::binary) << bytes;
  }
  saved::Function loaded() const { return onnx::load(file()).function("predict"); }
  static std::string graph_of(const saved::Function& f) { return f.graphs()[0].to_string(); }
  const internal::TempFolder folder_;
};

bool same_bits(const Tensor& a, const Tensor& b) { return array_equal(a, b).item<bool>(); }

Tensor attended(const Tensor& x) {
  return nn::scaled_dot_product_attention(x, x * 2, x + 1, {.causal = true});
}

// The sizes are open, so the file computes numbers of the formula.
TEST_F(OnnxFormulas, AttentionIsOneCallForAllSizes) {
  const auto f = function(attended, {.name = "predict", .arg_names = {"x"}});
  f(zeros({2, 3, 4}));
  f(zeros({3, 5, 4}));
  onnx::save(file(), f);
  const ReadModel model = read_model(file());
  EXPECT_GT(model.nodes.size(), 10U);
  const saved::Function again = loaded();
  EXPECT_NE(graph_of(again).find("internal.attention("), std::string::npos) << graph_of(again);
  EXPECT_EQ(graph_of(again).find("exp("), std::string::npos) << graph_of(again);
  const auto typed = again.as<Tensor(const Tensor&)>();
  for (const int64_t n : {1, 2, 7}) {
    const Tensor x = random::normal({n, n + 2, 4});
    EXPECT_TRUE(same_bits(typed(x), attended(x))) << n;
  }
}

TEST_F(OnnxFormulas, ElementwiseCallsAreOneCallEach) {
  const auto f = function([](const Tensor& x) { return nn::gelu(x) + log1p(abs(x)); },
                          {.name = "predict", .arg_names = {"x"}});
  const Tensor x = random::normal({50});
  const Tensor want = f(x);
  onnx::save(file(), f);
  const saved::Function again = loaded();
  EXPECT_NE(graph_of(again).find("log1p("), std::string::npos) << graph_of(again);
  EXPECT_TRUE(same_bits(again.as<Tensor(const Tensor&)>()(x), want));
}

// Another program that changes a node, a constant or the metadata changes the model.
TEST_F(OnnxFormulas, ChangedNodesAreReadAsTheyAre) {
  const auto f =
      function([](const Tensor& x) { return log2(x); }, {.name = "predict", .arg_names = {"x"}});
  const Tensor x = random::uniform({50}) + 0.5F;
  f(x);
  const auto result = [&] { return loaded().as<Tensor(const Tensor&)>()(x); };
  const auto save = [&] { onnx::save(file(), f); };
  save();
  EXPECT_TRUE(same_bits(result(), log2(x)));
  const auto ln2 = static_cast<float>(std::log(2.0));
  std::string one(4, '\0'), two(4, '\0');
  std::memcpy(one.data(), &ln2, 4);
  const float other = 4;
  std::memcpy(two.data(), &other, 4);
  replace(one, two);
  EXPECT_TRUE(same_bits(result(), log(x) / 4.0F));
  save();
  replace("\x22\x03Log",
          "\x22\x03"
          "Exp");  // the field of the operator
  EXPECT_TRUE(same_bits(result(), exp(x) / ln2));
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"log2(x0)", "log3(x0)"},
                                                        {"log2(x0)", "exp2(x0)"},
                                                        {"log2(x0)", "log2(x0,"},
                                                        {"log2(x0)", "\nlog2(x0"},
                                                        {"log2(x0)", "log2(x1)"},
                                                        {"2; 0.0; 1.0", "2; 1.0; 1.0"},
                                                        {"2; 0.0; 1.0", "2; 0.9; 1.0"},
                                                        {"2; 0.0; 1.0", "2; 0.0; 0.0"},
                                                        {"2; 0.0; 1.0", "9; 0.0; 1.0"},
                                                        {"2; 0.0; 1.0", "1; 0.0; 1.0"},
                                                        {"2; 0.0; 1.0", "2; 0.0;    "}}) {
    save();
    replace(from, to);
    EXPECT_TRUE(same_bits(result(), log(x) / ln2)) << to;
  }
}

TEST_F(OnnxFormulas, PlacesAreReadAgain) {
  const Places places{5, {{0, 1}, {3, 0}}, {onnx::internal::Place{4, 0}, std::nullopt}};
  const std::string text = onnx::internal::places_text(places);
  EXPECT_EQ(text, "5; 0.1 3.0; 4.0 -");
  EXPECT_EQ(onnx::internal::places_text(*onnx::internal::parse_places(text)), text);
  EXPECT_EQ(onnx::internal::places_text(*onnx::internal::parse_places("1; ; 0.0")), "1; ; 0.0");
  for (const char* wrong : {"", "0; 0.0; 0.0", "5", "5; 0.1", "5; 0.1;4.0", "5; 5.0; 4.0", "x",
                            "5; 0.1; 4.0 ", "5; -1.0; 4.0", "99999999999999999999; ; 0.0"}) {
    EXPECT_FALSE(onnx::internal::parse_places(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace etude::onnx_test
