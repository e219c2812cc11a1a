// SPDX-License-Identifier: Apache-2.0
// spec: G1
// expect: etude: no derivative for this function: write etude::derivative_of<&f>, mark it with
#include "etude/diff.h"

double f(double x) { return x * x; }
auto g = etude::gradient<&f>(3.0);
