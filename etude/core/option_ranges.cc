// SPDX-License-Identifier: Apache-2.0
#include "etude/core/option_ranges.h"

#include <cmath>
#include <string>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/range_text.h"

namespace etude::internal {
std::string range_text(const Range& range) {
  if (std::isinf(range.high)) {
    return fmt::format("{} {}", range.has_low ? "at least" : "above", range.low);
  }
  return fmt::format("in {}{}, {}{}", range.has_low ? '[' : '(', range.low, range.high,
                     range.has_high ? ']' : ')');
}

void throw_outside(std::string_view owner, std::string_view option, double value,
                   const Range& range, CallSite where) {
  Error error(ErrorCode::kInvalidArgument,
              fmt::format("{} is {}, but must be {}", option, value, range_text(range)));
  explain(error, owner, where);
  throw error;
}

}  // namespace etude::internal
