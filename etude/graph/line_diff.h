// SPDX-License-Identifier: Apache-2.0
// The differing lines of two texts, for diff.cc.
#pragma once

#include <string>
#include <string_view>

namespace etude::internal {

// "  - a line of the first\n  + a line of the second\n"; at most 40 lines, then the number of
// further lines.
// cost: the product of the numbers of lines between the first and the last difference. If the
// product is large, all these lines are listed instead of the fewest possible.
std::string line_diff(std::string_view a, std::string_view b);

}  // namespace etude::internal
