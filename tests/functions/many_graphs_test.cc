// SPDX-License-Identifier: Apache-2.0
// Functions with many graphs: each call finds its own, the number is bounded, and a call does not
// take longer because there are others.
#include <string>

#include <gtest/gtest.h>

#include "etude/etude.h"

namespace etude {
namespace {

TEST(ManyGraphs, EachCallFindsItsGraph) {
  int traced = 0;
  const auto f = function([&traced](int k, const Tensor& x) {
    ++traced;
    return x * float(k);
  });
  const Tensor x = ones({2}), y = ones({2, 2});
  for (int k = 0; k < 300; ++k) EXPECT_EQ(f(k, x).to_vector<float>()[0], float(k));
  for (int k = 0; k < 300; ++k) EXPECT_EQ(f(k, y).to_vector<float>()[3], float(k));
  const int before = traced;
  for (int k = 299; k >= 0; --k) {
    EXPECT_EQ(f(k, x).to_vector<float>()[1], float(k));
    EXPECT_EQ(f(k, y).to_vector<float>()[1], float(k));
  }
  EXPECT_EQ(traced, before);
  {
    const PhaseScope training(Phase::kTraining);
    EXPECT_EQ(f(7, x).to_vector<float>()[0], 7.0F);
    EXPECT_GT(traced, before);  // another phase, another graph
  }
}

TEST(ManyGraphs, TheLeastRecentlyUsedAreDropped) {
  int traced = 0;
  const auto f = function(
      [&traced](int k, const Tensor& x) {
        ++traced;
        return x * float(k);
      },
      {.name = "f", .max_traces = 100});
  std::string text;
  int warnings = 0;
  const WarningHandler handler = set_warning_handler([&](std::string_view message) {
    if (message.find("the maximum") == std::string_view::npos) return;
    text = message;
    ++warnings;
  });
  const Tensor x = ones({2});
  for (int k = 0; k < 100; ++k) f(k, x);
  EXPECT_EQ(warnings, 0);
  for (int k = 100; k < 400; ++k) {
    f(k, x);
    f(3, x);  // always in use
  }
  set_warning_handler(handler);
  EXPECT_LE(f.trace_count(), 100U);
  EXPECT_EQ(traced, 400);  // the graph of 3 was never dropped
  f(398, x);
  EXPECT_EQ(traced, 400);
  f(50, x);
  EXPECT_EQ(traced, 401);
  EXPECT_EQ(warnings, 1);
  EXPECT_NE(text.find("function 'f' has 100 graphs, the maximum (FunctionOptions::max_traces)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("Pass it as a tensor"), std::string::npos) << text;
}

TEST(ManyGraphs, EachCallFindsItsOwn) {
  const auto f = function([](int k, const Tensor& x) { return x * float(k); });
  const Tensor x = ones({4});
  constexpr int kGraphs = 3000;
  for (int k = 0; k < kGraphs; ++k) f(k, x);
  for (int i = 0; i < 500; ++i) {
    const int k = (i * 7919) % kGraphs;
    EXPECT_EQ(f(k, x).to_vector<float>()[3], static_cast<float>(k));
  }
  EXPECT_EQ(f.trace_count(), static_cast<std::size_t>(kGraphs));
}

// Graphs that differ in sizes alone become one graph, also among many graphs of other numbers.
TEST(ManyGraphs, SizesBecomeOneGraphAmongMany) {
  const auto f = function([](const Tensor& x, int k) { return x * static_cast<float>(k); });
  for (int k = 0; k < 100; ++k) f(ones({4, 3}), k);
  for (const int64_t n : {5, 6, 7, 9}) {
    EXPECT_EQ(sum(f(ones({n, 3}), 50)).item<float>(), static_cast<float>(150 * n));
  }
  EXPECT_EQ(f.trace_count(), 101U);
}

}  // namespace
}  // namespace etude
