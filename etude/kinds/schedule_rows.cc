// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "etude/kinds/table.h"
#include "etude/optim/schedule.h"

namespace etude::kinds {
namespace {

using optim::Schedule;
using std::vector;
using N = NoOptions;

void add_formulas(Rows rows) {
  rows.function<N, double>("optim.constant",
                           [](const N&, CallSite, double value) { return optim::constant(value); },
                           {"value"}, {0.1});
  rows.function<N, double, double, int64_t>(
      "optim.step",
      [](const N&, CallSite where, double base, double factor, int64_t every) {
        return optim::step(base, factor, every, where);
      },
      {"base", "factor", "every"}, {0.1, 0.5, 3});
  rows.function<N, double, double>(
      "optim.exponential",
      [](const N&, CallSite, double base, double rate) { return optim::exponential(base, rate); },
      {"base", "rate"}, {0.1, 0.9});
  rows.function<N, double, double>(
      "optim.inverse_time",
      [](const N&, CallSite, double base, double rate) { return optim::inverse_time(base, rate); },
      {"base", "rate"}, {0.1, 0.9});
  rows.function<N, double, double, double, int64_t>(
      "optim.polynomial",
      [](const N&, CallSite where, double base, double end, double power, int64_t T) {
        return optim::polynomial(base, end, power, T, where);
      },
      {"base", "end", "power", "T"}, {0.1, 0.01, 2.0, 10});
  rows.function<N, double, int64_t, double>(
      "optim.cosine",
      [](const N&, CallSite where, double base, int64_t T, double end) {
        return optim::cosine(base, T, end, where);
      },
      {"base", "T", {"end", 0}}, {0.1, 10});
  rows.function<N, double, int64_t, double, double>(
      "optim.cosine_restarts",
      [](const N&, CallSite where, double base, int64_t T, double mult, double end) {
        return optim::cosine_restarts(base, T, mult, end, where);
      },
      {"base", "T", {"mult", 1}, {"end", 0}}, {0.1, 10});
  rows.function<N, double, int64_t>("optim.linear_warmup",
                                    [](const N&, CallSite where, double base, int64_t T) {
                                      return optim::linear_warmup(base, T, where);
                                    },
                                    {"base", "T"}, {0.1, 10});
  rows.function<N, double, int64_t>("optim.inverse_sqrt",
                                    [](const N&, CallSite where, double base, int64_t warmup) {
                                      return optim::inverse_sqrt(base, warmup, where);
                                    },
                                    {"base", "warmup"}, {0.1, 10});
  rows.function<optim::OneCycleOptions, double, int64_t>(
      "optim.one_cycle",
      [](const optim::OneCycleOptions& options, CallSite where, double max, int64_t T) {
        return optim::one_cycle(max, T, options, where);
      },
      {"max", "T"}, {0.1, 10});
}

void add_combinations(Rows rows) {
  const Value parts = Values{0.1, Description{"optim.cosine", {{"base", 0.1}, {"T", 5}}}};
  rows.function<N, vector<int64_t>, vector<double>>(
      "optim.piecewise",
      [](const N&, CallSite where, vector<int64_t> bounds, vector<double> values) {
        return optim::piecewise(std::move(bounds), std::move(values), where);
      },
      {"bounds", "values"}, {{3, 6}, vector<double>{0.1, 0.05, 0.01}});
  rows.function<N, vector<Schedule>>(
      "optim.chain",
      [](const N&, CallSite, vector<Schedule> factors) { return optim::chain(std::move(factors)); },
      {"factors"}, {parts});
  rows.function<N, vector<Schedule>, vector<int64_t>>(
      "optim.join",
      [](const N&, CallSite where, vector<Schedule> all, vector<int64_t> bounds) {
        return optim::join(std::move(all), std::move(bounds), where);
      },
      {"parts", "bounds"}, {parts, {4}});
  rows.function<N, int64_t, Schedule>("optim.warmup",
                                      [](const N&, CallSite where, int64_t T, Schedule then) {
                                        return optim::warmup(T, std::move(then), where);
                                      },
                                      {"T", "then"},
                                      {3, Description{"optim.cosine", {{"base", 0.1}, {"T", 5}}}});
  rows.function<N, vector<optim::Segment>>(
      "optim.segments",
      [](const N&, CallSite where, vector<optim::Segment> all) {
        return optim::segments(all, where);
      },
      {"parts"},
      {Value(
          Values{Description{"optim.Segment", {{"start", 0.1}, {"end", 0.2}, {"updates", 3}}}})});
}

}  // namespace

void add_schedules(Table& table) {
  const Rows rows(table, Group::kSchedule);
  add_formulas(rows);
  add_combinations(rows);
  Rows(table, Group::kRecord).add<optim::Segment, optim::Segment>("optim.Segment");
}

}  // namespace etude::kinds
