// SPDX-License-Identifier: Apache-2.0
// spec: G10
// expect: etude: windows begin at whole numbers; give a sequence of integers
#include <vector>

#include "etude/diff.h"

auto run(const std::vector<double>& numbers, const std::vector<double>& places) {
  return etude::windows<2>(numbers, places).size();
}
