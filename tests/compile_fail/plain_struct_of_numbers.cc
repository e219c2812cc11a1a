// SPDX-License-Identifier: Apache-2.0
// spec: G1
// expect: etude: no derivative for this function: write etude::derivative_of<&f>, mark it with
#include "etude/diff/scalar_operators.h"

struct Point {
  double x, y;
};

auto g = etude::gradient([](const auto& p) { return p.x * p.y; }, Point{1, 2});
