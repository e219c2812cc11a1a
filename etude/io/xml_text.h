// SPDX-License-Identifier: Apache-2.0
// Text in a file of marks: pictures that are SVG, pages that are HTML.
#pragma once

#include <string>
#include <string_view>

namespace etude::internal {

// `text` as it stands between tags, or as an attribute in double quotes. Characters that XML 1.0
// has not are left out: control characters but tabs and ends of lines.
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
