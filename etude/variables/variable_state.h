// SPDX-License-Identifier: Apache-2.0
// Accesses the state of a Variable without a read. Used by checkpoints; not for programs.
#pragma once

#include "etude/variables/variable.h"

namespace etude::internal {

// Whether the Variable has a value. Runs no initialiser.
bool has_value(const Variable& variable);
// throws: kInvalidArgument, naming the Variable, for a value that cannot be assigned to it.
void require_fits(const Variable& variable, const Tensor& value);
// Assigns a saved value at once, outside of any graph. If a function runs again for a derivative,
// it sees the value of the first run. throws: as require_fits.
void assign_saved(const Variable& variable, const Tensor& value);

}  // namespace etude::internal
