// SPDX-License-Identifier: Apache-2.0
// A body that does not compile: one error of the compiler at the user's line, then our remedy.
// spec: G1.a
// expect: etude: this function does not compile with the numbers of a derivative, see the error
// expect: for a function of double that it calls write etude::derivative_of<&f>, and call
// expect: number_in_double.cc:12
// bodies: 1
// never: Active<
#include "etude/diff.h"

double cube(double x) { return x * x * x; }
auto g = etude::gradient([](auto x) { return cube(x) + x; }, 3.0);
