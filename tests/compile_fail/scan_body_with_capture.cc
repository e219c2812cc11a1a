// SPDX-License-Identifier: Apache-2.0
// spec: G10
// expect: etude: the body of scan must capture nothing; pass what it reads as parameters or as
#include "etude/diff.h"

double run(double rate) {
  return etude::scan(10, 1.0, 2.0, [rate](auto s, auto p) { return s - rate * p; });
}
