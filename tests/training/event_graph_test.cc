// SPDX-License-Identifier: Apache-2.0
// Graphs in event files, by a reader that shares no code with the writer.
#include <string>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/nn/fit/event_file.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"
#include "tests/training/events_in.h"

namespace etude::event_graph_test {
namespace {

using tests::events_in;
using tests::expect_error;

struct Net {
  nn::Dense hidden{4, 8, {.activation = nn::relu}}, output{8, 3};
  Tensor operator()(const Tensor& x) const { return output(hidden(x)); }
};

std::string text_of(const Graph& graph, const nn::GraphNames& names = {}) {
  const internal::TempFolder temp;
  nn::EventFile file(temp.path() / "logs");
  file.graph(graph, names);
  file.flush();
  return events_in(temp.path() / "logs");
}

void expect_lines(const std::string& text, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    EXPECT_NE(text.find("\n" + line), text.npos) << line << " is not in\n" << text;
  }
}

TEST(EventGraph, CallsAreInTheScopesOfTheirLayers) {
  const Net net;
  const auto predict = function([](const Net& n, const Tensor& x) { return n(x); },
                                {.name = "predict", .arg_names = {"net", "x"}});
  predict(net, zeros({2, 4}));
  const std::string text = text_of(predict.traces()[0].graph());
  expect_lines(text, {"net/hidden/weight: State() -> [4, 8]\n", "x: Argument() -> [2, 4]\n",
                      "net/hidden/matmul: matmul(x, net/hidden/weight) -> [2, 8], line ",
                      "net/hidden/relu: nn.relu(net/hidden/add) -> [2, 8], line ",
                      "net/output/matmul: matmul(net/hidden/relu, net/output/weight) -> [2, 3]",
                      "output: Result(net/output/add) -> [2, 3]\n"});
}

TEST(EventGraph, NamesResultsAttributesAndLines) {
  const auto f = function(
      [](const Tensor& a) {
        const std::vector<Tensor> parts = split(a * 0.5F, 2, {.axis = 1});
        return sum(parts[1], {.axis = {0}});
      },
      {.name = "f", .arg_names = {"a"}});
  f(zeros({3, 4}));
  const std::string text = text_of(
      f.traces()[0].graph(), {.inputs = {"data set/a"}, .is_state = {false}, .outputs = {"s"}});
  expect_lines(text,
               {"data_set/a: Argument() -> [3, 4]\n", "constant: Constant() -> [], value 0.5\n",
                "multiply: multiply(data_set/a, constant) -> [3, 4], line ",
                "split: split(multiply) -> [3, 2] [3, 2], attributes parts_or_sizes=[2], axis=1, "
                "line ",
                "sum: sum(split:1) -> [2], attributes axis=[0], line ", "s: Result(sum) -> [2]\n"});
  EXPECT_NE(text.find("event_graph_test.cc:"), text.npos);
}

TEST(EventGraph, BodiesOfLoopsAreScopes) {
  const auto f = function(
      [](const Tensor& x) {
        return while_loop([](const Tensor& v) { return sum(v) < 10.0F; },
                          [](const Tensor& v) { return v * 2.0F; }, x);
      },
      {.name = "f", .arg_names = {"x"}});
  f(ones({2}));
  const std::string text = text_of(f.traces()[0].graph());
  expect_lines(text, {"while_loop: internal.while_loop(identity) -> [2], attributes ",
                      "while_loop_condition/sum: sum(while_loop_condition/",
                      "while_loop_bodies/multiply: multiply(while_loop_bodies/"});
}

TEST(EventGraph, ListsOfAnotherLengthAreRefused) {
  const auto f =
      function([](const Tensor& x) { return exp(x); }, {.name = "f", .arg_names = {"x"}});
  f(ones({2}));
  expect_error(
      [&] {
        text_of(f.traces()[0].graph(), {.inputs = {"a", "b"}});
      },
      ErrorCode::kInvalidArgument,
      {"EventFile::graph: GraphNames::inputs has 2 entries, but the graph has 1",
       "event_graph_test.cc"});
  expect_error(
      [&] {
        text_of(f.traces()[0].graph(), {.outputs = {"a", "b"}});
      },
      ErrorCode::kInvalidArgument, {"GraphNames::outputs has 2 entries"});
  expect_error(
      [&] {
        text_of(f.traces()[0].graph(), {.is_state = {true, false}});
      },
      ErrorCode::kInvalidArgument, {"GraphNames::is_state has 2 entries"});
}

}  // namespace
}  // namespace etude::event_graph_test
