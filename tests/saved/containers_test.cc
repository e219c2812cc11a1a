// SPDX-License-Identifier: Apache-2.0
// Containers of several graphs under names.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/graph/verify.h"
#include "tests/expect_error.h"
#include "tests/saved/hand_made.h"

namespace etude::saved_test {
namespace {

using internal::BinaryContent;
using tests::expect_error;
using tests::HandMade;
using tests::raw;
using tests::repaired;

constexpr std::string_view kStep =
    "graph step(x: float32[4], p: bool[]) -> (float32[4], float32[])\n"
    "  %2 = constant float32[4] [1, 2, 3, 4]\n"
    "  %3 = internal.switch_case(p, x, %2, branches=[@difference, @total])  # train.cc:9\n"
    "  %4 = sum(%3)\n"
    "  return %3, %4\n"
    "graph difference(a: float32[4], b: float32[4]) -> (float32[4])\n"
    "  %2 = subtract(a, b)\n"
    "  return %2\n"
    "graph total(a: float32[4], b: float32[4]) -> (float32[4])\n"
    "  %2 = add(a, b)\n"
    "  return %2\n";
// The same calls as in `total`, with other names.
constexpr std::string_view kTotal =
    "graph total(first: float32[4], second: float32[4]) -> (float32[4])\n"
    "  %2 = add(first, second)\n"
    "  return %2\n";

SymbolicGraphRef scaled() {
  const Tensor weights = full({64}, 0.5F);
  const auto f = function(
      [&](const Tensor& x) { return sum(x * weights, {.axis = {1}}); },
      FunctionOptions{
          .name = "scaled", .arg_names = {"x"}, .signature = Signature{TensorSpec{{kAny, 64}}}});
  const GraphFunction trace = f.trace();
  return closed_symbolic_graph(*trace.symbolic_graph(), trace.captures());
}

std::vector<NamedGraph> sample() {
  return {{"step", parse_graph(kStep), {}, {"loss/by_row", "loss"}},
          {"total", parse_graph(kTotal)},
          {"scaled", {}, scaled(), {"y"}},
          {"again", parse_graph(kStep)}};
}

void expect_same(const std::vector<NamedGraph>& got, const std::vector<NamedGraph>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, want[i].name);
    EXPECT_EQ(got[i].outputs, want[i].outputs);
    ASSERT_EQ(static_cast<bool>(got[i].graph), static_cast<bool>(want[i].graph));
    if (got[i].graph) {
      verify(*got[i].graph);
      EXPECT_EQ(to_text(*got[i].graph), to_text(*want[i].graph));  // with all names and lines
      EXPECT_TRUE(got[i].graph->same(*want[i].graph));
    } else {
      EXPECT_EQ(got[i].symbolic->to_string(), want[i].symbolic->to_string());
    }
  }
}

TEST(Containers, HoldSeveralGraphsUnderNames) {
  const std::vector<NamedGraph> graphs = sample();
  const std::string bytes = to_binary(graphs);
  EXPECT_TRUE(is_binary_graph(bytes));
  EXPECT_FALSE(is_symbolic_binary(bytes));
  const std::vector<NamedGraph> read = read_binary_graphs(bytes);
  expect_same(read, graphs);
  EXPECT_EQ(to_binary(read), bytes);
  const std::vector<Tensor> in = {Tensor({1.0F, 1.0F, 1.0F, 1.0F}), Tensor(true)};
  EXPECT_EQ(interpret(*read[0].graph, in)[1].item<float>(), 14.0F);
  const std::vector<Tensor> rows = {ones({3, 64})};
  EXPECT_EQ(interpret(*read[2].symbolic->graph_for(rows), rows)[0].to_vector<float>(),
            (std::vector<float>{32, 32, 32}));
}

