// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "etude/base/check.h"

namespace etude::optim {
namespace {

void require_length(std::string_view schedule, std::int64_t T) {
  ETUDE_REQUIRE(T >= 1, "{}: {} updates are asked for, but at least 1 is needed", schedule, T);
}

// From `a` at part 0 to `b` at part 1, along half a wave.
double half_wave(double a, double b, double part) {
  return b + (a - b) * 0.5 * (1 + std::cos(std::numbers::pi * part));
}

double real(std::int64_t n) { return static_cast<double>(n); }

void require_rising(std::string_view schedule, const std::vector<std::int64_t>& bounds,
                    std::size_t parts) {
  ETUDE_REQUIRE(parts == bounds.size() + 1, "{}: {} bounds separate {} parts, but {} are given",
                schedule, bounds.size(), bounds.size() + 1, parts);
  ETUDE_REQUIRE(std::is_sorted(bounds.begin(), bounds.end()), "{}: the bounds do not rise",
                schedule);
}

// The part that `update` falls into.
std::size_t part_of(const std::vector<std::int64_t>& bounds, std::int64_t update) {
  return static_cast<std::size_t>(std::upper_bound(bounds.begin(), bounds.end(), update) -
                                  bounds.begin());
}

}  // namespace

Schedule constant(double value) { return {value}; }

Schedule piecewise(std::vector<std::int64_t> bounds, std::vector<double> values) {
  require_rising("piecewise", bounds, values.size());
  return [bounds = std::move(bounds), values = std::move(values)](std::int64_t t) {
    return values[part_of(bounds, t)];
  };
}

Schedule step(double base, double factor, std::int64_t every) {
  require_length("step", every);
  return [=](std::int64_t t) { return base * std::pow(factor, real(t / every)); };
}

Schedule exponential(double base, double rate) {
  return [=](std::int64_t t) { return base * std::pow(rate, real(t)); };
}

Schedule inverse_time(double base, double rate) {
  return [=](std::int64_t t) { return base / (1 + rate * real(t)); };
}

Schedule polynomial(double base, double end, double power, std::int64_t T) {
  require_length("polynomial", T);
  return [=](std::int64_t t) {
    const double left = 1 - std::min(real(t) / real(T), 1.0);
    return (base - end) * std::pow(left, power) + end;
  };
}

Schedule cosine(double base, std::int64_t T, double end) {
  require_length("cosine", T);
  return [=](std::int64_t t) { return t >= T ? end : half_wave(base, end, real(t) / real(T)); };
}

Schedule cosine_restarts(double base, std::int64_t T, double mult, double end) {
  require_length("cosine_restarts", T);
  ETUDE_REQUIRE(mult >= 1, "cosine_restarts: mult is {}, but must be at least 1", mult);
  return [=](std::int64_t t) {
    double length = real(T), at = real(t);
    if (mult == 1) return half_wave(base, end, std::fmod(at, length) / length);
    for (; at >= length; length *= mult) at -= length;
    return half_wave(base, end, at / length);
  };
}

Schedule linear_warmup(double base, std::int64_t T) {
  require_length("linear_warmup", T);
  return [=](std::int64_t t) { return base * std::min(real(t + 1) / real(T), 1.0); };
}

Schedule one_cycle(double max, std::int64_t T, OneCycleOptions options) {
  require_length("one_cycle", T);
  const double start = max / options.div, end = start / options.final_div;
  const double top = options.rise * real(T) - 1, last = real(T - 1);
  return [=](std::int64_t t) {
    const double at = std::min(real(t), last);
    if (at <= top) return top > 0 ? half_wave(start, max, at / top) : max;
    return half_wave(max, end, last > top ? (at - top) / (last - top) : 1);
  };
}

Schedule inverse_sqrt(double base, std::int64_t warmup) {
  require_length("inverse_sqrt", warmup);
  return [=](std::int64_t t) {
    const double part = real(t + 1) / real(warmup);
    return base * std::min(part, 1 / std::sqrt(part));
  };
}

Schedule chain(std::vector<Schedule> factors) {
  return [factors = std::move(factors)](std::int64_t t) {
    double product = 1;
    for (const Schedule& factor : factors) product *= factor(t);
    return product;
  };
}

Schedule join(std::vector<Schedule> parts, std::vector<std::int64_t> bounds) {
  require_rising("join", bounds, parts.size());
  return [parts = std::move(parts), bounds = std::move(bounds)](std::int64_t t) {
    const std::size_t part = part_of(bounds, t);
    return parts[part](part == 0 ? t : t - bounds[part - 1]);
  };
}

Schedule warmup(std::int64_t T, Schedule then) {
  require_length("warmup", T);
  const double base = then(0);
  return join({linear_warmup(base, T), std::move(then)}, {T});
}

}  // namespace etude::optim
