// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/spline/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <sstream>
#include <type_traits>

#include "benchmarks/spline/memory.h"
#include "benchmarks/spline/ways.h"

namespace etude::bench::spline {
namespace {

using Steady = std::chrono::steady_clock;
double seconds_since(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

Points<double> data_of(const Setup& setup, bool is_local) {
  Points<double> data = is_local ? one_user() : many_users(kPooledPoints);
  if (setup.measure == Measure::log_loss) make_labels(data);
  return data;
}

template <class T>
Problem<T> problem_of(const Setup& setup, bool is_local, const std::vector<double>& pooled) {
  Problem<T> problem;
  problem.curve = setup.curve;
  problem.measure = setup.measure;
  problem.controls = setup.controls;
  problem.data = as<T>(data_of(setup, is_local));
  if (is_local) problem.pooled.assign(pooled.begin(), pooled.end());
  return problem;
}

Fit<double> fit_by_hand(const Problem<double>& problem, const std::vector<double>& start) {
  return descend(*make_hand(problem), start);
}

// The largest difference over `scale`; infinite where a number is not finite.
template <class A, class B>
double off(const std::vector<A>& got, const std::vector<B>& want, double scale) {
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double d = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    if (!std::isfinite(d)) return std::numeric_limits<double>::infinity();
    most = std::max(most, d);
  }
  return most / scale;
}
double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double each : values) most = std::max(most, std::abs(each));
  return most;
}
double range(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *high - *low;
}

// Where gradients are compared: no derivative is small there.
template <class T>
std::vector<T> place_of_checks(std::size_t n) {
  std::vector<T> p(n);
  for (std::size_t i = 0; i < n; ++i) p[i] = static_cast<T>(std::sin(static_cast<double>(i * i)));
  return p;
}

// Of two steps, extrapolated to order 4.
std::vector<double> central_differences(const Problem<double>& problem) {
  constexpr double kStep = 1e-3;
  const auto objective = make_tape(problem);  // the generic loss
  std::vector<double> p = place_of_checks<double>(problem.controls), out;
  for (double& each : p) {
    const double at = each;
    const auto difference = [&](double h) {
      each = at + h;
      const double up = objective->value(p);
      each = at - h;
      const double down = objective->value(p);
      each = at;
      return (up - down) / (2 * h);
    };
    out.push_back((4 * difference(kStep) - difference(2 * kStep)) / 3);
  }
  return out;
}

template <class T>
class Run {
 public:
  Run(const Setup& setup, const Budget& budget) : budget_(budget) {
    out_.setup = setup;
    const std::vector<double> zeros(setup.controls);
    start_ = zeros;
    if (setup.is_local) {
      start_ = fit_by_hand(problem_of<double>(setup, false, {}), zeros).p;
    }
    const auto exact = problem_of<double>(setup, setup.is_local, start_);
    reference_ = fit_by_hand(exact, start_);
    if (setup.is_local) out_.iterations_from_zeros = fit_by_hand(exact, zeros).iterations;
    problem_ = problem_of<T>(setup, setup.is_local, start_);
    out_.points = problem_.data.x.size();
    differences_ = central_differences(exact);
  }

  Outcome run() {
    const std::vector<T> start(start_.begin(), start_.end());
    std::vector<long> growths;
    for (std::size_t i = 0; i < make_ways(problem_).size(); ++i) {
      growths.push_back(
          resident_growth([&] { descend(*make_ways(problem_)[i].objective, start); }));
    }
    std::vector<Way<T>> ways = make_ways(problem_);
    for (std::size_t i = 0; i < ways.size(); ++i) {
      out_.ways.push_back(outcome_of(ways[i], descend(*ways[i].objective, start)));
      out_.ways.back().resident_kib = growths[i];
      check(out_.ways.back());
      if (!out_.fault.empty()) return out_;
    }
    time(ways, start);
    return out_;
  }

