// SPDX-License-Identifier: Apache-2.0
// Shapes and dtypes on streams, as tensors are (core/tensor.h): std::cout << x.shape().
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
