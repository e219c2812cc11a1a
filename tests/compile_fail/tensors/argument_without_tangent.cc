// SPDX-License-Identifier: Apache-2.0
// spec: G2.a
// expect: etude: an argument is not Differentiable; wrap it in no_derivative()
#include <cstdio>

#include "etude/autodiff/gradient.h"

auto g = etude::gradient([](const etude::Tensor& x, std::FILE*) { return x; }, etude::Tensor(1.0),
                         stdin);
