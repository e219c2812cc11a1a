// SPDX-License-Identifier: Apache-2.0
// Stream output of shapes and dtypes: std::cout << x.shape(). Output of tensors is in
// core/tensor.h.
#pragma once

#include <iosfwd>

#include "etude/core/dtype.h"
#include "etude/core/shape.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// "[2,3]".
std::ostream& operator<<(std::ostream& out, const Shape& shape);
// "float32".
std::ostream& operator<<(std::ostream& out, DType dtype);

}  // namespace etude
