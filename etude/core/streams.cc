// SPDX-License-Identifier: Apache-2.0
#include "etude/core/streams.h"

#include <ostream>

namespace etude {

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.to_string(); }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

}  // namespace etude
