// SPDX-License-Identifier: Apache-2.0
// expect: etude: transpose(f, x...) is that of a linear function f; the transpose of a matrix is matrix_transpose(x)
#include "etude/runtime/gradient.h"

auto x = transpose(etude::Tensor({{1.0, 2.0}}));
