// SPDX-License-Identifier: Apache-2.0
// Files of graphs that earlier releases wrote, with the results that they had: they load, run, and
// are written again. files/README.md lists them.
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/io/safetensors.h"
#include "tests/expect_error.h"

namespace etude::saved_test {
namespace {

std::string path_of(const std::string& name) { return ETUDE_SAVED_FILES + name; }
std::string content_of(const std::string& name) {
  std::ifstream in(path_of(name), std::ios::binary);
  EXPECT_TRUE(in) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

// Equal, but for the last digits, which machines may differ in.
void expect_near(const Tensor& got, const Tensor& want, const std::string& what) {
  ASSERT_EQ(got.type(), want.type()) << what;
  if (!is_differentiable(want.dtype())) {
    EXPECT_TRUE(all(equal(got, want)).item<bool>()) << what << ": " << got;
    return;
  }
  const Tensor limit = 1e-5F + 1e-5F * abs(want);
  EXPECT_TRUE(all(less_equal(abs(got - want), limit)).item<bool>()) << what << ": " << got;
}

// Runs a graph on the tensors "in/0", "in/1", ... of a file and compares its results with "out/0",
// "out/1", ....
template <class Run>
void expect_stored_results(const std::string& name, const Run& run) {
  const io::NamedTensors values = io::load_safetensors(path_of(name)).tensors;
  std::vector<Tensor> inputs;
  for (;;) {
    const auto found = values.find("in/" + std::to_string(inputs.size()));
    if (found == values.end()) break;
    inputs.push_back(found->second);
  }
  const std::vector<Tensor> results = run(inputs);
  std::size_t checked = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string key = "out/" + std::to_string(i);
    const auto want = values.find(key);
    ASSERT_EQ(results[i].has_value(), want != values.end()) << key;
    if (want == values.end()) continue;
    expect_near(results[i], want->second, key);
    ++checked;
  }
  EXPECT_EQ(checked + inputs.size(), values.size());
}

void expect_graph_runs(const Graph& graph) {
  expect_stored_results("graph_v1.safetensors", [&](const std::vector<Tensor>& inputs) {
    return interpret(graph, inputs);
  });
  const GraphRef optimised = run_passes(graph);
  expect_stored_results("graph_v1.safetensors", [&](const std::vector<Tensor>& inputs) {
    return interpret(*optimised, inputs);
  });
}

void expect_symbolic_runs(const SymbolicGraph& symbolic) {
  expect_stored_results("symbolic_v1.safetensors", [&](const std::vector<Tensor>& inputs) {
    return interpret(*symbolic.graph_for(inputs), inputs);
  });
}

// The graph in the files of all versions.
void expect_saved_graph(const Graph& graph) {
  EXPECT_EQ(to_text(graph), content_of("graph_v1.txt"));
  ASSERT_EQ(graph.frames().size(), 2u);
  EXPECT_EQ(graph.frames()[0].function, "layer");
  EXPECT_EQ(graph.frames()[1].function, "normal");
  EXPECT_STREQ(graph.frames()[1].where.file, "model.cc");
  EXPECT_EQ(graph.frames()[1].where.line, 11);
  expect_graph_runs(graph);
}

TEST(SavedFiles, GraphOfVersion1) {
  const std::string bytes = content_of("graph_v1.etg");
  EXPECT_TRUE(is_binary_graph(bytes));
  EXPECT_FALSE(is_symbolic_binary(bytes));
  const GraphRef graph = read_binary(bytes);
  expect_saved_graph(*graph);
  const std::vector<NamedGraph> all = read_binary_graphs(bytes);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "saved");
  EXPECT_TRUE(all[0].graph->same(*graph));
  EXPECT_FALSE(all[0].symbolic);
  EXPECT_TRUE(all[0].outputs.empty());
  // Written again it is of version 2, and the same.
  const std::string again = to_binary(*graph);
  EXPECT_EQ(again[8], 2);
  expect_saved_graph(*read_binary(again));
}

TEST(SavedFiles, SymbolicGraphOfVersion1) {
  const std::string bytes = content_of("symbolic_v1.etg");
  EXPECT_TRUE(is_symbolic_binary(bytes));
  EXPECT_FALSE(is_binary_graph(bytes));
  const SymbolicGraphRef symbolic = read_symbolic_binary(bytes);
  expect_symbolic_runs(*symbolic);
  const std::vector<NamedGraph> all = read_binary_graphs(bytes);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "centred");
  EXPECT_FALSE(all[0].graph);
  EXPECT_EQ(all[0].symbolic->to_string(), symbolic->to_string());
  const std::string again = to_binary(*symbolic);
  EXPECT_TRUE(is_symbolic_binary(again));
  EXPECT_LT(again.size(), bytes.size());  // the constants of both graphs are stored once
  expect_symbolic_runs(*read_symbolic_binary(again));
}

// Both graphs above under names, with paths of outputs.
std::vector<NamedGraph> both() {
  std::vector<NamedGraph> out(2);
  out[0] = {"step", read_binary(content_of("graph_v1.etg"))};
  for (std::size_t i = 0; i < out[0].graph->outputs().size(); ++i) {
    out[0].outputs.push_back("results[" + std::to_string(i) + "]/value");
  }
  out[1].name = "predict";
  out[1].symbolic = read_symbolic_binary(content_of("symbolic_v1.etg"));
  out[1].outputs = {"probabilities"};
  return out;
}

TEST(SavedFiles, ContainerOfVersion2) {
  const std::string name = "container_v2.etg";
  // A new file, before the release of its version.
  if (std::getenv("ETUDE_UPDATE") != nullptr && !std::ifstream(path_of(name))) {
    std::ofstream(path_of(name), std::ios::binary) << to_binary(both());
  }
  const std::vector<NamedGraph> all = read_binary_graphs(content_of(name));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "step");
  expect_saved_graph(*all[0].graph);
  ASSERT_EQ(all[0].outputs.size(), 13u);
  EXPECT_EQ(all[0].outputs[12], "results[12]/value");
  EXPECT_EQ(all[1].name, "predict");
  expect_symbolic_runs(*all[1].symbolic);
  EXPECT_EQ(all[1].outputs, std::vector<std::string>{"probabilities"});
}

// Any cut and any flipped bit is an error, by the sizes and the checksum.
TEST(SavedFiles, DamagedFilesAreRefused) {
  for (const char* name : {"graph_v1.etg", "container_v2.etg"}) {
    const std::string bytes = content_of(name);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      tests::expect_error([&] { read_binary_graphs(bytes.substr(0, size)); }, ErrorCode::kDataLoss,
                          {"binary form"});
    }
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      std::string damaged = bytes;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_THROW(read_binary_graphs(damaged), Error) << name << " bit " << bit;
    }
  }
}

}  // namespace
}  // namespace etude::saved_test
