// SPDX-License-Identifier: Apache-2.0
// spec: G3
// expect: etude: gradient: no argument is Differentiable
#include "etude/runtime/gradient.h"

auto g = etude::gradient([](int n) { return etude::Tensor(n); }, 3);
