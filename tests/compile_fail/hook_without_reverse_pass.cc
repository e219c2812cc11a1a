// SPDX-License-Identifier: Apache-2.0
// spec: D29
// expect: etude: with_derivative needs a reverse pass, and the gradient of up to four numbers goes
#include "etude/diff.h"

auto run(double x) {
  return etude::gradient(
      [](auto y) { return etude::with_derivative(y, [](auto dy) { return 10.0 * dy; }); }, x);
}
