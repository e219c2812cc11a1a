// SPDX-License-Identifier: Apache-2.0
// A range of an option in words, for messages and reference pages.
#pragma once

#include <string>

#include "etude/core/option_ranges.h"

namespace etude::internal {

// "at least 0", "above 0", "in [0, 1)".
std::string range_text(const Range& range);

}  // namespace etude::internal