 private:
  WayOutcome outcome_of(const Way<T>& way, const Fit<T>& fit) {
    WayOutcome out;
    out.name = way.name;
    std::vector<T> slope(problem_.controls);
    way.objective->value_with_gradient(place_of_checks<T>(problem_.controls), slope);
    out.gradient_error = off(slope, differences_, largest(differences_));
    out.stop = fit.stop;
    out.iterations = fit.iterations;
    out.losses = fit.losses;
    out.gradients = fit.gradients;
    out.off_reference = off(fit.p, reference_.p, range(reference_.p));
    out.allocations_each = static_cast<double>(fit.allocations) / std::max(1, fit.iterations - 1);
    const WayOutcome& hand = out_.ways.empty() ? out : out_.ways.front();
    const auto is_near = [](int a, int b) { return std::abs(a - b) <= 1; };
    out.does_same_work = is_near(out.iterations, hand.iterations) &&
                         is_near(out.losses, hand.losses) && is_near(out.gradients, hand.gradients);
    return out;
  }
  // Compares the gradient at the precision of its type. Fits of float may stop at other points of a
  // flat loss: this is reported, but is no fault.
  void check(const WayOutcome& way) {
    constexpr bool exact = std::is_same_v<T, double>;
    std::ostringstream text;
    if (!(way.gradient_error <= (exact ? 1e-7 : 1e-4))) {
      text << way.name << ": the gradient is off by " << way.gradient_error;
    } else if (exact && !(way.off_reference <= 1e-8)) {
      text << way.name << ": the fit is off by " << way.off_reference;
    }
    out_.fault = text.str();
  }

  void time(std::vector<Way<T>>& ways, const std::vector<T>& start) {
    const Steady::time_point begin = Steady::now();
    std::vector<std::vector<double>> samples(ways.size());
    for (; out_.runs < budget_.runs; ++out_.runs) {
      if (out_.runs >= budget_.fewest_runs && seconds_since(begin) > budget_.seconds) break;
      for (std::size_t i = 0; i < ways.size(); ++i) {
        const Steady::time_point from = Steady::now();
        descend(*ways[i].objective, start);
        samples[i].push_back(seconds_since(from));
      }
    }
    for (std::size_t i = 0; i < ways.size(); ++i) {
      std::vector<double>& of = samples[i];
      std::sort(of.begin(), of.end());
      const auto at = [&](double q) {
        return of[static_cast<std::size_t>(q * static_cast<double>(of.size() - 1) + 0.5)];
      };
      out_.ways[i].seconds = at(0.5);
      out_.ways[i].p10 = at(0.1);
      out_.ways[i].p90 = at(0.9);
    }
  }

  Budget budget_;
  Outcome out_;
  std::vector<double> start_, differences_;
  Fit<double> reference_;
  Problem<T> problem_;
};

// The shortest of several rounds: disturbances only add time.
double shortest_gradient(Objective<float>& objective, const std::vector<float>& p) {
  constexpr double kRound = 0.02;
  std::vector<float> slope(p.size());
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 7; ++round) {
    const Steady::time_point begin = Steady::now();
    int times = 0;
    do {
      objective.value_with_gradient(p, slope);
      ++times;
    } while (seconds_since(begin) < kRound);
    best = std::min(best, seconds_since(begin) / times);
  }
  return best;
}

}  // namespace

Outcome measure(const Setup& setup, const Budget& budget) {
  return setup.is_double ? Run<double>(setup, budget).run() : Run<float>(setup, budget).run();
}

std::vector<std::string> way_names() {
  const Problem<float> problem;
  std::vector<std::string> names;
  for (const auto& way : make_ways(problem)) names.push_back(way.name);
  return names;
}

std::vector<Growth> measure_growth() {
  std::vector<Growth> rows;
  const auto add = [&](std::size_t points, std::size_t controls) {
    Problem<float> problem;
    problem.controls = controls;
    problem.data = as<float>(many_users(points));
    Growth row{points, controls, {}};
    const auto p = place_of_checks<float>(controls);
    for (const auto& way : make_ways(problem)) {
      row.seconds.push_back(shortest_gradient(*way.objective, p));
    }
    rows.push_back(row);
  };
  for (const std::size_t points : {1'000, 10'000, 100'000, 1'000'000}) add(points, 16);
  for (const std::size_t controls : {64, 256}) add(10'000, controls);
  return rows;
}

double slope_of(const std::vector<Growth>& rows, std::size_t way) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const Growth& row : rows) {
    if (row.controls != 16) continue;
    const double a = std::log(static_cast<double>(row.points)), b = std::log(row.seconds[way]);
    n += 1;
    x += a;
    y += b;
    xx += a * a;
    xy += a * b;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

}  // namespace etude::bench::spline
