// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>

#include "etude/base/check.h"
#include "etude/base/evaluate.h"
#include "etude/base/expression_math.h"
#include "etude/base/scalar_program.h"
#include "etude/core/call_scope.h"

namespace etude::optim {
namespace {

void require_length(std::string_view schedule, std::int64_t T, CallSite site) {
  etude::internal::located(schedule, site, [&] {
    ETUDE_REQUIRE(T >= 1, "{} updates are asked for, but at least 1 is needed", T);
  });
}

double real(std::int64_t n) { return static_cast<double>(n); }

// From `a` at part 0 to `b` at part 1, along half a wave; of numbers, or in a formula.
template <class S>
constexpr S half_wave(const S& a, const S& b, const S& part) {
  using std::cos;
  return b + (a - b) * 0.5 * (1.0 + cos(std::numbers::pi * part));
}

// The schedule of a formula: a lambda on the update and then kNumbers numbers.
template <int kNumbers, class F>
Schedule formula(F, const Schedule::Numbers& numbers) {
  static_assert(kNumbers <= std::tuple_size_v<Schedule::Numbers>);
  static constexpr scalar::Program program = scalar::build<F, 1, kNumbers>();
  return {program, numbers};
}

void require_rising(std::string_view schedule, const std::vector<std::int64_t>& bounds,
                    std::size_t parts, CallSite site) {
  etude::internal::located(schedule, site, [&] {
    ETUDE_REQUIRE(parts == bounds.size() + 1, "{} bounds separate {} parts, but {} are given",
                  bounds.size(), bounds.size() + 1, parts);
    ETUDE_REQUIRE(std::is_sorted(bounds.begin(), bounds.end()), "the bounds do not rise");
  });
}

// The part that `update` falls into.
std::size_t part_of(const std::vector<std::int64_t>& bounds, std::int64_t update) {
  return static_cast<std::size_t>(std::upper_bound(bounds.begin(), bounds.end(), update) -
                                  bounds.begin());
}

}  // namespace

double Schedule::evaluate(std::int64_t update) const {
  const double t = real(update);
  return scalar::evaluate(*formula_, {&t, 1}, numbers_);
}

Schedule constant(double value) { return {value}; }

Schedule piecewise(std::vector<std::int64_t> bounds, std::vector<double> values, CallSite site) {
  require_rising("piecewise", bounds, values.size(), site);
  return [bounds = std::move(bounds), values = std::move(values)](std::int64_t t) {
    return values[part_of(bounds, t)];
  };
}

Schedule step(double base, double factor, std::int64_t every, CallSite site) {
  require_length("step", every, site);
  return formula<3>(
      [](auto t, auto from, auto by, auto steps) { return from * pow(by, floor(t / steps)); },
      {base, factor, real(every)});
}

Schedule exponential(double base, double rate) {
  return formula<2>([](auto t, auto from, auto by) { return from * pow(by, t); }, {base, rate});
}

Schedule inverse_time(double base, double rate) {
  return formula<2>([](auto t, auto from, auto by) { return from / (1.0 + by * t); }, {base, rate});
}

Schedule polynomial(double base, double end, double power, std::int64_t T, CallSite site) {
  require_length("polynomial", T, site);
  return formula<4>(
      [](auto t, auto from, auto to, auto exponent, auto length) {
        const auto left = 1.0 - math::minimum(t / length, 1.0);
        return (from - to) * pow(left, exponent) + to;
      },
      {base, end, power, real(T)});
}

Schedule cosine(double base, std::int64_t T, double end, CallSite site) {
  require_length("cosine", T, site);
  return formula<3>(
      [](auto t, auto from, auto to, auto length) {
        return where(t >= length, to, half_wave(from, to, t / length));
      },
      {base, end, real(T)});
}

Schedule cosine_restarts(double base, std::int64_t T, double mult, double end, CallSite site) {
  require_length("cosine_restarts", T, site);
  etude::internal::located("cosine_restarts", site, [&] {
    ETUDE_REQUIRE(mult >= 1, "mult is {}, but must be at least 1", mult);
  });
  return [=](std::int64_t t) {
    double length = real(T), at = real(t);
    if (mult == 1) return half_wave(base, end, std::fmod(at, length) / length);
    for (; at >= length; length *= mult) at -= length;
    return half_wave(base, end, at / length);
  };
}

Schedule linear_warmup(double base, std::int64_t T, CallSite site) {
  require_length("linear_warmup", T, site);
  return formula<2>(
      [](auto t, auto to, auto length) { return to * math::minimum((t + 1.0) / length, 1.0); },
      {base, real(T)});
}

Schedule one_cycle(double max, std::int64_t T, OneCycleOptions options, CallSite site) {
  require_length("one_cycle", T, site);
  etude::internal::check_options("one_cycle", options, site);
  const double start = max / options.div, end = start / options.final_div;
  const double top = options.rise * real(T) - 1, last = real(T - 1);
  return formula<5>(
      [](auto t, auto from, auto high, auto to, auto turn, auto length) {
        const auto at = math::minimum(t, length);
        const auto rising = where(turn > 0.0, half_wave(from, high, at / turn), high);
        const auto part = where(length > turn, (at - turn) / (length - turn), 1.0);
        return where(at <= turn, rising, half_wave(high, to, part));
      },
      {start, max, end, top, last});
}

Schedule inverse_sqrt(double base, std::int64_t warmup, CallSite site) {
  require_length("inverse_sqrt", warmup, site);
  return formula<2>(
      [](auto t, auto top, auto length) {
        const auto part = (t + 1.0) / length;
        return top * math::minimum(part, 1.0 / sqrt(part));
      },
      {base, real(warmup)});
}

Schedule chain(std::vector<Schedule> factors) {
  return [factors = std::move(factors)](std::int64_t t) {
    double product = 1;
    for (const Schedule& factor : factors) product *= factor(t);
    return product;
  };
}

Schedule join(std::vector<Schedule> parts, std::vector<std::int64_t> bounds, CallSite site) {
  require_rising("join", bounds, parts.size(), site);
  return [parts = std::move(parts), bounds = std::move(bounds)](std::int64_t t) {
    const std::size_t part = part_of(bounds, t);
    return parts[part](part == 0 ? t : t - bounds[part - 1]);
  };
}

Schedule warmup(std::int64_t T, Schedule then, CallSite site) {
  require_length("warmup", T, site);
  const double base = then(0);
  return join({linear_warmup(base, T, site), std::move(then)}, {T}, site);
}

}  // namespace etude::optim
