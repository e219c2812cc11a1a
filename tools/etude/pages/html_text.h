// SPDX-License-Identifier: Apache-2.0
// Short texts for pages: sizes, times and lines of sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "etude/base/call_site.h"

namespace etude::tools {

inline std::string bytes_text(int64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.0f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.0f} MB", static_cast<double>(bytes) / 1e6);
}

inline std::string time_text(double micros) {
  if (micros < 1000) return fmt::format("{:.{}f} µs", micros, micros < 10 ? 2 : 1);
  return fmt::format("{:.2f} ms", micros / 1000);
}

inline std::string calls_text(std::size_t count) {
  return fmt::format("{} {}", count, count == 1 ? "call" : "calls");
}

// "train.cc:12"; "" for an unknown line.
inline std::string line_of(CallSite where) {
  if (!where.known()) return "";
  const std::string_view file = where.file;
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), where.line);
}

// At most `most` bytes. Does not cut a character of UTF-8 in two.
inline std::string shortened(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace etude::tools
