// SPDX-License-Identifier: Apache-2.0
// The body of a scan is compiled for all values at once.
// spec: G10
// error: etude: this code is compiled once for all values, as the body of a scan is: it
// expect: cannot branch on a value; use where(condition, a, b) for if and ?:
#include "etude/diff.h"

double run(double start) {
  return etude::scan(3, start, 2.0, [](auto s, auto k) {
    if (s > k) return s;
    return s * k;
  });
}
