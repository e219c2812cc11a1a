// SPDX-License-Identifier: Apache-2.0
// Symbolic graphs of graphs: the graphs of programs at two sizes form a symbolic graph, which has
// the bits of eager calls at twenty further sizes.
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/graph/symbolic_graph.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using Tensors = std::vector<Tensor>;
using Sizes = std::vector<int64_t>;

// A program of tensors whose sizes follow from a few numbers.
struct Case {
  std::string name;
  std::function<Tensors(const Sizes&)> inputs;
  std::function<Tensors(const Tensors&)> run;
  std::vector<Sizes> traced = {{8}, {12}};
  int64_t step = 1;  // of the sizes that are checked
};

Tensor random_like(const Shape& shape, int seed) {
  const SeedScope scope(static_cast<uint64_t>(seed));
  return random::normal(shape);
}

Tensor attention(const Tensor& x, const Tensor& wq, const Tensor& wk, const Tensor& wv) {
  const Tensor q = matmul(x, wq), k = matmul(x, wk), v = matmul(x, wv);
  const Tensor scores = matmul(q, k, {.transpose_y = true}) * 0.35F;
  // Later positions are not seen.
  const Tensor at = cumulative_sum(ones_like(scores), {.axis = -1});
  const Tensor from = cumulative_sum(ones_like(scores), {.axis = -2});
  const Tensor masked = where(at <= from, scores, full_like(scores, -1e9F));
  return matmul(nn::softmax(masked), v);
}

Tensor normalized(const Tensor& x) {
  const Tensor centred = x - mean(x, {.axis = {-1}, .keepdims = true});
  const Tensor spread = mean(square(centred), {.axis = {-1}, .keepdims = true});
  return centred / sqrt(spread + 1e-5F);
}

Tensors block_step(const Tensors& in) {
  const auto loss = [&](const Tensor& w1, const Tensor& w2, const Tensor& wq) {
    const Tensor& x = in[0];
    const Tensor seen = x + attention(normalized(x), wq, in[2], in[3]);
    const Shape shape = seen.shape();
    const Tensor rows = reshape(normalized(seen), {shape[0] * shape[1], shape[2]});
    const Tensor out = reshape(matmul(nn::gelu(matmul(rows, w1)), w2), shape);
    return mean(square(seen + out));
  };
  const auto [a, b, c] = gradient(loss, in[4], in[5], in[1]);
  return {loss(in[4], in[5], in[1]), a, b, c};
}

Tensors net_step(const Tensors& in) {
  const auto loss = [&](const Tensor& k1, const Tensor& k2, const Tensor& w) {
    const Tensor c1 = nn::max_pool2d(nn::relu(nn::conv2d(in[0], k1)), 2);
    const Tensor c2 = nn::max_pool2d(nn::relu(nn::conv2d(c1, k2)), 2);
    const Tensor flat = reshape(c2, {c2.shape()[0], c2.shape()[1] * c2.shape()[2] * c2.shape()[3]});
    return mean(square(matmul(flat, w)));
  };
  const auto [a, b, c] = gradient(loss, in[1], in[2], in[3]);
  return {loss(in[1], in[2], in[3]), a, b, c};
}

std::vector<Case> cases() {
  std::vector<Case> out;
  out.push_back({"mean over the batch, with its gradient",
                 [](const Sizes& s) {
                   return Tensors{random_like({s[0], 3}, 1)};
                 },
                 [](const Tensors& in) {
                   return Tensors{gradient([](const Tensor& x) { return mean(square(x)); }, in[0]),
                                  var(in[0], {.axis = {0}})};
                 }});
  out.push_back({"a step of a small network",
                 [](const Sizes& s) {
                   return Tensors{random_like({s[0], 6}, 1), random_like({6, 5}, 2),
                                  random_like({5, 2}, 3), random_like({s[0], 2}, 4)};
                 },
                 [](const Tensors& in) {
                   const auto [a, b] = gradient(
                       [&](const Tensor& w, const Tensor& v) {
                         return mean(square(matmul(tanh(matmul(in[0], w)), v) - in[3]));
                       },
                       in[1], in[2]);
                   return Tensors{in[1] - 0.1F * a, in[2] - 0.1F * b};
                 }});
  out.push_back({"a convolutional network",
                 [](const Sizes& s) {
                   return Tensors{random_like({s[0], 12, 12, 1}, 1), random_like({3, 3, 1, 4}, 2),
                                  random_like({3, 3, 4, 4}, 3), random_like({4, 3}, 4)};
                 },
                 net_step,
                 {{4}, {6}}});
  out.push_back({"a block of a transformer",
                 [](const Sizes& s) {
                   return Tensors{random_like({s[0], s[1], 8}, 1), random_like({8, 8}, 2),
                                  random_like({8, 8}, 3),          random_like({8, 8}, 4),
                                  random_like({8, 16}, 5),         random_like({16, 8}, 6)};
                 },
                 block_step,
                 {{4, 6}, {5, 9}}});
  out.push_back({"shapes that follow from two sizes",
                 [](const Sizes& s) {
                   return Tensors{random_like({s[0], s[1], 4}, 1)};
                 },
                 [](const Tensors& in) {
                   const Shape shape = in[0].shape();
                   const Tensor flat = reshape(in[0], {shape[0] * shape[1], 4});
                   const Tensor both = concat({flat, flat});
                   return Tensors{both, reshape(both, {-1}), sum(flat, {.axis = {1}}),
                                  Tensor(in[0]).at(slice(1, shape[0] - 1))};
                 },
                 {{4, 7}, {6, 10}}});
  return out;
}

