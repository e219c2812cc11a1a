// SPDX-License-Identifier: Apache-2.0
// Containers of graphs written by hand (etude/graph/binary.h), to test bytes that the writer does
// not write.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "etude/graph/binary_format.h"

namespace etude::tests {

// The bytes with a header that matches the rest.
inline std::string repaired(std::string bytes) {
  internal::BinaryHeader header{};
  std::memcpy(&header, bytes.data(), internal::kFirstHeader);
  header.bytes = bytes.size();
  std::memcpy(bytes.data(), &header, internal::kFirstHeader);
  header.checksum = internal::binary_checksum(bytes);
  std::memcpy(bytes.data(), &header, internal::kFirstHeader);
  return bytes;
}

// Bytes by their numbers.
inline std::string raw(std::initializer_list<int> numbers) {
  std::string out;
  for (const int number : numbers) out += static_cast<char>(number);
  return out;
}
inline std::string real_bytes(double value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// A file without constants; lists of fewer than 128 items. By default it has one function, text 0,
// which is graph 0.
struct HandMade {
  std::vector<std::string> texts, types;
  std::string graphs;  // after the number of graphs: 1 unless `functions` differ
  std::string ops = raw({0});
  std::string programs = raw({0});
  std::string constants = raw({0});
  std::string functions = raw({1, 0, 1, 0, 0});
  int graph_count = 1;
  uint32_t version = internal::kBinaryVersion;
  internal::BinaryContent content = internal::BinaryContent::kGraph;

  std::string bytes() const {
    std::string out(version == 1 ? internal::kFirstHeader : sizeof(internal::BinaryHeader), '\0');
    const auto add = [&](const std::vector<std::string>& list) {
      out += raw({static_cast<int>(list.size())});
      for (const std::string& text : list) out += raw({static_cast<int>(text.size())}) + text;
    };
    add(texts);
    add(types);
    if (version > 1) out += programs + ops + constants;
    out += raw({graph_count}) + graphs;
    if (version > 1) out += functions;
    out.resize(internal::binary_aligned(out.size()));
    internal::BinaryHeader header{{}, version, 0, 0, out.size(), content, 0};
    std::memcpy(header.magic, internal::kBinaryMagic.data(), internal::kBinaryMagic.size());
    std::memcpy(out.data(), &header, version == 1 ? internal::kFirstHeader : sizeof header);
    return repaired(out);
  }
};

}  // namespace etude::tests
