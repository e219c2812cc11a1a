// SPDX-License-Identifier: Apache-2.0
// expect: etude: transpose(f, x...) is that of a linear function f; the transpose of a
// expect: is matrix_transpose(x), of other axes permute_dims(x, axes)
#include "etude/autodiff/gradient.h"

auto x = transpose(etude::Tensor({{1.0, 2.0}}));
