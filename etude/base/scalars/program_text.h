// SPDX-License-Identifier: Apache-2.0
// Parses the text of scalar programs, the inverse of to_string(program). For graphs whose programs
// belong to no op record. Each function in such a program must also be an op.
#pragma once

#include <optional>
#include <string_view>

#include "etude/base/scalars/scalar_program.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace scalar {

// Returns the program of a text such as "v1 = add(x1, p1); multiply(v1, v1)", with the operands and
// parameters that the text names. Equal calls become one node. So a program that was parsed is the
// same after it is printed and parsed again. Returns nullopt for invalid text, and for too many
// nodes or operands.
// cost: at most kMaxNodes calls, and as many levels of nesting.
std::optional<Program> parse_program(std::string_view text);

}  // namespace scalar
}  // namespace etude
