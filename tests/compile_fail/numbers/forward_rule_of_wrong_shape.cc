// SPDX-License-Identifier: Apache-2.0
// spec: D42
// expect: derivative_of<F>::jvp must take F's parameters and their tangents and return pair{value,
// expect: double(double, double), double
#include "etude/diff.h"

double cube(double x) { return x * x * x; }
template <>
struct etude::derivative_of<&cube> {
  static auto jvp(double x) { return std::pair{cube(x), 3 * x * x}; }
};
auto g = etude::gradient<&cube>(2.0);
