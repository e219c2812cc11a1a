// SPDX-License-Identifier: Apache-2.0
// Runs programs in forked children, block by block, so that a crash is a row of the table and not
// the end.
#pragma once

#include <vector>

#include "tests/pairs/measure.h"

namespace pairs {

// The outcomes of all programs, in their order. A program that ends its process, or takes more than
// 20 s, is of kind crash. The process must have no threads.
std::vector<Outcome> run_forked(const std::vector<Program>& programs, int jobs);

}  // namespace pairs
