// SPDX-License-Identifier: Apache-2.0
// Accesses the state of a Variable without a read. Used by checkpoints; not for programs.
#pragma once

#include <functional>

#include "etude/variables/variable.h"

namespace etude::internal {

// Whether the Variable has a value. Runs no initialiser.
bool has_value(const Variable& variable);
// throws: kInvalidArgument, naming the Variable, for a value that cannot be assigned to it.
void require_fits(const Variable& variable, const Tensor& value);
// Prepares the assignment of a saved value, outside of any graph. The returned function exchanges
// the saved value and the value of the Variable, and does not throw. If a function runs again for a
// derivative, it sees the value of the first run; the assignment is recorded for this run when it
// is prepared. throws: as require_fits.
std::function<void()> prepare_saved(const Variable& variable, const Tensor& value);

}  // namespace etude::internal
