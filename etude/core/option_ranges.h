// SPDX-License-Identifier: Apache-2.0
// The valid ranges of options. Each struct of options has a table; check_options() checks all rows
// of a table. A row names an option (a number, a schedule or a list of numbers) and its range. The
// table is a function that calls its argument once for each row, so an unused table generates no
// code. A test covers every row, and finds numeric options without a row.
//
//   struct HuberLossOptions {
//     double delta = 1;
//     static constexpr void ranges(const auto& option) {
//       option("delta", &HuberLossOptions::delta, above(0));
//     }
//   };
//   internal::check_options("huber_loss", options, where);
#pragma once

#include <concepts>
#include <limits>
#include <optional>
#include <string_view>

#include "etude/base/call_site.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// An interval of numbers. Does not contain NaN.
struct Range {
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  double low = -kNone, high = kNone;
  bool has_low = false, has_high = false;  // whether the ends are included

  constexpr bool holds(double x) const {
    return (has_low ? x >= low : x > low) && (has_high ? x <= high : x < high);
  }
};
// Ranges that messages describe as "at least 0", "above 0", "in [0, 1)" and "in [0, 1]".
constexpr Range at_least(double low) { return {.low = low, .has_low = true}; }
constexpr Range above(double low) { return {.low = low}; }
constexpr Range up_to(double low, double high) { return {low, high, true, false}; }
constexpr Range within(double low, double high) { return {low, high, true, true}; }

namespace internal {

// throws: kInvalidArgument, "SGD: lr is -1, but must be at least 0", with the user's line.
[[noreturn]] void throw_outside(std::string_view owner, std::string_view option, double value,
                                const Range& range, CallSite where);

inline void check_range(std::string_view owner, std::string_view option, double value,
                        const Range& range, CallSite where) {
  if (!range.holds(value)) throw_outside(owner, option, value, range, where);
}

// Calls fn for each number of an option: a number, the elements of a list, or the value of a
// constant schedule.
template <class T, class Fn>
void each_number(const T& option, const Fn& fn) {
  if constexpr (std::integral<T> || std::floating_point<T>) {
    fn(static_cast<double>(option));
  } else if constexpr (requires { option.values(); }) {
    for (const auto number : option.values()) fn(static_cast<double>(number));
  } else {
    if (const std::optional<double> number = option.fixed()) fn(*number);
  }
}

// Checks every option in the table of O. `owner` and `where` are for the error. throws: as
// throw_outside().
template <class O>
void check_options(std::string_view owner, const O& options, CallSite where) {
  O::ranges([&](std::string_view name, auto option, const Range& range) {
    each_number(options.*option,
                [&](double number) { check_range(owner, name, number, range, where); });
  });
}

}  // namespace internal
}  // namespace etude
