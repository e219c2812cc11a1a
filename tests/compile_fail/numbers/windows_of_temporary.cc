// SPDX-License-Identifier: Apache-2.0
// spec: G10
// expect: etude: windows keep a reference to their numbers; give them a variable, not a temporary
#include <vector>

#include "etude/diff.h"

auto run(const std::vector<int>& begins) {
  return etude::windows<2>(std::vector<double>(8), begins).size();
}
