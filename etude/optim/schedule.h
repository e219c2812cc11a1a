// SPDX-License-Identifier: Apache-2.0
// Schedules: optimiser options that change from update to update. A number is a constant schedule.
// Example: Adam({.lr = cosine(3e-3, steps)}).
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/option_ranges.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optimizer {
struct ScheduleTree;
}  // namespace optimizer
namespace optim {

// A value for each update; updates are counted from 0. Has value semantics. Several threads may
// evaluate a schedule at once if its host functions are thread-safe. Graphs can contain the
// schedules of this header. Each call of a staged step evaluates them, with the same bits. Graphs
// cannot contain a schedule with a host function.
class Schedule {
 public:
  template <class T>
  requires std::integral<T> || std::floating_point<T> Schedule(T constant)
      : constant_(static_cast<double>(constant)) {}
  template <class F>
  requires(std::is_invocable_r_v<double, const F&, int64_t> && !std::same_as<F, Schedule>)
      Schedule(F function)
      : tree_(of_host(std::move(function))) {}
  explicit Schedule(optimizer::ScheduleTree tree);

  double operator()(int64_t update) const {
    return tree_ == nullptr ? constant_ : evaluate(update);
  }
  // Returns the value of a constant; std::nullopt for all other schedules.
  std::optional<double> fixed() const {
    return tree_ == nullptr ? std::optional<double>(constant_) : std::nullopt;
  }
  optimizer::ScheduleTree tree() const;
  // Whether formulas and numbers are equal. A host function equals only its copies.
  friend bool operator==(const Schedule& a, const Schedule& b) { return a.equals(b); }

 private:
  static std::shared_ptr<const optimizer::ScheduleTree> of_host(
      std::function<double(int64_t)> function);
  double evaluate(int64_t update) const;
  bool equals(const Schedule& other) const;

  double constant_ = 0;
  std::shared_ptr<const optimizer::ScheduleTree> tree_;  // null for a constant
};

// Below, t is the number of the update, counted from 0, and T is a number of updates.
// throws (all): kInvalidArgument if T, `every` or `warmup` is below 1, for an option out of its
//   range, and for lists whose lengths do not match or whose bounds are not sorted.

// `value` at every update.
Schedule constant(double value);
// values[0] before update bounds[0], values[1] before bounds[1], ..., then the last value.
Schedule piecewise(std::vector<int64_t> bounds, std::vector<double> values,
                   CallSite where = CallSite::here());
// base times factor^floor(t / every).
Schedule step(double base, double factor, int64_t every, CallSite where = CallSite::here());
// base times rate^t.
Schedule exponential(double base, double rate);
// base / (1 + rate t).
Schedule inverse_time(double base, double rate);
// end + (base - end) (1 - min(t / T, 1))^power.
Schedule polynomial(double base, double end, double power, int64_t T,
                    CallSite where = CallSite::here());
// Half a cosine wave from base to `end` in T updates, then `end`.
Schedule cosine(double base, int64_t T, double end = 0, CallSite where = CallSite::here());
// Repeats cosine(). Each period is `mult` times as long as the period before; mult >= 1.
Schedule cosine_restarts(double base, int64_t T, double mult = 1, double end = 0,
                         CallSite where = CallSite::here());
// Rises linearly and reaches base at update T - 1. Stays at base afterwards.
Schedule linear_warmup(double base, int64_t T, CallSite where = CallSite::here());

struct OneCycleOptions {
  double rise = 0.3;       // fraction of T in which the value rises
  double div = 25;         // starts at max / div
  double final_div = 1e4;  // ends at max / div / final_div

  static constexpr void ranges(const auto& option) {
    option("rise", &OneCycleOptions::rise, within(0, 1));
    option("div", &OneCycleOptions::div, above(0));
    option("final_div", &OneCycleOptions::final_div, above(0));
  }
};
// Rises from max / div to max, then falls to max / div / final_div, in T updates and along half
// cosine waves.
Schedule one_cycle(double max, int64_t T, OneCycleOptions options = {},
                   CallSite where = CallSite::here());
// Rises like linear_warmup(base, warmup), then falls as base times sqrt(warmup / (t + 1)).
Schedule inverse_sqrt(double base, int64_t warmup, CallSite where = CallSite::here());

// The product of schedules: chain({cosine(0.1, 100), step(1, 0.5, 30)}).
Schedule chain(std::vector<Schedule> factors);
// Concatenates schedules. Part i ends before update bounds[i]. Each part counts its own updates
// from 0.
Schedule join(std::vector<Schedule> parts, std::vector<int64_t> bounds,
              CallSite where = CallSite::here());
// Rises like linear_warmup(then(0), T) in T updates, then continues with `then` from its update 0.
Schedule warmup(int64_t T, Schedule then, CallSite where = CallSite::here());

struct Segment {
  std::string shape = "linear";  // or "cosine", "exponential", "constant" (stays at start)
  double start = 0, end = 0;
  int64_t updates = 1;
};
// Concatenates segments. Each segment goes from its start to its end. Afterwards the value stays at
// the end of the last segment.
// throws: kInvalidArgument for an unknown shape, for a number of updates below 1, for an empty
// list, and for an exponential segment whose start or end is not above 0.
Schedule segments(const std::vector<Segment>& parts, CallSite where = CallSite::here());

}  // namespace optim
}  // namespace etude