TEST(Containers, OneGraphIsReadBothWays) {
  const GraphRef step = parse_graph(kStep);
  const std::vector<NamedGraph> one = {{"step", step, {}, {"rows", "sum"}}};
  EXPECT_TRUE(read_binary(to_binary(one))->same(*step));
  expect_same(read_binary_graphs(to_binary(*step)), {{"step", step}});
  const std::vector<NamedGraph> symbolic = {{"scaled", {}, scaled()}};
  EXPECT_TRUE(is_symbolic_binary(to_binary(symbolic)));
  EXPECT_EQ(read_symbolic_binary(to_binary(symbolic))->to_string(),
            symbolic[0].symbolic->to_string());
  EXPECT_EQ(to_binary(symbolic), to_binary(*symbolic[0].symbolic));
}

// Graphs, constants and texts that several functions use are stored once.
TEST(Containers, ShareEqualGraphsAndConstants) {
  const GraphRef big = [] {
    GraphBuilder build("big");
    const GraphBuilder::Draft c = build.add_constant(full({1000}, 0.25F));
    const GraphBuilder::Draft same = build.add_constant(full({1000}, 0.25F));
    return build.finish(std::array{c, same});
  }();
  const std::size_t one = to_binary(*big).size();
  EXPECT_LT(one, 4000u + 300u);
  EXPECT_LT(to_binary(std::vector<NamedGraph>{{"a", big}, {"b", big}}).size(), one + 128);
  const std::vector<NamedGraph> read =
      read_binary_graphs(to_binary(std::vector<NamedGraph>{{"a", big}, {"b", big}}));
  EXPECT_EQ(read[0].graph.get(), read[1].graph.get());
  // Equal bits of another type, and zeros of both signs, are other constants.
  GraphBuilder build("others");
  const std::vector<GraphBuilder::Draft> drafts = {
      build.add_constant(Tensor({0.0F})), build.add_constant(Tensor({-0.0F})),
      build.add_constant(zeros({1}, {.dtype = kInt32})), build.add_constant(Tensor({0.0F}))};
  const GraphRef others = build.finish(drafts);
  const GraphRef back = read_binary(to_binary(*others));
  EXPECT_EQ(to_text(*back), to_text(*others));
}

TEST(Containers, RefuseListsThatAreNoContainer) {
  const GraphRef step = parse_graph(kStep);
  const auto refused = [](const std::vector<NamedGraph>& graphs, std::string_view text) {
    expect_error([&] { to_binary(graphs); }, ErrorCode::kInvalidArgument, {text});
  };
  refused({}, "a container needs at least one graph, but the list is empty");
  refused({{"a", step}, {"", step}}, "graph 1 of a container has no name");
  refused({{"a", step}, {"a", step}},
          "two graphs of a container have the name 'a'. Rename one of them");
  refused({{"a", {}}}, "'a' needs a graph or a symbolic graph, but neither is given");
  refused({{"a", step, scaled()}}, "'a' needs a graph or a symbolic graph, but both are given");
  refused({{"a", step, {}, {"y"}}}, "graph 'a' has 2 outputs, but 1 paths are given");
  refused({{"a", step, {}, {"y", "y"}}}, "two outputs of graph 'a' have the path 'y'");
  refused({{"a", step, {}, {"y", ""}}}, "an output of graph 'a' has an empty path");
}

TEST(Containers, SayHowTheyAreRead) {
  const std::string several = to_binary(sample());
  for (const auto& read : {+[](std::string_view b) { read_binary(b); },
                           +[](std::string_view b) { read_symbolic_binary(b); }}) {
    expect_error([&] { read(several); }, ErrorCode::kInvalidArgument,
                 {"these bytes hold 4 graphs: 'step', 'total', 'scaled', 'again'. Read them with "
                  "read_binary_graphs()"});
  }
  expect_error([] { read_binary(to_binary(*scaled())); }, ErrorCode::kInvalidArgument,
               {"these bytes hold a symbolic graph: a graph for many sizes. Read it with "
                "read_symbolic_binary()"});
  expect_error([] { read_symbolic_binary(to_binary(*parse_graph(kStep))); },
               ErrorCode::kInvalidArgument,
               {"these bytes hold a graph for fixed sizes. Read it with read_binary()"});
}

