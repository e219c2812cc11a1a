// SPDX-License-Identifier: Apache-2.0
// The lines in which two texts differ, for diff.cc.
#pragma once

#include <string>
#include <string_view>

namespace etude::internal {

// "  - a line of the first\n  + a line of the second\n"; at most 40 lines, and then how many more.
// cost: the product of the lines between the first and the last that differ; where that is large,
//       all of them are told instead of the fewest.
std::string line_diff(std::string_view a, std::string_view b);

}  // namespace etude::internal
