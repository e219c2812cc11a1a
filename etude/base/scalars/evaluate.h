// SPDX-License-Identifier: Apache-2.0
// Evaluates scalar programs on single numbers, in double. Used by schedules (optim/schedule.cc).
// Not for tensors, which have kernels, nor for bodies of scans, which are compiled.
#pragma once

#include <span>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace scalar {

struct Program;

// Returns the result of a program for these values of its operands and numeric attributes. Uses the
// functions of <cmath>. Bools are 0 and 1.
//
// throws: kUnimplemented for a function that exists for tensors only.
// cost: a few nanoseconds per node.
double evaluate(const Program& program, std::span<const double> operands,
                std::span<const double> params);

}  // namespace scalar
}  // namespace etude
