// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/graph.h"

#include <gtest/gtest.h>

#include "etude/core/context/context.h"
#include "etude/graph/builder.h"
#include "etude/graph/sample_graphs.h"

namespace etude {
namespace {

using tests::op;
using Draft = GraphBuilder::Draft;

const Type* matrix(int64_t rows, int64_t columns) { return intern_type(kFloat32, {rows, columns}); }

GraphRef tanh_of_product(std::string name = "f") {
  GraphBuilder build(std::move(name));
  const Draft x = build.add_input("x", matrix(2, 3));
  const Draft w = build.add_input("w", matrix(3, 4));
  const Draft y = build.add_node(op("matmul"), op("matmul").default_attrs(), std::array{x, w});
  const Draft z = build.add_node(op("tanh"), op("tanh").default_attrs(), std::array{y});
  return build.finish(std::array{z});
}

TEST(GraphBuilder, NumbersInputsConstantsAndResultsInThisOrder) {
  GraphBuilder build("f");
  const Draft half = build.add_constant(Tensor(0.5));
  const Draft capture = build.add_input("c", matrix(1, 1), InputRole::kCapture);
  const Draft x = build.add_input("x", matrix(2, 3));
  const auto& multiply = op("multiply");
  const Draft a = build.add_node(multiply, multiply.default_attrs(), std::array{x, half});
  const Draft b = build.add_node(multiply, multiply.default_attrs(), std::array{a, capture});
  const GraphRef graph = build.finish(std::array{b, GraphBuilder::kNoDraft, x});
  ASSERT_EQ(graph->inputs().size(), 2u);
  EXPECT_EQ(graph->inputs()[0].name, "x");
  EXPECT_EQ(graph->inputs()[1].role, InputRole::kCapture);
  EXPECT_TRUE(graph->is_constant(2));
  ASSERT_EQ(graph->size(), 2u);
  EXPECT_EQ(graph->node(0).first_result, 3u);
  EXPECT_EQ(std::vector(graph->node(1).operands.begin(), graph->node(1).operands.end()),
            (std::vector<GraphValue>{3, 1}));
  EXPECT_EQ(std::vector(graph->outputs().begin(), graph->outputs().end()),
            (std::vector<GraphValue>{4, kNoValue, 0}));
  EXPECT_EQ(graph->type(4), matrix(2, 3));
}

TEST(GraphBuilder, KeepsEqualNodesUnlessAskedToMergeThem) {
  GraphBuilder build("f");
  const Draft x = build.add_input("x", matrix(2, 2));
  const auto& exp = op("exp");
  EXPECT_NE(build.add_node(exp, exp.default_attrs(), std::array{x}),
            build.add_node(exp, exp.default_attrs(), std::array{x}));
}

TEST(GraphBuilder, EqualNodesAreOneAndDeadOnesGo) {
  GraphBuilder build("f");
  build.merge_equal_nodes();
  const Draft x = build.add_input("x", matrix(2, 2));
  const auto& sum = op("sum");
  const Draft a = build.add_node(sum, sum.attrs({IntList{0}, false}), std::array{x});
  const Draft b = build.add_node(sum, sum.attrs({IntList{0}, false}), std::array{x});
  const Draft c = build.add_node(sum, sum.attrs({IntList{1}, false}), std::array{x});
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  const Draft dead = build.add_node(op("exp"), op("exp").default_attrs(), std::array{c});
  EXPECT_EQ(build.node_count(), 3u);
  static_cast<void>(dead);
  EXPECT_EQ(build.finish(std::array{a, c})->size(), 2u);
}

TEST(GraphBuilder, RefusesSizesThatOnlyDataTells) {
  GraphBuilder build("f");
  const Draft x = build.add_input("x", matrix(2, 2));
  const auto& nonzero = op("nonzero");
  try {
    build.add_node(nonzero, nonzero.default_attrs(), std::array{x});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
    EXPECT_NE(std::string(error.what()).find("size that depends on data"), std::string::npos)
        << error.what();
  }
}

TEST(Graph, InterpretsAsTheOpsDo) {
  const GraphRef graph = tanh_of_product();
  const Tensor x({{1.0, 2.0, 3.0}, {-1.0, 0.5, 0.0}});
  const Tensor w(std::vector<float>(12, 0.25F), Shape{3, 4});
  const OperandList in({&x, &w});
  const std::vector<Tensor> out = interpret(*graph, in.view());
  ASSERT_EQ(out.size(), 1u);
  const Values product = execute(op("matmul"), in.view(), op("matmul").default_attrs(), {});
  const OperandList of_product({&product[0]});
  const Values want = execute(op("tanh"), of_product.view(), op("tanh").default_attrs(), {});
  EXPECT_TRUE(same_value(out[0], want[0]));
}

TEST(Graph, InterpretNamesTheInputThatDoesNotFit) {
  const Tensor x(std::vector<float>(6), Shape{2, 3}), w(std::vector<float>(12), Shape{4, 3});
  const OperandList in({&x, &w});
  try {
    interpret(*tanh_of_product(), in.view());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("input 'w' of graph 'f' is float32[3,4], but float32[4,3] was given"),
              std::string::npos)
        << error.what();
  }
}

TEST(Graph, EqualityLeavesOutNamesAndSeesEverythingElse) {
  const GraphRef f = tanh_of_product(), g = tanh_of_product("g");
  EXPECT_TRUE(f->same(*g));
  EXPECT_EQ(f->hash(), g->hash());
  const auto with_constant = [](float c) {
    GraphBuilder build("f");
    const Draft x = build.add_input("x", matrix(2, 2));
    const Draft k = build.add_constant(Tensor(c));
    const Draft y = build.add_node(op("add"), op("add").default_attrs(), std::array{x, k});
    return build.finish(std::array{y});
  };
  EXPECT_TRUE(with_constant(0.0F)->same(*with_constant(0.0F)));
  EXPECT_FALSE(with_constant(0.0F)->same(*with_constant(-0.0F)));  // by bits
  EXPECT_FALSE(with_constant(0.0F)->same(*f));
}

TEST(Graph, KeepsWhatBelongsToIt) {
  struct Thing : internal::RefCounted {
    explicit Thing(int n) : number(n) {}
    int number;
  };
  const GraphRef graph = tanh_of_product();
  int made = 0;
  for (int i = 0; i < 3; ++i) {
    const auto thing =
        graph->kept<Thing>("thing", [&] { return internal::make_ref<const Thing>(++made); });
    EXPECT_EQ(thing->number, 1);
  }
  EXPECT_EQ(made, 1);
}

}  // namespace
}  // namespace etude
