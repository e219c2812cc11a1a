// SPDX-License-Identifier: Apache-2.0
// spec: G10
// expect: etude: derivative of 'scan' needs Differentiable<State>; State has no tangent type
// expect: Cursor
#include "etude/diff.h"

struct Cursor {
  double* at;
};
auto run(Cursor cursor) {
  return etude::scan(10, cursor, 2.0, [](auto s, auto) { return s; });
}
