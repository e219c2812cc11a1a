// SPDX-License-Identifier: Apache-2.0
// Scalar programs from their text: the way back from to_string(program). For graphs that carry
// programs which no record has: their functions are those that have an op.
#pragma once

#include <optional>
#include <string_view>

#include "etude/base/scalars/scalar_program.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace scalar {

// The program of a text such as "v1 = add(x1, p1); multiply(v1, v1)"; it has as many operands and
// parameters as the text names. Calls that are written twice are one node, so the program of a
// text, printed and read again, is the same program. Absent for any other text, or for more nodes
// or operands than fit. cost: at most kMaxNodes calls are read, and no deeper than that.
std::optional<Program> parse_program(std::string_view text);

}  // namespace scalar
}  // namespace etude
