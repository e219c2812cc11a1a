// SPDX-License-Identifier: Apache-2.0
// What a Variable is before anybody reads it. Used by checkpoints; not for programs.
#pragma once

#include "etude/runtime/variable.h"

namespace etude::internal {

// Whether it has a value by now. An initialiser is not run.
bool has_value(const Variable& variable);
// throws: kInvalidArgument, naming the Variable, for a value that cannot be assigned to it.
void require_fits(const Variable& variable, const Tensor& value);
// Assigns a value that was saved, now and in no graph. A run that is repeated gets the value of the
// first one. throws: as require_fits.
void assign_saved(const Variable& variable, const Tensor& value);

}  // namespace etude::internal
