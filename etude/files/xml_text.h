// SPDX-License-Identifier: Apache-2.0
// Escapes text for SVG and HTML files.
#pragma once

#include <string>
#include <string_view>

namespace etude::internal {

// Escapes `text` for use between tags, or as the value of an attribute in double quotes. Drops
// control characters that XML 1.0 does not allow: all except tabs and line ends.
inline std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (static_cast<unsigned char>(c) >= 0x20 || c == '\t' || c == '\n' || c == '\r') {
      out += c;
    }
  }
  return out;
}

}  // namespace etude::internal
