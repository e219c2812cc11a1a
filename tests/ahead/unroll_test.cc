// SPDX-License-Identifier: Apache-2.0
// Loops of models: they are unrolled with the same bits, within a limit.
#include "etude/aot/unroll.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/graph/builder.h"

namespace etude {
namespace {

// Also of the graphs in attributes.
std::size_t loops_in(const Graph& graph) {
  std::size_t out = 0;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    out += node.op.full_name() == "internal.scan" ? 1 : 0;
    if (node.op.def().body == "body") {
      out += loops_in(dynamic_cast<const Graph&>(node.attrs.object("body")));
    }
  }
  return out;
}

template <class F>
GraphRef graph_of(const F& f, const Tensor& x) {
  const auto staged = function([&](const Tensor& given) { return f(given); }, {.name = "f"});
  staged(x);
  const auto trace = staged.traces()[0];
  return closed_graph(trace.graph(), trace.captures());
}

// The loops of f are unrolled, and the graph computes the same values as f does eagerly.
template <class F>
void expect_unrolled(const F& f, const Tensor& x) {
  const GraphRef graph = graph_of(f, x), straight = aot::unrolled(*graph);
  EXPECT_GT(loops_in(*graph), 0U);
  EXPECT_EQ(loops_in(*straight), 0U) << straight->to_string();
  // A staged loop has a key of random numbers as an input. These loops draw none.
  std::vector<Tensor> inputs = {x};
  while (inputs.size() < straight->inputs().size())
    inputs.push_back(zeros({2}, {.dtype = kUInt64}));
  const Tensor got = interpret(*straight, inputs)[0], want = f(x);
  EXPECT_EQ(got.type(), want.type());
  EXPECT_TRUE(array_equal(got, want).item<bool>());
}

std::pair<Tensor, Tensor> step(const Tensor& state, const Tensor& row) {
  return {tanh(state * 0.5F + row), state + row};
}
Tensor sums(const Tensor& rows) {
  const auto [last, all] = scan(step, zeros({3}), rows);
  return all * last;
}

TEST(Unroll, ALoopBecomesItsSteps) {
  const Tensor x = random::normal({5, 3});
  expect_unrolled(sums, x);
  expect_unrolled([](const Tensor& rows) { return scan(step, zeros({3}), rows).first; }, x);
}

TEST(Unroll, AReverseLoopBecomesItsSteps) {  // the derivative of a loop
  expect_unrolled(
      [](const Tensor& x) { return gradient([](const Tensor& r) { return sum(sums(r)); }, x); },
      random::normal({5, 3}));
}

TEST(Unroll, LoopsInLoopsAndInCalls) {
  const auto inner = function([](const Tensor& rows) { return sum(sums(rows), {.axis = 0}); });
  expect_unrolled(
      [&](const Tensor& x) {
        return scan(
                   [&](const Tensor& state, const Tensor& rows) {
                     const Tensor next = state + inner(rows);
                     return std::pair(next, next * 2.0F);
                   },
                   zeros({3}), x)
            .second;
      },
      random::normal({4, 5, 3}));
}

TEST(Unroll, LayersOfSequences) {
  set_seed(3);
  const nn::Bidirectional<nn::LSTMCell> layer(nn::LSTMCell(4, 6), nn::LSTMCell(4, 6));
  expect_unrolled([&](const Tensor& x) { return layer(x); }, random::normal({2, 7, 4}));
}

TEST(Unroll, ALoopBeyondTheLimitStays) {
  const Tensor x = random::normal({50, 3});
  const GraphRef graph = graph_of(sums, x);
  const std::size_t nodes = aot::unrolled(*graph)->size();
  EXPECT_GT(nodes, 50U);
  EXPECT_EQ(loops_in(*aot::unrolled(*graph, nodes / 2)), 1U);
  EXPECT_EQ(loops_in(*aot::unrolled(*graph, 2 * nodes)), 0U);
  // A graph without loops is returned as it is.
  const GraphRef plain = graph_of([](const Tensor& v) { return v + 1.0F; }, x);
  EXPECT_EQ(aot::unrolled(*plain).get(), plain.get());
}

TEST(Unroll, ALoopWithoutAStepStays) {
  const GraphRef graph = graph_of(sums, zeros({0, 3}));
  EXPECT_EQ(loops_in(*aot::unrolled(*graph)), 1U);
}

}  // namespace
}  // namespace etude