// A file whose only graph returns its input.
HandMade identity() {
  HandMade made;
  made.texts = {"f", "x", "g", ""};
  made.types = {"float32[2]"};
  made.graphs = raw({0, 1, 1, 0, 0, 0, 0, 0, 1, 1});
  return made;
}

TEST(Containers, SayWhichFunctionIsWrong) {
  const auto refused = [](const std::string& functions, std::string_view text,
                          BinaryContent content = BinaryContent::kGraph) {
    HandMade made = identity();
    made.functions = functions;
    made.content = content;
    expect_error([&] { read_binary_graphs(made.bytes()); }, ErrorCode::kDataLoss,
                 {"byte ", " of a graph in binary form: ", text});
  };
  EXPECT_EQ(read_binary_graphs(identity().bytes())[0].name, "f");
  refused(raw({0}), "there is no function");
  refused(raw({1, 3, 1, 0, 0}), "a function has no name");
  refused(raw({1, 0, 0, 0}), "function 'f' has no graph");
  refused(raw({1, 0, 1, 1, 0}), "graph 1 of 1 is named");
  refused(raw({1, 0, 1, 0, 2, 1, 2}), "function 'f' has 1 outputs and 2 paths");
  refused(raw({1, 0, 1, 0, 1, 3}), "path 0 of function 'f' is empty or repeated");
  refused(raw({2, 0, 1, 0, 0, 0, 1, 0, 0}), "two graphs have the name 'f'",
          BinaryContent::kFunctions);
  refused(raw({2, 0, 1, 0, 0, 2, 1, 0, 0}),
          "the header has content 0, but the functions are "
          "content 2");
  refused(raw({1, 0, 1, 0, 0}), "the header has content 1, but the functions are content 0",
          BinaryContent::kSymbolic);
  refused(raw({1, 0, 2, 0, 0, 0}), "the graphs of a binary symbolic graph do not form one",
          BinaryContent::kSymbolic);
  HandMade made = identity();
  std::string bytes = made.bytes();
  bytes[32] = 3;
  expect_error([&] { read_binary(repaired(bytes)); }, ErrorCode::kDataLoss,
               {"has content 3 and 0 after it: the content is 0 to 2, followed by 0"});
  bytes[32] = 0;
  bytes[36] = 1;
  expect_error([&] { read_binary(repaired(bytes)); }, ErrorCode::kDataLoss,
               {"has content 0 and 1 after it"});
}

TEST(Containers, SayWhichListIsWrong) {
  const auto refused = [](HandMade made, std::string_view text,
                          ErrorCode code = ErrorCode::kDataLoss) {
    expect_error([&] { read_binary(made.bytes()); }, code,
                 {"byte ", " of a graph in binary form: ", text});
  };
  HandMade made = identity();
  made.types = {"float32[2]@cuda:0"};
  refused(made, "type 0 is 'float32[2]@cuda:0', but files know no devices");
  made = identity();
  made.texts = {"f", "x", "tanh", "add", "n", "concat", "axis"};
  const auto with_ops = [&](const std::string& ops) {
    made.ops = ops;
    return made;
  };
  EXPECT_NO_THROW(read_binary(with_ops(raw({1, 2, 1, 0})).bytes()));
  refused(with_ops(raw({1, 1, 1, 0})), "no op is called 'x'. Nearest:", ErrorCode::kUnimplemented);
  refused(with_ops(raw({2, 2, 1, 0, 2, 1, 0})), "op 'tanh' is listed twice");
  refused(with_ops(raw({1, 2, 1, 1, 4, 2, 1})), "tanh has no attribute 'n'. It has none",
          ErrorCode::kInvalidArgument);
  refused(with_ops(raw({1, 5, 1, 2, 6, 2, 2, 0, 6, 2, 2, 0})), "attribute 'axis' is listed twice");
  refused(with_ops(raw({1, 5, 1, 1, 6, 11, 1})), "attribute 'axis' has kind 11: kinds are 1 to 10");
  refused(with_ops(raw({1, 5, 1, 1, 6, 2, 3})),
          "the default of attribute 'axis' is of form 3: forms are 0 to 2");
  refused(with_ops(raw({1, 5, 1, 1, 6, 2, 1})),
          "attribute 'axis' of op 'concat' may be absent here, but not in the record of version 1",
          ErrorCode::kInvalidArgument);
  made = identity();
  made.texts = {"f", "x", "reshape"};
  refused(with_ops(raw({1, 2, 1, 0})),
          "op 'reshape' has no attribute 'shape' here, but its record requires it",
          ErrorCode::kInvalidArgument);
  made = identity();
  made.texts = {"f", "x", "what"};
  made.programs = raw({1, 2, 0});
  refused(made, "{what} is no scalar program", ErrorCode::kNotFound);
  made.programs = raw({1, 2, 3, 7});
  refused(made, "the place of a program is 7, but at most 6");
}

