// SPDX-License-Identifier: Apache-2.0
// What an array of nodes must be to be a scalar program: for those that are made while a program
// runs. The ones of records are checked by the compiler that builds them.
#pragma once

#include "etude/base/scalars/scalar_program.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace scalar {

// throws: kInvalidArgument, naming the node, for an operand behind its use, a truth where a number
//         is needed or the other way round, a number of nodes or of operands that does not fit.
void check_program(const Program& program, int most_operands);

}  // namespace scalar
}  // namespace etude
