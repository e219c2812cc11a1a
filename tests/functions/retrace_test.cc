// SPDX-License-Identifier: Apache-2.0
// The warning about functions that are traced again and again.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/base/warning.h"
#include "etude/etude.h"
#include "tests/expect_error.h"
#include "tests/warnings.h"

namespace etude::retrace_test {
namespace {

using tests::contains;

class Retraces : public ::testing::Test {
 private:
  const tests::Warnings heard_;

 protected:
  const std::vector<std::string>& said = heard_.told;
};

// spec: TC-16.a
TEST_F(Retraces, WarnAtTheFifthTraceWithinTenCalls) {
  const auto f = function([](const Tensor& x, int k) { return x * static_cast<float>(k); },
                          {.name = "scale", .arg_names = {"x", "k"}});
  for (int k = 1; k <= 4; ++k) f(Tensor(1.0F), k);
  EXPECT_TRUE(said.empty());
  f(Tensor(1.0F), 5);
  ASSERT_EQ(said.size(), 1u);
  for (const char* part :
       {"function 'scale' was traced 5 times within 10 calls, the last time at ",
        "retrace_test.cc:", "k is 5, was 1 in trace 1", "Usual causes: a number of the host",
        "shapes that host code looks at", "function() inside a loop"}) {
    EXPECT_TRUE(contains(said[0], part)) << part << "\n" << said[0];
  }
  for (int k = 6; k < 40; ++k) f(Tensor(1.0F), k);
  EXPECT_EQ(said.size(), 2u);
}

// spec: TC-16.a
TEST_F(Retraces, AreNoMatterIfTheyAreRare) {
  const auto f = function([](const Tensor& x, int k) { return x * static_cast<float>(k); });
  for (int i = 0; i < 60; ++i) f(Tensor(1.0F), i / 3);
  EXPECT_TRUE(said.empty());
}

// spec: TC-16.b
TEST_F(Retraces, OfFunctionsMadeAtOneLineCountTogether) {
  for (int i = 0; i < 5; ++i) {
    const auto f = function([](const Tensor& x) { return x + 1.0F; });
    f(Tensor(1.0F));
  }
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(contains(said[0], "it is made again for each call")) << said[0];
}

// spec: TC-16.b
TEST_F(Retraces, OfOtherCallablesMadeAtOneLineDoNot) {
  const auto stage = [](auto f) { return function(std::move(f)); };
  stage([](const Tensor& x) { return x + 1.0F; })(Tensor(1.0F));
  stage([](const Tensor& x) { return x + 2.0F; })(Tensor(1.0F));
  stage([](const Tensor& x) { return x + 3.0F; })(Tensor(1.0F));
  stage([](const Tensor& x) { return x + 4.0F; })(Tensor(1.0F));
  stage([](const Tensor& x) { return x + 5.0F; })(Tensor(1.0F));
  EXPECT_TRUE(said.empty());
}

TEST_F(Retraces, NameTheValuesThatDiffer) {
  struct Mode {
    bool training = true;
    std::string activation = "relu";
    double rate = 0.5;
  };
  const auto f =
      function([](const Tensor& x, const Mode&) { return x + 1.0F; }, {.arg_names = {"x", "mode"}});
  f(Tensor(1.0F), {});
  f(Tensor(1.0F), {.training = false});
  EXPECT_TRUE(contains(f.explain(), "mode/training is false, was true in trace 1")) << f.explain();
  f(Tensor(1.0F), {.training = false, .activation = "gelu"});
  EXPECT_TRUE(contains(f.explain(), "mode/activation is 'gelu', was 'relu' in trace 2"))
      << f.explain();
  f(Tensor(1.0F), {.training = false, .activation = "gelu", .rate = 0.25});
  EXPECT_TRUE(contains(f.explain(), "mode/rate is 0.25, was 0.5 in trace 3")) << f.explain();
}

// A model of many tensors: the text shows the inputs that differ, a few others, and how many more.
TEST_F(Retraces, ExplainIsShortByDefault) {
  const auto f = function([](const std::vector<Tensor>& w, const Tensor& x) { return x + w[0]; },
                          {.name = "f", .arg_names = {"w", "x"}, .relax_shapes = false});
  const std::vector<Tensor> weights(300, ones({}));
  for (const int64_t n : {2, 3}) f(weights, ones({n}));
  const std::string text = f.explain();
  EXPECT_TRUE(contains(text, "trace 1 (x: float32[2], w: float32[], w_1: float32[], ")) << text;
  EXPECT_TRUE(contains(text, "trace 2 (x: float32[3], w: float32[], w_1: float32[], ")) << text;
  EXPECT_TRUE(contains(text, "w_6: float32[], and 293 more), 1 nodes: ")) << text;
  EXPECT_TRUE(contains(text, "x is float32[3], was float32[2] in trace 1")) << text;
  EXPECT_LT(text.size(), 1000u);
  const std::string all = f.explain({.all = true});
  EXPECT_TRUE(contains(all, "w_298: float32[], w_299: float32[], x: float32[3])")) << all;
}

TEST_F(Retraces, ExplainShowsTheLatestGraphs) {
  const auto f = function([](int k, const Tensor& x) { return x * static_cast<float>(k); });
  for (int k = 0; k < 20; ++k) f(k, Tensor(2.0F));
  const std::string text = f.explain();
  EXPECT_TRUE(contains(text,
                       "20 traces\ntraces 1 to 4: explain({.all = true}) shows them\n"
                       "trace 5 ("))
      << text;
  EXPECT_TRUE(contains(text, "\ntrace 20 (")) << text;
  EXPECT_TRUE(contains(f.explain({.all = true}), "20 traces\ntrace 1 ("));
}

}  // namespace
}  // namespace etude::retrace_test
