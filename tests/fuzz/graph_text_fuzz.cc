// SPDX-License-Identifier: Apache-2.0
// Any text is a graph or an Error, and a graph reads back as the same graph. The first two bytes
// select a text, written by hand or for a sample of a record; the others are the text itself (0),
// or edits (graph_fuzz.h).
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "etude/base/error.h"
#include "etude/core/op/registry.h"
#include "etude/graph/builder.h"
#include "etude/graph/text/parse.h"
#include "etude/graph/text/print.h"
#include "tests/fuzz/graph_fuzz.h"

namespace {

constexpr std::string_view kTexts[] = {
    etude::fuzz::kNamesAndConstants,
    "graph \"a\\x01\"(x: int64[4], x~2: int64[4]) -> (int64[2], none)\n"
    "  %2 = constant int64[3] hex 000000000000000001000000000000000200000000000000\n"
    "  %3, %4 = split(x, parts_or_sizes=[2, 2], axis=0)\n"
    "  %5 = pad(x~2, widths=[1, 1], mode=\"constant\", value=1e10)\n"
    "  %6 = astype(%5, dtype=complex64)\n"
    "  %7 = constant complex128[2] [1+2j, -0-infj]\n"
    "  return %3, none\n",
    "graph f(x: float32[2]) -> (float32[2])\n"
    "  %1 = internal.fused_elementwise(x, program={tanh(x1)}, params=[])\n"
    "  %2 = internal.fused_elementwise(x, %1, program={multiply(x1, x2)}, params=[])\n"
    "  %3 = concat(x, %1, %2, axis=[-1])\n"
    "  %4 = reshape(%3, shape=[2, 3])\n"
    "  %5 = sum(%4, axis=[1], keepdims=false)\n"
    "  return %5\n",
};

// The type of an operand as a sample writes it: "[2,3]" is float32 where the record takes it.
const etude::Type* operand_type(const etude::Op& op, std::size_t i, std::string_view text) {
  if (text == "-") return nullptr;
  const etude::DTypeSet set = op.operand_dtypes(i);
  for (int d = 0; d < etude::kDTypeCount && !set.contains(etude::kFloat32); ++d) {
    const auto dtype = static_cast<etude::DType>(d);
    if (set.contains(dtype)) return etude::parse_type(text, dtype);
  }
  return etude::parse_type(text);
}

std::string text_of(const etude::Op& op, const etude::Sample& sample) {
  etude::GraphBuilder build("f");
  std::vector<etude::GraphBuilder::Draft> operands;
  for (std::size_t i = 0; i < sample.operands.size(); ++i) {
    const etude::Type* type = operand_type(op, i, sample.operands[i]);
    operands.push_back(type == nullptr ? etude::GraphBuilder::kNoDraft
                                       : build.add_input("x", type));
  }
  const auto y = build.add_node(op, op.attrs_by_name(sample.attrs), operands, {"train.cc", 7});
  return etude::to_text(*build.finish(std::array{y}, true));
}

std::vector<std::string> make_texts() {
  std::vector<std::string> out(std::begin(kTexts), std::end(kTexts));
  for (const std::string& text : out) etude::parse_graph(text);  // they must be right to begin with
  for (const etude::Op* op : etude::Registry::global().ops()) {
    for (const etude::Sample& sample : op->def().samples.calls) {
      try {
        out.push_back(text_of(*op, sample));
      } catch (const etude::Error&) {  // not for this dtype, or its size depends on data
      }
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  static const std::vector<std::string> texts = make_texts();
  if (size < 2) return 0;
  const std::size_t pick = (data[0] * 256u + data[1]) % (texts.size() + 1);
  const std::string text = pick == 0 ? std::string(data + 2, data + size)
                                     : etude::fuzz::edited(texts[pick - 1], data + 2, size - 2);
  etude::fuzz::check_reader(
      text, [](const std::string& t) { return etude::parse_graph(t); },
      [](const etude::Graph& g) { return etude::to_text(g); });
  return 0;
}
