// SPDX-License-Identifier: Apache-2.0
// spec: G1
// expect: etude: no derivative for this function: write etude::derivative_of<&f>, mark it with
#include "etude/runtime/gradient.h"

auto g = etude::gradient([](double x) { return x * x; }, 3.0);
