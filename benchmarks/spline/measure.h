// SPDX-License-Identifier: Apache-2.0
// Measurements of a fit, of its gradients and of their growth with the problem. Used by
// spline_bench.cc, which prints them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "benchmarks/spline/descent.h"
#include "benchmarks/spline/problem.h"

namespace etude::bench::spline {

struct Budget {
  int runs = 20, fewest_runs = 5;
  double seconds = 40;  // of a case; where they are over, fewer runs do
};

// One fit: to the data of all users, from zeros, or to one user's data, from the pooled control
// points.
struct Setup {
  Curve curve = Curve::b_spline;
  Measure measure = Measure::squares;
  bool is_local = false;
  std::size_t controls = 16;
  bool is_double = false;
};

// How a way did in a case; errors are relative.
struct WayOutcome {
  std::string name;
  double gradient_error = 0;  // of the largest derivative
  Stop stop = Stop::iterations;
  int iterations = 0, losses = 0, gradients = 0;
  bool does_same_work = false;  // as the one by hand, within 1
  double seconds = 0, p10 = 0, p90 = 0;
  double off_reference = 0;     // of the range of the control points
  double allocations_each = 0;  // of an iteration, after the first one
  long resident_kib = 0;        // -1: not known
  double per_iteration() const { return seconds / iterations; }
};
struct Outcome {
  Setup setup;
  std::size_t points = 0;
  int runs = 0, iterations_from_zeros = 0;  // the second of the local fit by hand
  std::string fault;                        // why nothing was timed
  std::vector<WayOutcome> ways;
};

// Checks every way's gradient and result, and times the fits in turns where they hold.
Outcome measure(const Setup& setup, const Budget& budget);

// Seconds for a gradient of float by each way.
struct Growth {
  std::size_t points = 0, controls = 0;
  std::vector<double> seconds;
};
std::vector<std::string> way_names();
std::vector<Growth> measure_growth();
// The slope of log seconds by log points, over the `rows` with 16 control points.
double slope_of(const std::vector<Growth>& rows, std::size_t way);

}  // namespace etude::bench::spline