// The graph of the program at these sizes.
GraphRef graph_at(const Case& c, const Sizes& sizes) {
  const auto f = function<Tensors(const Tensors&)>(c.run, {.name = "f", .relax_shapes = false});
  const GraphFunction made = f.trace(c.inputs(sizes));
  EXPECT_TRUE(made.captures().empty()) << c.name;
  return GraphRef(&made.graph());
}

TEST(SymbolicShapes, GiveTheBitsOfEagerCallsAtFurtherSizes) {
  int covered = 0, refused = 0;
  for (const Case& c : cases()) {
    std::vector<GraphRef> graphs;
    for (const Sizes& sizes : c.traced) graphs.push_back(graph_at(c, sizes));
    const SymbolicFound found = SymbolicGraph::of(graphs);
    ASSERT_TRUE(found.symbolic) << c.name << ": " << found.difference;
    for (int64_t i = 0; i < 20; ++i) {
      Sizes sizes;
      for (std::size_t k = 0; k < c.traced[0].size(); ++k) {
        sizes.push_back(c.traced[0][k] + i * (static_cast<int64_t>(k) + 1));
      }
      const GraphAtSizes at = found.symbolic->at(sizes);
      if (!at.graph) {
        ++refused;
        ADD_FAILURE() << c.name << " at " << fmt::format("{}", fmt::join(sizes, ",")) << ": "
                      << at.refusal;
        continue;
      }
      ++covered;
      EXPECT_TRUE(at.graph->same(*graph_at(c, sizes))) << c.name;
      const Tensors in = c.inputs(sizes);
      const Tensors got = interpret(*at.graph, in), want = c.run(in);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t r = 0; r < got.size(); ++r) {
        EXPECT_TRUE(same_value(got[r], want[r])) << c.name << ", result " << r;
      }
    }
  }
  RecordProperty("covered", covered);
  RecordProperty("refused", refused);
}

GraphRef parsed(const std::string& text) { return parse_graph(text); }

TEST(SymbolicShapes, SaysWhichNumbersFollow) {
  const auto text = [](int n) {
    return parsed(
        fmt::format("graph f(x: float32[{0},4]) -> (float32[{1}])\n"
                    "  %1 = constant float32[] {2}\n"
                    "  %2 = multiply(x, %1)\n"
                    "  %3 = reshape(%2, shape=[{1}])\n"
                    "  return %3\n",
                    n, 4 * n, 1.0 / n));
  };
  const SymbolicFound found = SymbolicGraph::of(std::vector{text(4), text(8)});
  ASSERT_TRUE(found.symbolic) << found.difference;
  EXPECT_EQ(found.symbolic->to_string(),
            "sizes of f: n is axis 0 of x\n"
            "  x: float32[n,4]\n"
            "  %2: float32[n,4]\n"
            "  %3: float32[4*n]\n"
            "  %1 = constant: element 0 is 1/(n)\n"
            "  %3 = reshape: shape[0] is 4*n\n");
  const SymbolicGraph& symbolic = *found.symbolic;
  const Graph& first = *symbolic.graphs()[0];
  EXPECT_EQ(symbolic.type_text(0), "float32[n,4]");
  EXPECT_EQ(symbolic.type_text(first.first_constant()), "float32[]");
  EXPECT_EQ(symbolic.type_text(first.outputs()[0]), "float32[4*n]");
  const GraphRef at = found.symbolic->at(Sizes{16}).graph;
  ASSERT_TRUE(at);
  EXPECT_TRUE(at->same(*text(16)));
  EXPECT_EQ(found.symbolic->at(Sizes{16}).graph.get(), at.get());
  EXPECT_EQ(found.symbolic->at(Sizes{1}).refusal, "size 1 may broadcast or is 0");
}

