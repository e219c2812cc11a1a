// SPDX-License-Identifier: Apache-2.0
// Symbolic graphs as bytes: a function with open sizes, written and read, serves all sizes as
// before.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude::saved_symbolic_test {
namespace {

using tests::expect_error;

Tensor run(const SymbolicGraph& symbolic, const std::vector<Tensor>& inputs) {
  return interpret(*symbolic.graph_for(inputs), inputs)[0];
}
// 0, 1, 2, ... in rows of three: row i less the mean of its column is 3 * (i - (n - 1) / 2).
Tensor counted(int64_t n) { return reshape(arange(3 * n, {.dtype = kFloat32}), {n, 3}); }
void expect_centred(const Tensor& y, int64_t n, float scale) {
  ASSERT_EQ(y.shape(), (Shape{n, 3}));
  const std::vector<float> got = y.to_vector<float>();
  for (int64_t i = 0; i < 3 * n; ++i) {
    const float row = static_cast<float>(i / 3) - 0.5F * static_cast<float>(n - 1);
    EXPECT_NEAR(got[static_cast<std::size_t>(i)], scale * 3.0F * row, 1e-3F) << n << " " << i;
  }
}
Tensor centred(const Tensor& x) { return x - mean(x, {.axis = {0}}); }
FunctionOptions with_open_rows() {
  return {.name = "f", .arg_names = {"x"}, .signature = Signature{TensorSpec{{kAny, 3}}}};
}

TEST(SavedSymbolicGraphs, ASignatureWithOpenSizesServesAllSizesAfterwards) {
  const auto f = function([](const Tensor& x) { return centred(x); }, with_open_rows());
  const GraphFunction trace = f.trace();
  ASSERT_TRUE(trace.symbolic_graph());
  const std::string bytes = to_binary(*trace.symbolic_graph());
  EXPECT_TRUE(is_symbolic_binary(bytes));
  EXPECT_FALSE(is_binary_graph(bytes));
  const SymbolicGraphRef read = read_symbolic_binary(bytes);
  EXPECT_EQ(read->to_string(), trace.symbolic_graph()->to_string());
  EXPECT_EQ(to_binary(*read), bytes);
  for (const int64_t n : {2, 7, 33, 840}) expect_centred(run(*read, {counted(n)}), n, 1.0F);
}

TEST(SavedSymbolicGraphs, WhatIsReadRunsInAllModesAndHasDerivatives) {
  const auto f = function([](const Tensor& x) { return centred(x); }, with_open_rows());
  const SymbolicGraphRef read = read_symbolic_binary(to_binary(*f.trace().symbolic_graph()));
  const auto again = [&](const Tensor& x) { return run(*read, {x}); };
  // The sum of y * c has the gradient c less its mean.
  const auto slope = [&](const Tensor& x) {
    const Tensor c = counted(x.type()->shape()[0]);
    return gradient([&](const Tensor& at) { return sum(again(at) * c); }, x);
  };
  const auto staged = function(again), staged_slope = function(slope);
  for (const int64_t n : {3, 5, 8, 13}) {
    expect_centred(staged(counted(n)), n, 1.0F);
    expect_centred(slope(counted(n)), n, 1.0F);
    expect_centred(staged_slope(counted(n)), n, 1.0F);
    expect_centred(jvp(again, counted(n), counted(n) * 2.0F).second, n, 2.0F);
    const LazyScope lazy;
    expect_centred(again(counted(n)), n, 1.0F);
    expect_centred(slope(counted(n)), n, 1.0F);
  }
}

TEST(SavedSymbolicGraphs, CapturesBecomeConstants) {
  const Tensor scale = full({3}, 2.0F);
  const auto f = function([&](const Tensor& x) { return centred(x) * scale; });
  for (const int64_t n : {4, 6}) f(counted(n));
  const GraphFunction trace = f.traces().back();
  ASSERT_TRUE(trace.symbolic_graph());
  const SymbolicGraphRef read = read_symbolic_binary(
      to_binary(*closed_symbolic_graph(*trace.symbolic_graph(), trace.captures())));
  for (const int64_t n : {3, 9}) expect_centred(run(*read, {counted(n)}), n, 2.0F);
}

TEST(SavedSymbolicGraphs, SaysWhichInputsItDoesNotServe) {
  const auto f = function([](const Tensor& x, const Tensor& y) { return x + y; },
                          {.name = "f",
                           .arg_names = {"x", "y"},
                           .signature = Signature{TensorSpec{{kAny, 3}}, TensorSpec{{kAny, 3}}}});
  f(counted(2), counted(2));
  const SymbolicGraphRef read =
      read_symbolic_binary(to_binary(*f.traces().back().symbolic_graph()));
  const auto refused = [&](const std::vector<Tensor>& inputs, const std::string& text) {
    expect_error([&] { read->graph_for(inputs); }, ErrorCode::kInvalidArgument, {text});
  };
  refused({counted(2)}, "graph 'f' has 2 inputs, but 1 were given");
  refused({counted(2), ones({2, 4})},
          "input 'y' of graph 'f' is float32[n,3], but float32[2,4] was given");
  refused({counted(2), counted(4)}, "differ in sizes that are one in it");
  refused({counted(1), counted(1)}, "does not serve the sizes [1]");
}

// Any damage of a file is an error.
TEST(SavedSymbolicGraphs, DamagedBytesAreRefused) {
  const auto f = function([](const Tensor& x) { return centred(x); }, with_open_rows());
  const std::string bytes = to_binary(*f.trace().symbolic_graph());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    expect_error([&] { read_symbolic_binary(bytes.substr(0, size)); }, ErrorCode::kDataLoss, {""});
  }
  expect_error([&] { read_symbolic_binary(bytes + '\0'); }, ErrorCode::kDataLoss,
               {"but", "were written"});
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    const bool is_version = at >= 8 && at < 12;
    expect_error([&] { read_symbolic_binary(damaged); },
                 is_version ? ErrorCode::kUnimplemented : ErrorCode::kDataLoss, {""});
  }
}

