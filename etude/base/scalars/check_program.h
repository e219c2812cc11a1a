// SPDX-License-Identifier: Apache-2.0
// Checks that an array of nodes is a scalar program, for programs made at run time. The compiler
// checks those in records.
#pragma once

#include "etude/base/scalars/scalar_program.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace scalar {

// throws: kInvalidArgument, naming the node, for an operand that follows its use, a bool in place
// of a number or the reverse, or a wrong number of nodes or operands.
void check_program(const Program& program, int most_operands);

}  // namespace scalar
}  // namespace etude
