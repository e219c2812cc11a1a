// SPDX-License-Identifier: Apache-2.0
// spec: G10
// expect: etude: the body of scan computes with numbers alone; make flags, integers and whatever
#include <vector>

#include "etude/diff.h"

template <class T>
struct Sample {
  T at;
  int weight;
};
double run(const std::vector<Sample<double>>& samples) {
  return etude::scan(
      samples.size(), 1.0, 2.0,
      [](auto s, auto p, const auto& x) { return s + p * x.at * x.weight; }, samples);
}
