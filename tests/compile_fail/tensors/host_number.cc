// SPDX-License-Identifier: Apache-2.0
// spec: G3
// expect: etude: calls on host numbers are not recorded; pass Tensor(x), or no_derivative(x)
#include "etude/autodiff/gradient.h"
#include "etude/ops.h"

auto g = etude::gradient([](const etude::Tensor& x, double y) { return x * y; }, etude::Tensor(1.0),
                         3.0);
