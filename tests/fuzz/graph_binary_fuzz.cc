// SPDX-License-Identifier: Apache-2.0
// Any bytes are a container of graphs or an Error, and a container reads back as the same. The
// first byte selects a file, of both versions; the others are the bytes themselves (0), or edits
// (graph_fuzz.h). Sizes and checksum are corrected, so that the checks after them are reached.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "etude/graph/binary.h"
#include "etude/graph/binary_format.h"
#include "etude/graph/text/parse.h"
#include "tests/fuzz/graph_fuzz.h"

namespace {

using etude::NamedGraph;
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
  header.version = header.version == 1 ? 1 : etude::internal::kBinaryVersion;
  header.bytes = bytes.size();
  std::memcpy(bytes.data(), &header, sizeof header);
  header.checksum = etude::internal::binary_checksum(bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

// One file of each text, one of all of them, one of a symbolic graph, and the files of earlier
// releases.
std::vector<std::string> seeds() {
  std::vector<std::string> out;
  std::vector<NamedGraph> all;
  for (const std::string_view text : kTexts) {
    all.push_back({std::string("g") + std::to_string(all.size()), etude::parse_graph(text)});
    out.push_back(etude::to_binary(*all.back().graph));
  }
  std::vector<etude::GraphRef> sizes;
  for (const char* size : {"3", "7"}) {
    const std::string type = std::string("float32[") + size + "]";
    sizes.push_back(etude::parse_graph("graph s(x: " + type + ") -> (" + type + ")\n" +
                                       "  %1 = tanh(x)\n  return %1\n"));
  }
  all.push_back({"symbolic", {}, etude::SymbolicGraph::of(sizes).symbolic, {"y"}});
  out.push_back(etude::to_binary(*all.back().symbolic));
  out.push_back(etude::to_binary(all));
  const std::string here = __FILE__;
  const std::string folder = here.substr(0, here.rfind("fuzz/")) + "saved/files/";
  for (const char* name : {"graph_v1.etg", "symbolic_v1.etg", "container_v2.etg"}) {
    std::ifstream in(folder + name, std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    if (out.back().empty()) std::abort();  // the file is not there
  }
  return out;
}

void require_same(const std::vector<NamedGraph>& a, const std::vector<NamedGraph>& b) {
  if (a.size() != b.size()) std::abort();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].name != b[i].name || a[i].outputs != b[i].outputs) std::abort();
    if (static_cast<bool>(a[i].graph) != static_cast<bool>(b[i].graph)) std::abort();
    if (a[i].graph && !a[i].graph->same(*b[i].graph)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  static const std::vector<std::string> files = seeds();
  if (size < 1) return 0;
  const std::size_t pick = data[0] % (files.size() + 1);
  std::string bytes = pick == 0 ? std::string(data + 1, data + size)
                                : etude::fuzz::edited(files[pick - 1], data + 1, size - 1);
  if (!bytes.starts_with(etude::internal::kSymbolicMagic)) bytes = with_header(bytes);
  std::vector<NamedGraph> read;
  try {
    read = etude::read_binary_graphs(bytes);
  } catch (const etude::Error& error) {
    if (error.code() == etude::ErrorCode::kInternal) std::abort();
    return 0;
  }
  for (const NamedGraph& each : read) {
    if (!each.graph) continue;
    etude::verify(*each.graph);
    etude::fuzz::check_devices(*each.graph);
  }
  const std::string written = etude::to_binary(read);
  const std::vector<NamedGraph> again = etude::read_binary_graphs(written);
  require_same(read, again);
  if (etude::to_binary(again) != written) std::abort();
  return 0;
}
