// SPDX-License-Identifier: Apache-2.0
// spec: G9, D44.a
// expect: etude: operator() is not differentiable with respect to *this
// expect: MyLayer
#include <cstdio>

#include "etude/diff.h"

struct MyLayer {
  std::FILE* log;
  double operator()(double x) const { return x; }
};
static_assert(etude::is_differentiable_layer<MyLayer, double>());
