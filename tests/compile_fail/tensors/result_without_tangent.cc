// SPDX-License-Identifier: Apache-2.0
// spec: G3
// expect: etude: the result type is not Differentiable
#include "etude/autodiff/gradient.h"

auto g = etude::pullback([](const etude::Tensor& x) { return x.to_string(); }, etude::Tensor(1.0));
