// SPDX-License-Identifier: Apache-2.0
#include "tests/pairs/lists.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "tests/pairs/measure.h"

namespace pairs {

bool Entry::holds_for(const std::vector<std::string>& features) const {
  const auto fits = [](const std::string& pattern, const std::string& name) {
    return pattern == "*" || pattern == name;
  };
  for (std::size_t i = 0; i < features.size(); ++i) {
    for (std::size_t j = i + 1; j < features.size(); ++j) {
      if (fits(outer, features[i]) && fits(inner, features[j])) return true;
    }
  }
  return false;
}

std::vector<Entry> read_list(const std::string& path, bool with_kind,
                             const std::vector<std::string>& features) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + " cannot be read; run from the root of the sources");
  const auto known = [&](const std::string& name) {
    return name == "*" || std::find(features.begin(), features.end(), name) != features.end();
  };
  std::vector<Entry> out;
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    if (text.empty() || text[0] == '#') continue;
    const std::size_t colon = text.find(" : ");
    Entry entry;
    std::string more;
    std::istringstream words(text.substr(0, colon));
    words >> entry.outer >> entry.inner;
    if (with_kind) words >> entry.kind;
    words >> more;
    entry.rare = with_kind && more == "rare";
    const bool is_mode =
        !with_kind && std::find(std::begin(kModes), std::end(kModes), more) != std::end(kModes);
    if (is_mode) entry.mode = more;
    entry.line = line;
    if (colon == std::string::npos || !known(entry.outer) || !known(entry.inner) ||
        (!more.empty() && !entry.rare && !is_mode)) {
      throw std::runtime_error(path + ":" + std::to_string(line) + ": needs 'outer inner" +
                               (with_kind ? " kind [rare]" : " [mode]") +
                               " : text', with names of features or *");
    }
    entry.text = text.substr(colon + 3);
    out.push_back(entry);
  }
  return out;
}

}  // namespace pairs
