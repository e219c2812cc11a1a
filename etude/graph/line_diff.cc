// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/line_diff.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <fmt/format.h>

namespace etude::internal {
namespace {

constexpr std::size_t kMaxLines = 40;
constexpr std::size_t kMaxCells = std::size_t{1} << 22;

using Lines = std::vector<std::string_view>;

Lines lines_of(std::string_view text) {
  Lines out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// The minimal lines to remove and to add, by the longest common subsequence.
Lines fewest(std::span<const std::string_view> a, std::span<const std::string_view> b,
             std::vector<char>& signs) {
  const std::size_t columns = b.size() + 1;
  std::vector<uint32_t> common((a.size() + 1) * columns);  // of the rests from (i, k) on
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t k = b.size(); k-- > 0;) {
      common[i * columns + k] =
          a[i] == b[k] ? common[(i + 1) * columns + k + 1] + 1
                       : std::max(common[(i + 1) * columns + k], common[i * columns + k + 1]);
    }
  }
  Lines out;
  const auto add = [&](char sign, std::string_view line) {
    signs.push_back(sign);
    out.push_back(line);
  };
  std::size_t i = 0, k = 0;
  while (i < a.size() || k < b.size()) {
    if (i < a.size() && k < b.size() && a[i] == b[k]) {
      ++i;
      ++k;
    } else if (k == b.size() ||
               (i < a.size() && common[(i + 1) * columns + k] >= common[i * columns + k + 1])) {
      add('-', a[i++]);
    } else {
      add('+', b[k++]);
    }
  }
  return out;
}

}  // namespace

std::string line_diff(std::string_view text_a, std::string_view text_b) {
  const Lines all_a = lines_of(text_a), all_b = lines_of(text_b);
  std::span<const std::string_view> a(all_a), b(all_b);
  while (!a.empty() && !b.empty() && a.front() == b.front()) {
    a = a.subspan(1);
    b = b.subspan(1);
  }
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    a = a.first(a.size() - 1);
    b = b.first(b.size() - 1);
  }
  std::vector<char> signs;
  Lines lines;
  if (a.size() * b.size() <= kMaxCells) {
    lines = fewest(a, b, signs);
  } else {
    lines.assign(a.begin(), a.end());
    lines.insert(lines.end(), b.begin(), b.end());
    signs.assign(a.size(), '-');
    signs.resize(lines.size(), '+');
  }
  std::string out;
  for (std::size_t i = 0; i < std::min(lines.size(), kMaxLines); ++i) {
    const std::size_t text = std::min(lines[i].find_first_not_of(' '), lines[i].size());
    out += fmt::format("  {} {}\n", signs[i], lines[i].substr(text));
  }
  if (lines.size() > kMaxLines) out += fmt::format("  and {} more\n", lines.size() - kMaxLines);
  return out;
}

}  // namespace etude::internal
