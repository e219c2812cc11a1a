// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/kernels/cpu/optimizer/schedules.h"

namespace etude::optim {
namespace {

using optimizer::make_schedule;
using optimizer::ScheduleTree;

void require_length(std::string_view schedule, int64_t T, CallSite site) {
  etude::internal::located(schedule, site, [&] {
    ETUDE_REQUIRE(T >= 1, "{} updates are asked for, but at least 1 is needed", T);
  });
}

double real(int64_t n) { return static_cast<double>(n); }

Schedule formula(std::string_view name, std::vector<double> numbers) {
  return Schedule(make_schedule(name, std::move(numbers)));
}

void require_rising(std::string_view schedule, const std::vector<int64_t>& bounds,
                    std::size_t parts, CallSite site) {
  etude::internal::located(schedule, site, [&] {
    ETUDE_REQUIRE(parts == bounds.size() + 1, "{} bounds separate {} parts, but {} are given",
                  bounds.size(), bounds.size() + 1, parts);
    ETUDE_REQUIRE(std::is_sorted(bounds.begin(), bounds.end()), "the bounds do not rise");
  });
}

std::vector<ScheduleTree> trees(const std::vector<Schedule>& parts) {
  std::vector<ScheduleTree> out;
  for (const Schedule& part : parts) out.push_back(part.tree());
  return out;
}

}  // namespace

Schedule::Schedule(ScheduleTree tree)
    : tree_(std::make_shared<const ScheduleTree>(std::move(tree))) {}

std::shared_ptr<const ScheduleTree> Schedule::of_host(std::function<double(int64_t)> function) {
  return std::make_shared<const ScheduleTree>(ScheduleTree{
      .host = std::make_shared<const std::function<double(int64_t)>>(std::move(function))});
}

ScheduleTree Schedule::tree() const {
  return tree_ == nullptr ? make_schedule("constant", {constant_}) : *tree_;
}

double Schedule::evaluate(int64_t update) const { return value_at(*tree_, update); }

bool Schedule::equals(const Schedule& other) const {
  if (tree_ == nullptr || other.tree_ == nullptr) {
    return tree_ == other.tree_ && constant_ == other.constant_;
  }
  return tree_ == other.tree_ || *tree_ == *other.tree_;
}

Schedule constant(double value) { return {value}; }

Schedule piecewise(std::vector<int64_t> bounds, std::vector<double> values, CallSite site) {
  require_rising("piecewise", bounds, values.size(), site);
  std::vector<double> numbers(bounds.begin(), bounds.end());
  numbers.insert(numbers.end(), values.begin(), values.end());
  return formula("piecewise", std::move(numbers));
}

Schedule step(double base, double factor, int64_t every, CallSite site) {
  require_length("step", every, site);
  return formula("step", {base, factor, real(every)});
}

Schedule exponential(double base, double rate) { return formula("exponential", {base, rate}); }

Schedule inverse_time(double base, double rate) { return formula("inverse_time", {base, rate}); }

Schedule polynomial(double base, double end, double power, int64_t T, CallSite site) {
  require_length("polynomial", T, site);
  return formula("polynomial", {base, end, power, real(T)});
}

Schedule cosine(double base, int64_t T, double end, CallSite site) {
  require_length("cosine", T, site);
  return formula("cosine", {base, end, real(T)});
}

Schedule cosine_restarts(double base, int64_t T, double mult, double end, CallSite site) {
  require_length("cosine_restarts", T, site);
  etude::internal::located("cosine_restarts", site, [&] {
    ETUDE_REQUIRE(mult >= 1, "mult is {}, but must be at least 1", mult);
  });
  return formula("cosine_restarts", {base, real(T), mult, end});
}

Schedule linear_warmup(double base, int64_t T, CallSite site) {
  require_length("linear_warmup", T, site);
  return formula("linear_warmup", {base, real(T)});
}

Schedule one_cycle(double max, int64_t T, OneCycleOptions options, CallSite site) {
  require_length("one_cycle", T, site);
  etude::internal::check_options("one_cycle", options, site);
  const double start = max / options.div, end = start / options.final_div;
  const double top = options.rise * real(T) - 1, last = real(T - 1);
  return formula("one_cycle", {start, max, end, top, last});
}

Schedule inverse_sqrt(double base, int64_t warmup, CallSite site) {
  require_length("inverse_sqrt", warmup, site);
  return formula("inverse_sqrt", {base, real(warmup)});
}

Schedule chain(std::vector<Schedule> factors) {
  if (factors.empty()) return {1};
  return Schedule(make_schedule("chain", {}, trees(factors)));
}

Schedule join(std::vector<Schedule> parts, std::vector<int64_t> bounds, CallSite site) {
  require_rising("join", bounds, parts.size(), site);
  return Schedule(
      make_schedule("join", std::vector<double>(bounds.begin(), bounds.end()), trees(parts)));
}

Schedule warmup(int64_t T, Schedule then, CallSite site) {
  require_length("warmup", T, site);
  const double base = then(0);
  return join({linear_warmup(base, T, site), std::move(then)}, {T}, site);
}

namespace {

Schedule of_segment(const Segment& part) {
  ETUDE_REQUIRE(part.updates >= 1, "{} updates are asked for, but at least 1 is needed",
                part.updates);
  if (part.shape == "linear") return polynomial(part.start, part.end, 1, part.updates);
  if (part.shape == "cosine") return cosine(part.start, part.updates, part.end);
  if (part.shape == "constant") return constant(part.start);
  ETUDE_REQUIRE(part.shape == "exponential",
                "a shape is \"{}\", but must be \"linear\", \"cosine\", \"exponential\" or "
                "\"constant\"",
                part.shape);
  ETUDE_REQUIRE(part.start > 0 && part.end > 0,
                "an exponential goes from {} to {}, but both must be above 0", part.start,
                part.end);
  return exponential(part.start, std::pow(part.end / part.start, 1 / real(part.updates)));
}

}  // namespace

Schedule segments(const std::vector<Segment>& parts, CallSite where) {
  return etude::internal::located("segments", where, [&] {
    ETUDE_REQUIRE(!parts.empty(), "there are no segments");
    std::vector<Schedule> all;
    std::vector<int64_t> bounds;
    for (const Segment& part : parts) {
      all.push_back(of_segment(part));
      bounds.push_back((bounds.empty() ? 0 : bounds.back()) + part.updates);
    }
    const Segment& last = parts.back();
    all.push_back(constant(last.shape == "constant" ? last.start : last.end));
    return join(std::move(all), std::move(bounds));
  });
}

}  // namespace etude::optim
