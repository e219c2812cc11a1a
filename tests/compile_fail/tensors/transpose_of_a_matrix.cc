// SPDX-License-Identifier: Apache-2.0
// expect: etude: transpose(f, x...) is the transpose of a linear function f; that of a
// expect: is matrix_transpose(x), and permute_dims(x, axes) permutes other axes
#include "etude/autodiff/gradient.h"

auto x = transpose(etude::Tensor({{1.0, 2.0}}));
