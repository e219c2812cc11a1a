// SPDX-License-Identifier: Apache-2.0
// known.txt and impossible.txt: which pairs may go wrong, and how.
#pragma once

#include <string>
#include <vector>

namespace pairs {

// "outer inner kind [rare] : text". A star is any feature. In impossible.txt there is no kind, and
// the text is a part of the error.
struct Entry {
  std::string outer, inner, kind, text;
  bool rare = false;
  int line = 0;
  int uses = 0;

  // Whether `outer` stands around `inner` in a program of those features, from the outside to the
  // inside.
  bool holds_for(const std::vector<std::string>& features) const;
};

// throws: std::runtime_error that names file and line for an entry that is malformed or names an
// unknown feature.
std::vector<Entry> read_list(const std::string& path, bool with_kind,
                             const std::vector<std::string>& features);

}  // namespace pairs
