// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "etude/base/check.h"
#include "etude/graph/binary_format.h"
#include "etude/graph/binary_lists.h"

namespace etude::internal {

std::vector<std::string_view> split_symbolic(std::string_view bytes) {
  std::size_t at = kSymbolicMagic.size();
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

}  // namespace etude::internal
