// SPDX-License-Identifier: Apache-2.0
// spec: G3
// expect: etude: gradient needs a function with one scalar Tensor as its result
// expect: use pullback for other results
#include "etude/autodiff/gradient.h"

auto g = etude::gradient(
    [](const etude::Tensor& x) {
      return std::pair{x, x};
    },
    etude::Tensor(1.0));
