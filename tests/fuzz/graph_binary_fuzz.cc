// SPDX-License-Identifier: Apache-2.0
// Any bytes are a graph or an Error, and a graph reads back as the same graph. The first byte
// selects a graph; the others are the bytes themselves (0), or edits (graph_fuzz.h). Sizes and
// checksum are corrected, so that the checks after them are reached.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "etude/graph/binary.h"
#include "etude/graph/binary_format.h"
#include "etude/graph/text/parse.h"
#include "tests/fuzz/graph_fuzz.h"

namespace {

using etude::internal::BinaryHeader;

constexpr std::string_view kTexts[] = {
    etude::fuzz::kNamesAndConstants,
    "graph f(x: int64[4], x~2: int64[4], p: bool[]) -> (int64[2], none)\n"
    "  %3, %4 = split(x, parts_or_sizes=[2, 2], axis=0)\n"
    "  %5 = pad(x~2, widths=[1, 1], mode=\"constant\", value=1e10)\n"
    "  %6 = astype(%5, dtype=complex64)\n"
    "  %7 = constant bool[3] [true, false, true]\n"
    "  %8 = internal.switch_case(p, %4, branches=[@same, @more])\n"
    "  return %8, none\n"
    "graph same(x: int64[2]) -> (int64[2])\n"
    "  return x\n"
    "graph more(x: int64[2]) -> (int64[2])\n"
    "  %1 = add(x, x)\n"
    "  return %1\n",
    "graph f(x: float32[2]) -> (float32[1])\n"
    "  %1 = internal.fused_elementwise(x, program={tanh(x1)}, params=[])\n"
    "  %2 = internal.call(%1, graph=@g)\n"
    "  return %2\n"
    "graph g(x: float32[2]) -> (float32[1])\n"
    "  %1 = sum(x, axis=[0], keepdims=true)\n"
    "  return %1\n",
};

std::string with_header(std::string bytes) {
  if (bytes.size() < sizeof(BinaryHeader)) return bytes;
  BinaryHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::memcpy(header.magic, etude::internal::kBinaryMagic.data(), sizeof header.magic);
  header.version = etude::internal::kBinaryVersion;
  header.bytes = bytes.size();
  std::memcpy(bytes.data(), &header, sizeof header);
  header.checksum = etude::internal::binary_checksum(bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  static const std::vector<std::string> files = [] {
    std::vector<std::string> out;
    for (const std::string_view text : kTexts) {
      out.push_back(etude::to_binary(*etude::parse_graph(text)));
    }
    return out;
  }();
  if (size < 1) return 0;
  const std::size_t pick = data[0] % (files.size() + 1);
  const std::string bytes =
      with_header(pick == 0 ? std::string(data + 1, data + size)
                            : etude::fuzz::edited(files[pick - 1], data + 1, size - 1));
  etude::fuzz::check_reader(
      bytes, [](const std::string& b) { return etude::read_binary(b); },
      [](const etude::Graph& g) { return etude::to_binary(g); });
  return 0;
}
