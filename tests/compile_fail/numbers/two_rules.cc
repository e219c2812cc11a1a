// SPDX-License-Identifier: Apache-2.0
// spec: G13.a
// expect: redefinition of
#include "etude/diff.h"

double cube(double x) { return x * x * x; }
template <>
struct etude::derivative_of<&cube> {
  static auto jvp(double x, double dx) { return std::pair{cube(x), 3 * x * x * dx}; }
};
template <>
struct etude::derivative_of<&cube> {};
