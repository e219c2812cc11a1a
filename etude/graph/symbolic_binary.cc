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
  std::size_t at = internal::kFamilyMagic.size();
  const auto number = [&](const char* what) {
    uint64_t out = 0;
    ETUDE_REQUIRE_CODE(kDataLoss, bytes.size() - at >= sizeof out,
                       "a family in binary form is torn: it has {} bytes, and ends before {}",
                       bytes.size(), what);
    std::memcpy(&out, bytes.data() + at, sizeof out);
    at += sizeof out;
    return out;
  };
  const uint64_t count = number("the number of its graphs");
  ETUDE_REQUIRE_CODE(kDataLoss, count >= 2 && count <= bytes.size() / sizeof count,
                     "a family in binary form of {} bytes cannot have {} graphs", bytes.size(),
                     count);
  std::vector<uint64_t> lengths(static_cast<std::size_t>(count));
  for (uint64_t& length : lengths) length = number("the bytes of its graphs");
  std::vector<std::string_view> out;
  for (const uint64_t length : lengths) {
    at = binary_aligned(at);
    ETUDE_REQUIRE_CODE(kDataLoss, at <= bytes.size() && length <= bytes.size() - at,
                       "a family in binary form is torn: it has {} bytes, and graph {} begins at "
                       "{} and has {}",
                       bytes.size(), out.size(), at, length);
    out.push_back(bytes.substr(at, static_cast<std::size_t>(length)));
    at += static_cast<std::size_t>(length);
  }
  ETUDE_REQUIRE_CODE(kDataLoss, at == bytes.size(),
                     "a family in binary form has {} bytes, but its graphs end at {}", bytes.size(),
                     at);
  return out;
}

}  // namespace

std::string to_binary(const Family& family) {
  std::vector<std::string> graphs;
  for (const GraphRef& graph : family.graphs()) graphs.push_back(to_binary(*graph));
  std::string out(internal::kFamilyMagic);
  add_number(out, graphs.size());
  for (const std::string& graph : graphs) add_number(out, graph.size());
  for (const std::string& graph : graphs) {
    out.resize(binary_aligned(out.size()));
    out += graph;
  }
  return out;
}

bool is_binary_family(std::string_view bytes) noexcept {
  return bytes.starts_with(internal::kFamilyMagic);
}

FamilyRef read_binary_family(std::string_view bytes) {
  ETUDE_REQUIRE_CODE(kDataLoss, is_binary_family(bytes),
                     "these {} bytes are no family in binary form, which begins with \\x89ETF",
                     bytes.size());
  std::vector<GraphRef> graphs;
  for (const std::string_view graph : split(bytes)) graphs.push_back(read_binary(graph));
  FamilyFound found = Family::of(graphs);
  ETUDE_REQUIRE_CODE(kDataLoss, found.family, "the graphs of a family in binary form are none: {}",
                     found.difference);
  return std::move(found.family);
}

}  // namespace etude
