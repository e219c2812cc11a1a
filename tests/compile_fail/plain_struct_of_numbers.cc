// SPDX-License-Identifier: Apache-2.0
// spec: G1
// expect: etude: the function cannot be called with active scalars; make it and the structs it
// takes expect: generic (auto parameters, templates on the scalar) or let them use etude::Real
#include "etude/diff/scalar_operators.h"

struct Point {
  double x, y;
};

auto g = etude::gradient([](const auto& p) { return p.x * p.y; }, Point{1, 2});
