// SPDX-License-Identifier: Apache-2.0
// Edges alone order the effects of a graph: calls that need no order have no path between them, so
// that a plan may run them side by side.
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/op/op.h"
#include "etude/etude.h"

namespace etude {
namespace {

// Whether `later` reads a result of `first`, directly or through other nodes.
bool depends_on(const Graph& graph, std::size_t later, std::size_t first) {
  std::vector<bool> reached(graph.value_count(), false);
  for (std::size_t i = first; i <= later; ++i) {
    const Graph::Node node = graph.node(i);
    bool is_reached = i == first;
    for (const GraphValue v : node.operands) {
      if (v != kNoValue && reached[static_cast<std::size_t>(v)]) is_reached = true;
    }
    if (i == later) return is_reached && i != first;
    for (uint32_t r = 0; is_reached && r < node.results; ++r) {
      reached[static_cast<std::size_t>(node.first_result) + r] = true;
    }
  }
  return false;
}

std::vector<std::size_t> nodes_of(const Graph& graph, std::string_view op) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    if (graph.node(i).op.name() == op) out.push_back(i);
  }
  return out;
}

// spec: CD-03.b
TEST(Ordering, DifferentVariablesAreNotOrdered) {
  Variable a(1.0), b(10.0);
  const auto f = function([&](const Tensor& x) {
    a.assign(tanh(x));
    b.assign(exp(x));
    a.assign(tanh(a * x));
  });
  f(2.0);
  const GraphFunction made = f.traces().front();
  const auto tanhs = nodes_of(made.graph(), "tanh"), exps = nodes_of(made.graph(), "exp");
  ASSERT_EQ(tanhs.size(), 2u);
  ASSERT_EQ(exps.size(), 1u);
  EXPECT_FALSE(depends_on(made.graph(), exps[0], tanhs[0]));
  EXPECT_FALSE(depends_on(made.graph(), tanhs[1], exps[0]));
  EXPECT_TRUE(depends_on(made.graph(), tanhs[1], tanhs[0]));  // the same Variable
}

// spec: CD-05.e
TEST(Ordering, FunctionsThatOnlyReadRunBesideEachOther) {
  Variable v(3.0);
  const auto reads = function([&](const Tensor& x) { return sinh(v * x); });
  const auto writes = function([&](const Tensor& x) { v.assign(cosh(v + x)); });
  const auto f = function([&](const Tensor& x) {
    const Tensor a = reads(x), b = reads(x + 1.0F);
    writes(x);
    return a + b + reads(x);
  });
  f(0.5);
  const GraphFunction made = f.traces().front();
  const auto calls = nodes_of(made.graph(), "call");
  ASSERT_EQ(calls.size(), 4u) << made.graph().name();
  EXPECT_FALSE(depends_on(made.graph(), calls[1], calls[0]));
  EXPECT_FALSE(depends_on(made.graph(), calls[2], calls[1]));
  EXPECT_TRUE(depends_on(made.graph(), calls[3], calls[2]));
}

// spec: CD-10.a
TEST(Ordering, DrawsWithAKeyAreNotChained) {
  const auto f = function([](const Tensor& key) {
    return random::normal({3}, {.key = key}) + random::normal({3}, {.key = key});
  });
  f(random::key(4));
  const GraphFunction made = f.traces().front();
  std::vector<std::size_t> draws;
  for (std::size_t i = 0; i < made.graph().size(); ++i) {
    if (made.graph().node(i).op.name().find("normal") != std::string_view::npos) draws.push_back(i);
  }
  for (std::size_t i = 1; i < draws.size(); ++i) {
    EXPECT_FALSE(depends_on(made.graph(), draws[i], draws[0]));
  }
  EXPECT_TRUE(same_value(f(random::key(4)), 2.0F * random::normal({3}, {.key = random::key(4)})));
  EXPECT_TRUE(same_value(f(random::key(4)), f(random::key(4))));
}

}  // namespace
}  // namespace etude
