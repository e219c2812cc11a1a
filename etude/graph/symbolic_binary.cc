// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/base/check.h"
#include "etude/graph/binary.h"
#include "etude/graph/binary_format.h"

namespace etude {
namespace {

using internal::binary_aligned;

void add_number(std::string& to, uint64_t number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// The bytes of each graph; all bytes must be present.
std::vector<std::string_view> split(std::string_view bytes) {
  std::size_t at = internal::kSymbolicMagic.size();
  const auto number = [&](const char* what) {
    uint64_t out = 0;
    ETUDE_REQUIRE_CODE(
        kDataLoss, bytes.size() - at >= sizeof out,
        "a symbolic graph in binary form is torn: it has {} bytes, and ends before {}",
        bytes.size(), what);
    std::memcpy(&out, bytes.data() + at, sizeof out);
    at += sizeof out;
    return out;
  };
  const uint64_t count = number("the number of its graphs");
  ETUDE_REQUIRE_CODE(kDataLoss, count >= 2 && count <= bytes.size() / sizeof count,
                     "a symbolic graph in binary form of {} bytes cannot have {} graphs",
                     bytes.size(), count);
  std::vector<uint64_t> lengths(static_cast<std::size_t>(count));
  for (uint64_t& length : lengths) length = number("the bytes of its graphs");
  std::vector<std::string_view> out;
  for (const uint64_t length : lengths) {
    at = binary_aligned(at);
    ETUDE_REQUIRE_CODE(
        kDataLoss, at <= bytes.size() && length <= bytes.size() - at,
        "a symbolic graph in binary form is torn: it has {} bytes, and graph {} begins at "
        "{} and has {}",
        bytes.size(), out.size(), at, length);
    out.push_back(bytes.substr(at, static_cast<std::size_t>(length)));
    at += static_cast<std::size_t>(length);
  }
  ETUDE_REQUIRE_CODE(kDataLoss, at == bytes.size(),
                     "a symbolic graph in binary form has {} bytes, but its graphs end at {}",
                     bytes.size(), at);
  return out;
}

}  // namespace

std::string to_binary(const SymbolicGraph& symbolic) {
  std::vector<std::string> graphs;
  for (const GraphRef& graph : symbolic.graphs()) graphs.push_back(to_binary(*graph));
  std::string out(internal::kSymbolicMagic);
  add_number(out, graphs.size());
  for (const std::string& graph : graphs) add_number(out, graph.size());
  for (const std::string& graph : graphs) {
    out.resize(binary_aligned(out.size()));
    out += graph;
  }
  return out;
}

bool is_symbolic_binary(std::string_view bytes) noexcept {
  return bytes.starts_with(internal::kSymbolicMagic);
}

SymbolicGraphRef read_symbolic_binary(std::string_view bytes) {
  ETUDE_REQUIRE_CODE(
      kDataLoss, is_symbolic_binary(bytes),
      "these {} bytes are no symbolic graph in binary form, which begins with \\x89ETF",
      bytes.size());
  std::vector<GraphRef> graphs;
  for (const std::string_view graph : split(bytes)) graphs.push_back(read_binary(graph));
  SymbolicFound found = SymbolicGraph::of(graphs);
  ETUDE_REQUIRE_CODE(kDataLoss, found.symbolic,
                     "the graphs of a binary symbolic graph do not form one: {}", found.difference);
  return std::move(found.symbolic);
}

}  // namespace etude