// The form of version 1: a file of files.
TEST(SavedSymbolicGraphs, DamagedFilesOfVersion1AreRefused) {
  const auto f = function([](const Tensor& x) { return centred(x); }, with_open_rows());
  const auto of = [](const std::vector<std::string>& graphs) {
    std::string out =
        "\x89"
        "ETF\r\n\x1a\n";
    const auto add = [&](uint64_t number) {
      out.append(reinterpret_cast<const char*>(&number), sizeof number);
    };
    add(graphs.size());
    for (const std::string& graph : graphs) add(graph.size());
    for (const std::string& graph : graphs) {
      out.resize((out.size() + 63) / 64 * 64);
      out += graph;
    }
    return out;
  };
  std::vector<std::string> graphs;
  for (const GraphRef& graph : f.trace().symbolic_graph()->graphs()) {
    graphs.push_back(to_binary(*graph));
  }
  const std::string bytes = of(graphs);
  EXPECT_TRUE(is_symbolic_binary(bytes));
  expect_centred(run(*read_symbolic_binary(bytes), {counted(5)}), 5, 1.0F);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    expect_error([&] { read_symbolic_binary(bytes.substr(0, size)); }, ErrorCode::kDataLoss, {""});
  }
  expect_error([&] { read_symbolic_binary(bytes + '\0'); }, ErrorCode::kDataLoss,
               {"but its graphs end at"});
  for (std::size_t at = 0; at < 16 + 3 * 8; ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    expect_error([&] { read_symbolic_binary(damaged); }, ErrorCode::kDataLoss, {""});
  }
  // Two graphs that are no symbolic graph, and one file in another.
  expect_error(
      [&] {
        read_symbolic_binary(of({graphs[0], graphs[0]}));
      },
      ErrorCode::kDataLoss, {"the inputs have the same types"});
  expect_error(
      [&] {
        read_symbolic_binary(of({bytes, bytes}));
      },
      ErrorCode::kDataLoss, {"these", "bytes are no graph in binary form"});
  expect_error(
      [&] {
        read_symbolic_binary(of({to_binary(*f.trace().symbolic_graph()), graphs[0]}));
      },
      ErrorCode::kDataLoss, {"part 0 of a symbolic graph in binary form is not one graph"});
}

}  // namespace
}  // namespace etude::saved_symbolic_test
