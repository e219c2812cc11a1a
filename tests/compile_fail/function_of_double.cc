// SPDX-License-Identifier: Apache-2.0
// spec: G1
// expect: etude: the function cannot be called with active scalars; make it and the structs it
// takes
#include "etude/runtime/gradient.h"

auto g = etude::gradient([](double x) { return x * x; }, 3.0);
