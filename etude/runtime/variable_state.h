// SPDX-License-Identifier: Apache-2.0
// What a Variable is before anybody reads it. Used by checkpoints; not for programs.
#pragma once

#include "etude/runtime/variable.h"

namespace etude::internal {

// Whether it has a value by now. An initialiser is not run.
bool has_value(const Variable& variable);
// throws: kInvalidArgument, naming the Variable, for a value that cannot be assigned to it.
void require_fits(const Variable& variable, const Tensor& value);

}  // namespace etude::internal
