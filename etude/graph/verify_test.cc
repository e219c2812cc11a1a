// SPDX-License-Identifier: Apache-2.0
// Wrong graphs are made by a builder with wrong input, or by writing into a graph.
#include "etude/graph/verify.h"

#include <gtest/gtest.h>

#include "etude/graph/sample_graphs.h"
#include "etude/graph/text/print.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::apply_op;
using tests::attrs_of;
using tests::attrs_op;
using tests::Draft;
using tests::expect_error;
using tests::op;

const Type* vector_of(int64_t n) { return intern_type(kFloat32, {n}); }

void expect_fault(const GraphRef& graph, const std::vector<std::string_view>& fragments) {
  expect_error([&] { verify(*graph); }, ErrorCode::kInternal, fragments);
}

// A graph of one call with these operands and results.
GraphRef call_of(const Op& op, const Attrs& attrs, const std::vector<const Type*>& operands,
                 const Types& results) {
  GraphBuilder build("f");
  std::vector<Draft> inputs;
  inputs.reserve(operands.size());
  for (const Type* type : operands) {
    inputs.push_back(type == nullptr ? GraphBuilder::kNoDraft : build.add_input("x", type));
  }
  const Draft y = build.add_node(op, attrs, inputs, results, {"train.cc", 5});
  return build.finish(std::array{y});
}

template <class T>
T& writable(const T& item) {
  return const_cast<T&>(item);
}

TEST(Verify, AcceptsWhatBuildersMake) {
  for (const GraphRef& graph : tests::sample_graphs()) {
    EXPECT_NO_THROW(verify(*graph)) << to_text(*graph);
  }
}

TEST(Verify, NamesGraphNodeAndLineOfAWrongType) {
  expect_fault(call_of(op("tanh"), {}, {vector_of(3)}, {vector_of(2)}),
               {"graph 'f': node 0, %1 = tanh: result 0 is float32[2], but its record has "
                "float32[3]\n  at train.cc:5"});
}

TEST(Verify, ChecksOperandsByTheRecord) {
  const Op& add = op("add");
  expect_error([&] { call_of(add, add.default_attrs(), {vector_of(3)}, {vector_of(3)}); },
               ErrorCode::kInvalidArgument, {"takes 2 operands (x1, x2), but 1 were given"});
  expect_fault(call_of(add, add.default_attrs(), {vector_of(3), nullptr}, {vector_of(3)}),
               {"operand 'x2' is absent"});
  const Type* bools = intern_type(kBool, {3});
  expect_fault(call_of(add, add.default_attrs(), {bools, bools}, {bools}),
               {"operand 'x1' is bool, but must be one of int8"});
  expect_fault(
      call_of(add, add.default_attrs(), {vector_of(3), intern_type(kFloat64, {3})}, {vector_of(3)}),
      {"operand 'x1' is float32 and operand 'x2' is float64; in a graph they have one"});
  expect_fault(call_of(add, add.default_attrs(), {vector_of(3), vector_of(2)}, {vector_of(3)}),
               {"sizes 3 and 2 on axis -1"});
}

TEST(Verify, ChecksTheNumberOfResults) {
  expect_fault(call_of(op("tanh"), {}, {vector_of(3)}, {vector_of(3), vector_of(3)}),
               {"has 2 results, but its record has 1"});
}

TEST(Verify, ChecksAttributesByTheRecord) {
  expect_fault(call_of(op("tanh"), attrs_op().default_attrs(), {vector_of(3)}, {vector_of(3)}),
               {"has 8 attributes, but its record 0"});
  std::vector<AttrValue> values(attrs_op().def().attrs.size());
  expect_fault(
      call_of(attrs_op(), Attrs(attrs_op().def().attrs, values), {vector_of(3)}, {vector_of(3)}),
      {"attribute 'flag' is of another kind than its record says"});
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = attrs_op().def().attrs[i].default_value;
  }
  values[1] = 1.5;
  expect_fault(
      call_of(attrs_op(), Attrs(attrs_op().def().attrs, values), {vector_of(3)}, {vector_of(3)}),
      {"attribute 'count' is of another kind than its record says"});
}

TEST(Verify, OperandsAreValuesOfEarlierNodes) {
  const GraphRef graph = tests::layer_graph();
  writable(graph->node(1).operands[0]) = 6;  // its own result
  expect_fault(graph, {"node 1, %6 = multiply: operand 0 is value 6, but that is no input, "
                       "constant or result of an earlier node"});
}

TEST(Verify, OutputsExist) {
  const GraphRef graph = tests::layer_graph();
  writable(graph->outputs()[0]) = 99;
  expect_fault(graph, {"output 0 is value 99, which does not exist"});
}

TEST(Verify, ConstantsHaveElementsOfTheirType) {
  const GraphRef hollow = tests::layer_graph();
  writable(hollow->constants()[0]) = intern_type(kFloat32, {})->abstract_tensor();
  expect_fault(hollow, {"constant %4 has no elements"});
  const GraphRef other = tests::layer_graph();
  writable(other->constants()[0]) = Tensor(1);
  expect_fault(other, {"constant %4 is float32[], but holds int32[]"});
}

TEST(Verify, InputsHaveNamesTypesAndKnownSizes) {
  const auto input = [](const char* name, const Type* type) {
    GraphBuilder build("f");
    const Draft x = build.add_input(name, type);
    return build.finish(std::array{x});
  };
  expect_fault(input("", vector_of(2)), {"input 0 has no name"});
  expect_fault(input("x", vector_of(kAny)), {"input 'x' is float32[?], of an unknown size"});
  const GraphRef graph = input("x", vector_of(2));
  writable(graph->inputs()[0].type) = vector_of(3);
  expect_fault(graph, {"input 'x' is no value of its type"});
}

TEST(Verify, LooksIntoGraphsThatAreAttributes) {
  const GraphRef inner = call_of(op("tanh"), {}, {vector_of(3)}, {vector_of(2)});
  GraphBuilder build("outer");
  const Draft x = build.add_input("x", vector_of(3));
  const Attrs attrs = attrs_of(apply_op(), {{"graph", internal::RefPtr<const AttrObject>(inner)}});
  const Draft y = build.add_node(apply_op(), attrs, std::array{x});
  expect_fault(build.finish(std::array{y}), {"graph 'f': node 0, %1 = tanh: result 0"});
}

// A graph in a graph, thousands of times: no recursion. Names of the levels differ.
TEST(Verify, DepthDoesNotMatter) {
  GraphRef graph = call_of(op("tanh"), {}, {vector_of(3)}, {vector_of(3)});
  for (int i = 0; i < 3000; ++i) {
    GraphBuilder build("level");
    const Draft x = build.add_input("x", vector_of(3));
    const Attrs attrs =
        attrs_of(apply_op(), {{"graph", internal::RefPtr<const AttrObject>(graph)}});
    const Draft y = build.add_node(apply_op(), attrs, std::array{x});
    graph = build.finish(std::array{y});
  }
  EXPECT_NO_THROW(verify(*graph));
  EXPECT_EQ(to_text(*graph).substr(0, 12), "graph level(");
}

}  // namespace
}  // namespace etude