TEST(SymbolicShapes, MayHaveAResultWhoseSizeHasNoFormula) {
  const auto text = [](int n) {
    return parsed(
        fmt::format("graph f(x: float32[{}]) -> (float32[{}])\n"
                    "  %1 = internal.strided_slice(x, starts=[0], stops=[99999], steps=[3])\n"
                    "  return %1\n",
                    n, (n + 2) / 3));
  };
  const SymbolicFound found = SymbolicGraph::of(std::vector{text(4), text(8), text(9), text(16)});
  ASSERT_TRUE(found.symbolic) << found.difference;
  EXPECT_EQ(found.symbolic->type_text(found.symbolic->graphs()[0]->outputs()[0]), "float32[?]");
  const GraphRef at = found.symbolic->at(Sizes{100}).graph;
  ASSERT_TRUE(at);
  EXPECT_TRUE(at->same(*text(100)));
}

TEST(SymbolicShapes, TellsTheFirstNodeThatDiffers) {
  const auto difference = [](const std::string& a, const std::string& b) {
    return SymbolicGraph::of(std::vector{parsed(a), parsed(b)}).difference;
  };
  EXPECT_EQ(
      difference("graph f(x: float32[4]) -> (float32[])\n  %1 = sum(x)  # a.cc:3\n  return %1\n",
                 "graph f(x: float32[8]) -> (float32[])\n  %1 = mean(x)\n  return %1\n"),
      "node 0, %1 = sum: it is mean at the other sizes  # a.cc:3");
  EXPECT_EQ(difference("graph f(x: float32[4]) -> (float32[])\n  %1 = sum(x)\n  return %1\n",
                       "graph f(x: float32[4]) -> (float32[])\n  %1 = sum(x)\n  return %1\n"),
            "the inputs have the same types");
  EXPECT_EQ(difference("graph f(x: float32[4]) -> (float32[4])\n  %1 = exp(x)\n  return %1\n",
                       "graph f(x: float32[8]) -> (float32[8])\n  %1 = exp(x)\n  %2 = exp(%1)\n"
                       "  return %2\n"),
            "the graphs have 1 and 2 nodes");
  EXPECT_EQ(difference("graph f(x: float32[4]) -> (float32[4])\n"
                       "  %1 = constant float32[] 0.3\n  %2 = multiply(x, %1)\n  return %2\n",
                       "graph f(x: float32[8]) -> (float32[8])\n"
                       "  %1 = constant float32[] 0.7\n  %2 = multiply(x, %1)\n  return %2\n")
                .substr(0, 25),
            "element 0 of constant %1 ");
}

// A number that two sizes explain equally well is not guessed.
TEST(SymbolicShapes, AsksForAThirdGraphWhereTwoLeaveItOpen) {
  const auto text = [](int n, int m) {
    return parsed(
        fmt::format("graph f(x: float32[{0}], y: float32[{1}]) -> (float32[{0}])\n"
                    "  %2 = roll(x, shift=[{0}])\n"
                    "  %3 = sum(y)\n"
                    "  %4 = add(%2, %3)\n"
                    "  return %4\n",
                    n, m));
  };
  const SymbolicFound two = SymbolicGraph::of(std::vector{text(4, 8), text(8, 16)});
  ASSERT_TRUE(two.symbolic) << two.difference;
  EXPECT_EQ(two.symbolic->at(Sizes{6, 20}).refusal,
            "a number in it follows from sizes in more than one way");
  EXPECT_TRUE(two.symbolic->at(Sizes{6, 12}).graph);  // where all agree
  const SymbolicFound three = SymbolicGraph::of(std::vector{text(4, 8), text(8, 16), text(6, 20)});
  ASSERT_TRUE(three.symbolic) << three.difference;
  const GraphAtSizes at = three.symbolic->at(Sizes{5, 7});
  ASSERT_TRUE(at.graph) << at.refusal;
  EXPECT_TRUE(at.graph->same(*text(5, 7)));
}

TEST(SymbolicShapes, LooksIntoGraphsInAttributes) {
  const auto text = [](int n) {
    return parsed(
        fmt::format("graph f(x: float32[{0}]) -> (float32[])\n"
                    "  %1 = internal.call(x, graph=@inner)\n"
                    "  return %1\n\n"
                    "graph inner(y: float32[{0}]) -> (float32[])\n"
                    "  %1 = reshape(y, shape=[{0}, 1])\n"
                    "  %2 = sum(%1)\n"
                    "  return %2\n",
                    n));
  };
  const SymbolicFound found = SymbolicGraph::of(std::vector{text(4), text(8)});
  ASSERT_TRUE(found.symbolic) << found.difference;
  const GraphAtSizes at = found.symbolic->at(Sizes{5});
  ASSERT_TRUE(at.graph) << at.refusal;
  EXPECT_TRUE(at.graph->same(*text(5)));
}

}  // namespace
}  // namespace etude
