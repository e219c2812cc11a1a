// SPDX-License-Identifier: Apache-2.0
// spec: G3
// expect: etude: no argument is Differentiable: an integer does not move; write 3.0 for 3
#include "etude/autodiff/gradient.h"

auto g = etude::gradient([](int n) { return etude::Tensor(n); }, 3);
