// SPDX-License-Identifier: Apache-2.0
// Parses the text of scalar programs, the inverse of to_string(program). For graphs with programs
// that no record has. All functions of such programs have an op.
#pragma once

#include <optional>
#include <string_view>

#include "etude/base/scalars/scalar_program.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace scalar {

// The program of a text such as "v1 = add(x1, p1); multiply(v1, v1)", with the operands and
// parameters that the text names. Equal calls are one node, so printing and parsing a parsed
// program returns the same program. Absent for any other text, or for too many nodes or operands.
// cost: parses at most kMaxNodes calls, nested at most that deep.
std::optional<Program> parse_program(std::string_view text);

}  // namespace scalar
}  // namespace etude
