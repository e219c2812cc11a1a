// SPDX-License-Identifier: Apache-2.0
// spec: G3
// expect: etude: calls on host numbers are not recorded; pass Tensor(x), or no_derivative(x)
#include "etude/runtime/gradient.h"

auto g = etude::gradient([](double x) { return etude::Tensor(x); }, 3.0);
