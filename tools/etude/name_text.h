// SPDX-License-Identifier: Apache-2.0
// Names from files in errors: short, and without bytes that a terminal acts on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "etude/core/op/exact_text.h"
#include "etude/graph/text/names.h"
#include "tools/etude/pages/html_text.h"

namespace etude::tools {

// At most 100 bytes of a name, with control bytes escaped. The caller puts it in quotes.
inline std::string shown(std::string_view name) {
  const std::string text = internal::quoted_text(shortened(std::string(name), 100));
  return text.substr(1, text.size() - 2);
}

// A text for a terminal, with control bytes escaped; ends of lines and tabs may stay.
inline std::string without_controls(std::string_view text, bool keeps_lines = false) {
  std::string out;
  for (const char c : text) {
    const bool is_kept = ((c == '\n' || c == '\t') && keeps_lines) ||
                         (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    const std::string escaped =
        is_kept ? std::string(1, c) : internal::quoted_text(std::string_view(&c, 1));
    out += is_kept ? escaped : escaped.substr(1, escaped.size() - 2);
  }
  return out;
}

// "predict, train". A name of other letters than names in graphs is quoted.
inline std::string shown(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 20;
  std::vector<std::string> some;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    some.push_back(internal::spell_name(shortened(names[i], 100)));
  }
  const std::size_t more = names.size() - some.size();
  return fmt::format("{}{}", fmt::join(some, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

// "'a', 'b' and 3 more".
inline std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> some;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    some.push_back(fmt::format("'{}'", shown(names[i])));
  }
  const std::size_t more = names.size() - some.size();
  return fmt::format("{}{}", fmt::join(some, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

}  // namespace etude::tools
