// SPDX-License-Identifier: Apache-2.0
// spec: D15
// expect: etude: this structure can hold no such leaf
#include <vector>

#include "etude/base/structure.h"
#include "etude/core/tensor.h"

void walk(std::vector<int>& x) {
  etude::for_each_leaf<etude::Tensor>(x, [](etude::Tensor&) {});
}
