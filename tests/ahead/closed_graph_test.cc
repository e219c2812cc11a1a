// SPDX-License-Identifier: Apache-2.0
// Graphs with the values of their captures, and the errors for values that do not fit.
#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

TEST(ClosedGraph, HoldsItsCaptures) {
  const Tensor weights = ones({2, 3}) * 0.5F;
  const auto f = function([&](const Tensor& x) { return matmul(x, weights); }, {.name = "f"});
  const Tensor x = ones({4, 2}), y = f(x);
  const auto trace = f.traces()[0];
  const GraphRef whole = closed_graph(trace.graph(), trace.captures());
  ASSERT_EQ(whole->inputs().size(), 1U);
  EXPECT_EQ(interpret(*whole, std::vector<Tensor>{x})[0].to_string(), y.to_string());
  const auto close = [&](const std::vector<Tensor>& captures) {
    closed_graph(trace.graph(), captures);
  };
  tests::expect_error([&] { close({}); }, ErrorCode::kInvalidArgument,
                      {"graph 'f' has 1 captures, but 0 were given. Give the captures of the "
                       "trace that made it"});
  tests::expect_error([&] { close({ones({2})}); }, ErrorCode::kInvalidArgument,
                      {"capture 0 of graph 'f', ", "is float32[2,3], but float32[2] was given"});
}

}  // namespace
}  // namespace etude
