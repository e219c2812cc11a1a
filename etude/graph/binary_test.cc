// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/binary.h"

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/graph/binary_format.h"
#include "etude/graph/sample_graphs.h"
#include "etude/graph/text/parse.h"
#include "etude/graph/text/print.h"
#include "etude/graph/text/programs.h"
#include "etude/graph/verify.h"
#include "tests/expect_error.h"
#include "tests/saved/hand_made.h"

namespace etude {
namespace {

using internal::BinaryHeader;
using tests::apply_op;
using tests::attrs_of;
using tests::attrs_op;
using tests::Draft;
using tests::expect_error;
using tests::HandMade;
using tests::raw;
using tests::repaired;

void expect_refused(const std::string& bytes, ErrorCode code, const std::string& text) {
  expect_error([&] { read_binary(bytes); }, code, {text});
}

TEST(BinaryGraph, HoldsWhatTheTextHolds) {
  for (const GraphRef& graph : tests::sample_graphs()) {
    const std::string bytes = to_binary(*graph);
    EXPECT_TRUE(is_binary_graph(bytes));
    const GraphRef read = read_binary(bytes);
    verify(*read);
    EXPECT_TRUE(read->same(*graph));
    EXPECT_EQ(to_text(*read), to_text(*graph));
    EXPECT_EQ(to_binary(*read), bytes);
    EXPECT_EQ(to_binary(*parse_graph(to_text(*graph))), bytes);
  }
}

TEST(BinaryGraph, HoldsFramesAndLines) {
  GraphBuilder build("f");
  const Draft x = build.add_input("x", intern_type(kFloat32, {2}));
  const uint32_t outer = build.add_frame({"outer", {"a.cc", 7}, Graph::kNoFrame});
  build.set_frame(build.add_frame({"inner", {}, outer}));
  const Op& tanh = tests::op("tanh");
  const Draft y = build.add_node(tanh, tanh.default_attrs(), std::array{x}, {"b c.cc", 1 << 30});
  const GraphRef read = read_binary(to_binary(*build.finish(std::array{y})));
  ASSERT_EQ(read->frames().size(), 2u);
  EXPECT_EQ(read->frames()[0].function, "outer");
  EXPECT_STREQ(read->frames()[0].where.file, "a.cc");
  EXPECT_EQ(read->frames()[0].where.line, 7);
  EXPECT_EQ(read->frames()[0].outer, Graph::kNoFrame);
  EXPECT_EQ(read->frames()[1].outer, 0u);
  EXPECT_FALSE(read->frames()[1].where.known());
  EXPECT_EQ(read->node(0).frame, 1u);
  EXPECT_STREQ(read->node(0).where.file, "b c.cc");
  EXPECT_EQ(read->node(0).where.line, 1 << 30);
}

TEST(BinaryGraph, PutsElementsWhereAMappedFileCanBeRead) {
  const GraphRef graph = tests::constants_graph();
  const std::string bytes = to_binary(*graph);
  BinaryHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::size_t at = header.elements;
  for (const Tensor& value : graph->constants()) {
    at = internal::binary_aligned(at);
    const auto size = static_cast<std::size_t>(value.type()->bytes());
    EXPECT_EQ(
        bytes.compare(at, size, static_cast<const char*>(TensorAccess::rep(value)->data), size), 0);
    at += size;
  }
  EXPECT_EQ(at, bytes.size());
}

TEST(BinaryGraph, StoresEachGraphTypeAndTextOnce) {
  const std::string bytes = to_binary(*tests::nested_graph());
  for (const char* text : {"matmul", "train.cc", "float32[2,3]"}) {
    const std::size_t first = bytes.find(text);
    ASSERT_NE(first, std::string::npos) << text;
    EXPECT_EQ(bytes.find(text, first + 1), std::string::npos) << text;
  }
}

TEST(BinaryGraph, RefusesWhatIsTornOrDamaged) {
  const std::string bytes = to_binary(*tests::nested_graph());
  expect_refused("graph f() -> ()\n", ErrorCode::kDataLoss,
                 "these 16 bytes are no graph in binary form, which begins with \\x89ETG");
  expect_refused(bytes.substr(0, 20), ErrorCode::kDataLoss,
                 "torn: it has 20 bytes, and its header 32");
  expect_refused(bytes.substr(0, 36), ErrorCode::kDataLoss,
                 "torn: it has 36 bytes, and its header 40");
  expect_refused(
      bytes.substr(0, bytes.size() - 1), ErrorCode::kDataLoss,
      fmt::format("torn: it has {} bytes, but {} were written", bytes.size() - 1, bytes.size()));
  std::string changed = bytes;
  changed[60] ^= 1;
  expect_refused(changed, ErrorCode::kDataLoss, "was damaged: its checksum is");
  changed = bytes;
  changed[8] = 3;
  expect_refused(changed, ErrorCode::kUnimplemented,
                 "of version 3, and this library reads versions 1 to 2. Read it with the release "
                 "that wrote it");
  changed = bytes;
  changed[24] = 1;
  expect_refused(repaired(changed), ErrorCode::kDataLoss, "the elements of its constants begin at");
}

// Any prefix, with a header that fits: no count is believed.
TEST(BinaryGraph, RefusesAllThatIsCutOff) {
  const std::string bytes = to_binary(*tests::constants_graph());
  for (std::size_t size = sizeof(BinaryHeader); size < bytes.size(); ++size) {
    std::string cut = bytes.substr(0, size);
    BinaryHeader header;
    std::memcpy(&header, cut.data(), sizeof header);
    header.elements = std::min<uint64_t>(header.elements, size / 64 * 64);
    if (header.elements < sizeof header) continue;
    std::memcpy(cut.data(), &header, sizeof header);
    EXPECT_THROW(read_binary(repaired(cut)), Error) << size;
  }
}

TEST(BinaryGraph, SaysWhatIsWrongAndWhere) {
  HandMade made;
  made.texts = {"f", "x", "tanh", "axis"};
  made.types = {"float32[2]"};
  made.ops = raw({1, 2, 1, 0});
  const auto refused = [](const HandMade& file, const std::string& text,
                          ErrorCode code = ErrorCode::kDataLoss) {
    expect_refused(file.bytes(), code, text);
  };
  // f, followed by the inputs.
  const auto graph = [&](const std::string& rest) {
    made.graphs = raw({0}) + rest;
    return made;
  };
  const auto of_type = [&](const std::string& type) {
    HandMade out = made;
    out.types = {type};
    return out;
  };
  refused(of_type("float33[2]"), "type 0 is 'float33[2]', which is not a type");
  refused(of_type("float32[2]]"), "type 0 is 'float32[2]]', which is not a type");
  HandMade other = graph("");
  other.graph_count = 0;
  refused(other, "there is no graph");
  other.graph_count = 127;
  refused(other, "there are 127 graphs, but");
  other = graph("");
  other.constants = raw({1, 0});
  refused(other, "a constant is float32[2], but the bytes end before");
  other.graph_count = 1;
  other.constants = raw({0});
  other.graphs = raw({5});
  refused(other, "text 5 of 4 is named");
  refused(graph(raw({1, 1, 5})), "type 5 of 1 is named");
  refused(graph(raw({1, 1, 0, 4})), "input 0 has role 4: roles are 0 to 3");
  refused(graph(raw({2, 1, 0, 3, 1, 0, 0})), "input 1 has role 0: roles are 0 to 3, in this order");
  const std::string x = raw({1, 1, 0, 0});  // one input: "x", type 0, an argument
  refused(graph(x + raw({1, 0})), "constant 0 of 0 is named");
  refused(graph(x + raw({0, 1, 1, 0, 1})), "the number of a frame is 1, but at most 0");
  const std::string head = x + raw({0, 0, 1});  // no constants, no frames, one node
  refused(graph(head + raw({1})), "op 1 of 1 is named");
  refused(graph(head + raw({0, 5})), "the number of a file is 5, but at most 4");
  refused(graph(head + raw({0, 1, 0})), "a line is 0, or the name of its file");
  const std::string tanh = head + raw({0, 0, 0});  // without line and frame
  refused(graph(tanh + raw({1, 2})), "the number of a value is 2, but at most 1");
  refused(graph(tanh + raw({1, 1, 1, 1, 0})), "attribute 0 of 0 is named");
  refused(graph(tanh + raw({0, 1, 0})), "tanh", ErrorCode::kInvalidArgument);
  refused(graph(tanh + raw({1, 1, 2, 0})), "tanh has 1 results, but 2 here");
  HandMade good = graph(tanh + raw({1, 1, 1, 0, 1, 2}));
  EXPECT_EQ(to_text(*read_binary(good.bytes())),
            "graph f(x: float32[2]) -> (float32[2])\n  %1 = tanh(x)\n  return %1\n");
  good.functions += std::string(64, '\0');
  refused(good, "there are bytes after the last graph");
}

// Version 1 names ops and attributes at each call.
TEST(BinaryGraph, SaysWhatIsWrongInVersion1) {
  attrs_op();
  HandMade made;
  made.version = 1;
  made.texts = {"f", "x", "samples.attrs_sample", "flag", "kind", "program", "{what}"};
  made.types = {"float32[2]"};
  const auto of = [&](const std::string& node) {
    made.graphs = raw({0, 1, 1, 0, 0, 0, 0, 1}) + node + raw({1, 2});
    return made.bytes();
  };
  const auto refused = [&](const std::string& node, const std::string& text,
                           ErrorCode code = ErrorCode::kDataLoss) {
    expect_refused(of(node), code, text);
  };
  const std::string head = raw({2, 0, 0, 1, 1});
  EXPECT_EQ(read_binary(of(head + raw({1, 3, 1, 1})))->node(0).attrs.flag("flag"), true);
  refused(raw({1}), "byte 104 of a graph in binary form: no op is called 'x'. Nearest:",
          ErrorCode::kUnimplemented);
  refused(head + raw({1, 1, 1}), "attrs_sample has no attribute 'x'. It has flag, count",
          ErrorCode::kInvalidArgument);
  refused(head + raw({1, 3, 2}), "attribute 'flag' has no value");
  refused(head + raw({1, 3, 1, 2}), "a flag is 2, but at most 1");
  refused(head + raw({2, 3, 1, 1, 3, 1, 1}), "attribute 'flag' is given twice");
  refused(head + raw({1, 4, 1, 1}), "a dtype is needed, but the text is not one");
  refused(head + raw({1, 5, 1, 6}), "{what} is no scalar program", ErrorCode::kNotFound);
  made.types = {"float32[2]@cuda:0"};
  EXPECT_EQ(read_binary(of(head + raw({0})))->inputs()[0].type, intern_type(kFloat32, {2}));
}

// A megabyte as the name of three hundred inputs is not as many of memory.
TEST(BinaryGraph, RefusesTextsThatAreUsedTooOften) {
  GraphBuilder build("f");
  const std::string name(1 << 20, 'x');
  for (int i = 0; i < 300; ++i) build.add_input(name, intern_type(kFloat32, {}));
  expect_refused(to_binary(*build.finish({})), ErrorCode::kResourceExhausted,
                 "with texts, defaults, constants and graphs counted at each use, its ");
}

TEST(BinaryGraph, RefusesWrongAttributes) {
  attrs_op();
  HandMade made;
  made.texts = {"f", "x", "samples.attrs_sample", "flag", "kind", "program", "float32"};
  made.types = {"float32[2]"};
  const std::string flag = raw({3, 1, 2, 0});
  // y = samples.attrs_sample(x, ...), with the attributes that follow their number.
  const auto bytes = [&](const std::string& attributes, const std::string& first) {
    made.ops = raw({1, 2, 1, 3}) + first + raw({4, 4, 2, 6, 5, 8, 1});
    made.graphs = raw({0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1}) + attributes + raw({1, 2});
    return made.bytes();
  };
  const auto refused = [&](const std::string& attributes, const std::string& text,
                           ErrorCode code = ErrorCode::kDataLoss) {
    expect_refused(bytes(attributes, flag), code, text);
  };
  EXPECT_EQ(read_binary(bytes(raw({1, 0, 1}), flag))->node(0).attrs.flag("flag"), true);
  EXPECT_EQ(read_binary(bytes(raw({0}), raw({3, 1, 2, 1})))->node(0).attrs.flag("flag"), true);
  refused(raw({1, 0, 2}), "a flag is 2, but at most 1");
  refused(raw({2, 0, 1, 0, 1}), "attribute 'flag' is given twice");
  refused(raw({1, 1, 1}), "a dtype is needed, but the text is not one");
  refused(raw({1, 2, 5}), "program 5 of 0 is named");
  expect_refused(bytes(raw({0}), raw({3, 1, 0})), ErrorCode::kInvalidArgument,
                 "attrs_sample: attribute 'flag' is missing");
}

TEST(BinaryGraph, RefusesDamagedBools) {
  GraphBuilder build("f");
  const Draft c = build.add_constant(Tensor(std::vector<bool>{true, false}));
  std::string bytes = to_binary(*build.finish(std::array{c}));
  bytes.back() = 2;
  expect_refused(repaired(bytes), ErrorCode::kDataLoss, "dtype bool is neither 0 nor 1");
}

TEST(BinaryGraph, RefusesGraphsThatAreTooDeep) {
  GraphRef graph = tests::layer_graph();
  const auto around = [](const GraphRef& inner) {
    GraphBuilder build("f");
    std::vector<Draft> inputs;
    for (const Graph::Input& input : inner->inputs()) {
      inputs.push_back(build.add_input(input.name, input.type, input.role));
    }
    const Attrs attrs =
        attrs_of(apply_op(), {{"graph", internal::RefPtr<const AttrObject>(inner.get())}});
    return build.finish(std::array{build.add_node(apply_op(), attrs, inputs)});
  };
  for (int level = 0; level < 100; ++level) graph = around(graph);
  EXPECT_TRUE(read_binary(to_binary(*graph))->same(*graph));
  expect_refused(to_binary(*around(graph)), ErrorCode::kInvalidArgument,
                 "graphs refer to graphs more than 100 levels deep");
}

TEST(BinaryGraph, KeepsProgramsOfNoRecord) {
  GraphBuilder build("f");
  const Draft x = build.add_input("x", intern_type(kFloat32, {2}));
  const ScalarDef* made = internal::find_program("v1 = tanh(multiply(x1, p1)); add(v1, v1)", 1);
  ASSERT_NE(made, nullptr);
  const Draft y =
      build.add_node(attrs_op(), attrs_of(attrs_op(), {{"program", made}}), std::array{x});
  const GraphRef graph = build.finish(std::array{y});
  const GraphRef back = read_binary(to_binary(*graph));
  EXPECT_TRUE(back->same(*graph));
  EXPECT_TRUE(parse_graph(to_text(*graph))->same(*graph));
}

}  // namespace
}  // namespace etude