// A program is stored by its text and by its record, in which it may have moved.
TEST(Containers, ProgramsAreFoundByRecordAndText) {
  const GraphRef graph = parse_graph(
      "graph f(x: float32[2]) -> (float32[2])\n"
      "  %1 = internal.fused_elementwise(x, program={negative(x1)}~3, params=[])\n"
      "  return %1\n");
  const std::string bytes = to_binary(*graph);
  EXPECT_TRUE(read_binary(bytes)->same(*graph));
  EXPECT_NE(bytes.find("\x08negative"), std::string::npos);
  EXPECT_EQ(bytes.find('~'), std::string::npos);
  // A record that is no more, and one with another text at this place: the text counts.
  for (const char* name : {"nagative", "subtract"}) {
    std::string other = bytes;
    other.replace(other.find("\x08negative") + 1, 8, name);
    const GraphRef read = read_binary(repaired(other));
    EXPECT_EQ(interpret(*read, std::vector<Tensor>{Tensor({1.0F, -2.0F})})[0].to_vector<float>(),
              (std::vector<float>{-1, 2}));
  }
}

// A small list that is used many times does not become much memory or time.
TEST(Containers, RefuseItemsThatAreUsedTooOften) {
  const Tensor value = full({1 << 18}, 0.5F);
  std::vector<NamedGraph> graphs;
  for (int i = 0; i < 400; ++i) {
    const std::string name = "g" + std::to_string(i);
    GraphBuilder build(name);
    build.add_input("x" + name, intern_type(kFloat32, {}));
    graphs.push_back({name, build.finish(std::array{build.add_constant(value)})});
  }
  expect_error([&] { read_binary_graphs(to_binary(graphs)); }, ErrorCode::kResourceExhausted,
               {"with texts, defaults, constants and graphs counted at each use, its ",
                "raise this limit by set_read_limits()"});
}

// Whatever is wrong with the lists of a file is an Error that is no fault of the library, or a
// graph that satisfies the verifier. Header and checksum are corrected, so that the lists are read.
TEST(Containers, AnyBytesAreAGraphOrAnError) {
  const std::string bytes = to_binary(std::vector<NamedGraph>{
      {"step", parse_graph(kStep), {}, {"rows", "sum"}}, {"total", parse_graph(kTotal)}});
  const auto check = [](const std::string& file) {
    try {
      for (const NamedGraph& each : read_binary_graphs(repaired(file))) {
        if (each.graph) verify(*each.graph);
      }
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
    }
  };
  for (std::size_t size = sizeof(internal::BinaryHeader); size < bytes.size(); ++size) {
    std::string cut = bytes.substr(0, size);
    internal::BinaryHeader header{};
    std::memcpy(&header, cut.data(), sizeof header);
    header.elements = std::min<uint64_t>(header.elements, size / 64 * 64);
    std::memcpy(cut.data(), &header, sizeof header);
    EXPECT_THROW(read_binary_graphs(repaired(cut)), Error) << size;
  }
  for (std::size_t bit = 16 * 8; bit < 8 * bytes.size(); ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    check(changed);
  }
}

}  // namespace
}  // namespace etude::saved_test
