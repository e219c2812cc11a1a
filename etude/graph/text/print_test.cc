// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/text/print.h"

#include <bit>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "etude/core/internal/device_table.h"
#include "etude/graph/sample_graphs.h"

namespace etude {
namespace {

using tests::attrs_of;
using tests::attrs_op;
using tests::Draft;
using tests::op;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// "return" of a graph of one constant, without the rest.
std::string constant_line(const Tensor& value, const TextOptions& options = {}) {
  GraphBuilder build("f");
  const Draft c = build.add_constant(value);
  const std::string text = to_text(*build.finish(std::array{c}), options);
  const std::size_t begin = text.find("constant ");
  return text.substr(begin, text.find('\n', begin) - begin);
}

std::string call_line(const std::vector<std::pair<std::string_view, AttrValue>>& attrs) {
  GraphBuilder build("f");
  const Draft x = build.add_input("x", intern_type(kFloat32, {2}));
  const Draft y = build.add_node(attrs_op(), attrs_of(attrs_op(), attrs), std::array{x});
  const std::string text = to_text(*build.finish(std::array{y}));
  const std::size_t begin = text.find("samples.");
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(GraphText, ShowsRolesConstantsAndLines) {
  EXPECT_EQ(to_text(*tests::layer_graph()),
            "graph layer(\n"
            "    x: float32[2,3],\n"
            "    layers[0]/w: float32[3,4],\n"
            "    *key: uint64[2],\n"
            "    ^scale: float32[])\n"
            "    -> (float32[2,4])\n"
            "  %4 = constant float32[] 0.5\n"
            "  %5 = matmul(x, layers[0]/w)  # train.cc:41\n"
            "  %6 = multiply(%5, ^scale)    # train.cc:42\n"
            "  %7 = tanh(%6)                # train.cc:42\n"
            "  %8 = add(%7, %4)             # train.cc:43\n"
            "  return %8\n");
}

TEST(GraphText, ShowsTypesAndLeavesOutLinesIfAsked) {
  const std::string text = to_text(*tests::layer_graph(), {.types = true, .call_sites = false});
  EXPECT_NE(text.find("  %7: float32[2,4] = tanh(%6)\n"), std::string::npos) << text;
}

TEST(GraphText, PrintsEachGraphOnceBehindThoseThatReferToIt) {
  const std::string text = to_text(*tests::nested_graph());
  const auto place = [&](std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
    EXPECT_EQ(text.find(part), text.rfind(part)) << part << " is twice in\n" << text;
    return text.find(part);
  };
  EXPECT_EQ(place("graph main("), 0u);
  EXPECT_LT(place("graph main("), place("graph body("));
  EXPECT_LT(place("graph body("), place("graph body~2("));
  EXPECT_LT(place("graph body~2("), place("graph layer("));
  EXPECT_LT(place("graph=@body)"), place("graph=@body~2)"));
}

TEST(GraphText, TellsApartInputsOfOneName) {
  const std::string text = to_text(*tests::names_graph());
  for (const char* part :
       {"graph \"not a \\\"name\\\"\\n\"(", "    x: ", "    x~2: ", "    x~3: ", "    \"none\": ",
        "    \"a b\": ", "    \"x~2\": ", "    &x~2: ", "    ^x~2: ", "    \"na\xc3\xafve\": ",
        "    \"[0]\": ", "    a[0]: ", "samples.attrs_sample(^x~2, none)",
        "# \"a file\\n\\\".cc:7\":8", "  return none, %"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

TEST(GraphText, ShortConstantsAreExactNumbers) {
  EXPECT_EQ(constant_line(Tensor(0.1F)), "constant float32[] 0.1");
  EXPECT_EQ(constant_line(Tensor(std::vector<float>{0, -0.0F, kInfinity, -kInfinity})),
            "constant float32[4] [0, -0, inf, -inf]");
  EXPECT_EQ(constant_line(Tensor(std::vector<float>{std::bit_cast<float>(0x7fc00000U),
                                                    std::bit_cast<float>(0xffc00001U)})),
            "constant float32[2] [nan, nan(0xffc00001)]");
  EXPECT_EQ(constant_line(Tensor({{1, 2}, {3, 4}})), "constant int32[2,2] [[1, 2], [3, 4]]");
  EXPECT_EQ(constant_line(Tensor(std::vector<double>{}, {2, 0})), "constant float64[2,0] []");
  EXPECT_EQ(constant_line(Tensor(true)), "constant bool[] true");
  EXPECT_EQ(constant_line(Tensor(std::complex<float>(0.5F, -0.0F))), "constant complex64[] 0.5-0j");
  EXPECT_EQ(constant_line(Tensor(std::vector<Float16>{Float16(0.1F), Float16(65504.0F)})),
            "constant float16[2] [0.1, 65504]");
  EXPECT_EQ(constant_line(Tensor(std::vector<BFloat16>{BFloat16(0.1F)})),
            "constant bfloat16[1] [0.1]");
}

TEST(GraphText, LongConstantsAreBytesOrElided) {
  const Tensor counting(
      std::vector<int16_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, -1});
  EXPECT_EQ(constant_line(counting),
            "constant int16[17] hex "
            "0000010002000300040005000600070008000900"
            "0a000b000c000d000e000f00ffff");
  EXPECT_EQ(constant_line(counting, {.elide_constants = true}), "constant int16[17] 0, 1, 2, ...");
}

TEST(GraphText, AttributesAreExactAndOnlyThoseThatDiffer) {
  EXPECT_EQ(call_line({}), "samples.attrs_sample(x, none)");
  EXPECT_EQ(call_line({{"scale", 0.5}, {"count", int64_t{3}}}), "samples.attrs_sample(x, none)");
  EXPECT_EQ(call_line({{"flag", true}, {"count", int64_t{-7}}, {"kind", kInt8}}),
            "samples.attrs_sample(x, none, flag=true, count=-7, kind=int8)");
  EXPECT_EQ(call_line({{"scale", 0.1}, {"mode", std::string("a\"\n")}}),
            "samples.attrs_sample(x, none, scale=0.1, mode=\"a\\\"\\n\")");
  EXPECT_EQ(
      call_line({{"axes", std::vector<int64_t>{}}, {"weights", std::vector<double>{1, -0.0}}}),
      "samples.attrs_sample(x, none, axes=[], weights=[1, -0])");
}

TEST(GraphText, FindsTheRecordOfAProgram) {
  const ScalarDef& tanh = op("tanh").def().scalar;
  EXPECT_EQ(call_line({{"program", &tanh}}), "samples.attrs_sample(x, none, program={tanh(x1)})");
  const ScalarDef own = tanh;  // of no record
  EXPECT_EQ(call_line({{"program", &own}}), "samples.attrs_sample(x, none, program={tanh(x1)})");
}

TEST(GraphText, ShowsDevicesOtherThanTheHost) {
  GraphBuilder build("f");
  const Device device = internal::device_called("gpu:1");
  const Draft x = build.add_input("x", intern_type(kFloat32, {2}, device));
  EXPECT_EQ(to_text(*build.finish(std::array{x})),
            "graph f(x: float32[2]@gpu:1) -> (float32[2]@gpu:1)\n  return x\n");
}

TEST(GraphText, LongLinesDoNotMoveTheColumnOfLines) {
  GraphBuilder build("f");
  const Draft x = build.add_input("x", intern_type(kFloat32, {2}));
  const Draft y =
      build.add_node(op("tanh"), op("tanh").default_attrs(), std::array{x}, {"a.cc", 1});
  const Draft z =
      build.add_node(attrs_op(), attrs_of(attrs_op(), {{"mode", std::string(100, 'm')}}),
                     std::array{y}, {"a.cc", 2});
  const std::string text = to_text(*build.finish(std::array{z}));
  EXPECT_NE(text.find("  %1 = tanh(x)  # a.cc:1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\")  # a.cc:2\n"), std::string::npos) << text;
}

TEST(GraphText, NothingIsInAnEmptyGraph) {
  EXPECT_EQ(to_text(*GraphBuilder("f").finish({})), "graph f() -> ()\n  return\n");
}

}  // namespace
}  // namespace etude
