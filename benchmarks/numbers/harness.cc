// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/numbers/harness.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <sstream>

namespace etude::bench::numbers {
namespace {

double seconds_of(const Contender& contender, int times) {
  using Steady = std::chrono::steady_clock;
  const Steady::time_point start = Steady::now();
  contender.repeat(times);
  return std::chrono::duration<double>(Steady::now() - start).count();
}

// Calls in one round. The first calls also warm caches and memory that is kept.
int calls_in(const Contender& contender, double seconds) {
  int times = 1;
  for (;;) {
    const double took = seconds_of(contender, times);
    if (took >= seconds) return times;
    const double grown = 1.2 * seconds / std::max(took, 1e-9);
    times = static_cast<int>(times * std::clamp(grown, 2.0, 100.0));
  }
}

Timing timing_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double q) {
    return samples[static_cast<std::size_t>(q * static_cast<double>(samples.size() - 1) + 0.5)];
  };
  return {at(0.5), at(0.1), at(0.9)};
}

// The largest difference over the largest number; infinite where anything is not finite.
double off(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double d = std::abs(got[i] - want[i]);
    if (!std::isfinite(d)) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, d);
    largest = std::max(largest, std::abs(want[i]));
  }
  return difference / std::max(largest, std::numeric_limits<double>::min());
}

// The slope along a direction in which every derivative counts with its sign, against central
// differences of two steps extrapolated to order 4.
double off_differences(const Case& program, const std::vector<double>& derivatives) {
  const std::vector<double>& x = program.parameters;
  std::vector<double> along(x.size());
  double slope = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double scale = x[i] == 0 ? 1 : std::abs(x[i]);
    const double share = 0.5 + 0.5 * std::fmod(0.618 * static_cast<double>(i), 1.0);
    along[i] = std::copysign(scale * share, derivatives[i]);
    slope += along[i] * derivatives[i];
  }
  const auto difference = [&](double h) {
    std::vector<double> up = x, down = x;
    for (std::size_t i = 0; i < x.size(); ++i) {
      up[i] += h * along[i];
      down[i] -= h * along[i];
    }
    return (program.value_at(up) - program.value_at(down)) / (2 * h);
  };
  constexpr double kStep = 1e-4;
  const double estimate = (4 * difference(kStep) - difference(2 * kStep)) / 3;
  return std::abs(estimate - slope) / std::max(std::abs(slope), 1e-300);
}

void check(const Case& program, Outcome& out) {
  const auto fail = [&](const char* against, double error) {
    std::ostringstream text;
    text << "the gradient is off by " << error << " against " << against;
    out.fault = text.str();
  };
  if (program.hand) {
    out.off_hand = off(out.derivatives, program.hand.numbers());
    if (!(out.off_hand <= 1e-8)) return fail("the one by hand", out.off_hand);
  }
  for (const Contender* peer : {&program.adolc, &program.adolc_again}) {
    if (!*peer) continue;
    out.off_adolc = std::max(out.off_adolc, off(out.derivatives, peer->numbers()));
    if (!(out.off_adolc <= 1e-8)) return fail("ADOL-C", out.off_adolc);
  }
  if (program.value_at) {
    out.off_differences = off_differences(program, out.derivatives);
    if (!(out.off_differences <= 1e-6)) return fail("central differences", out.off_differences);
  }
}

}  // namespace

std::vector<Timing> time_in_turns(const std::vector<const Contender*>& contenders,
                                  const Clock& clock) {
  std::vector<int> times;
  for (const Contender* each : contenders) times.push_back(calls_in(*each, clock.round_seconds));
  std::vector<std::vector<double>> samples(contenders.size());
  for (int round = 0; round < clock.rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      samples[i].push_back(seconds_of(*contenders[i], times[i]) / times[i]);
    }
  }
  std::vector<Timing> out;
  for (const auto& each : samples) out.push_back(timing_of(each));
  return out;
}

Outcome measure(const Case& program, const Clock& clock) {
  Outcome out;
  out.name = program.name;
  out.aim = program.aim;
  out.elements = program.elements;
  out.parameters = program.parameters;
  out.value = program.primal.numbers().at(0);
  out.derivatives = program.gradient.numbers();
  check(program, out);
  if (!out.fault.empty()) return out;
  const std::array<std::pair<const Contender*, Timing Outcome::*>, 5> ways = {
      {{&program.primal, &Outcome::primal},
       {&program.gradient, &Outcome::gradient},
       {&program.hand, &Outcome::hand},
       {&program.adolc, &Outcome::adolc},
       {&program.adolc_again, &Outcome::adolc_again}}};
  std::vector<const Contender*> there;
  for (const auto& [contender, at] : ways) {
    if (*contender) there.push_back(contender);
  }
  const std::vector<Timing> timings = time_in_turns(there, clock);
  std::size_t next = 0;
  for (const auto& [contender, at] : ways) {
    if (*contender) out.*at = timings[next++];
  }
  return out;
}

}  // namespace etude::bench::numbers
