// SPDX-License-Identifier: Apache-2.0
// known.txt and impossible.txt: which pairs may go wrong, and how.
#pragma once

#include <string>
#include <vector>

namespace pairs {

// "outer inner kind [rare] : text". A star is any feature. In impossible.txt it is
// "outer inner [mode] : text", where the text is a part of the error of that mode, or of all.
struct Entry {
  std::string outer, inner, kind, mode, text;
  bool rare = false;
  int line = 0;
  int uses = 0;

  // Whether `outer` is around `inner` in a program of these features, listed from the outside to
  // the inside.
  bool holds_for(const std::vector<std::string>& features) const;
  bool is_of(const std::string& run_mode) const { return mode.empty() || mode == run_mode; }
};

// throws: std::runtime_error that names file and line for an entry that is malformed or names an
// unknown feature.
std::vector<Entry> read_list(const std::string& path, bool with_kind,
                             const std::vector<std::string>& features);

}  // namespace pairs
