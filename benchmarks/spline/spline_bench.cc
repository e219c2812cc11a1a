// SPDX-License-Identifier: Apache-2.0
// Spline personalisation, timed: spline-bench [--json] [--quick] [--runs N] [--seconds N]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "benchmarks/denormals.h"
#include "benchmarks/spline/measure.h"

namespace etude::bench::spline {
namespace {

using json = nlohmann::ordered_json;

struct Options {
  bool as_json = false, is_quick = false, with_data = false;
  Budget budget;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return std::max(1, i + 1 < argc ? std::atoi(argv[++i]) : 0); };
    if (word == "--json") {
      options.as_json = true;
    } else if (word == "--data") {
      options.with_data = options.as_json = true;
    } else if (word == "--quick") {
      options.is_quick = true;
      options.budget = {1, 1, 1};
    } else if (word == "--runs") {
      options.budget.runs = number();
    } else if (word == "--seconds") {
      options.budget.seconds = number();
    } else {
      std::cerr << "usage: " << argv[0]
                << " [--json] [--quick] [--runs N] [--seconds N]\n"
                   "       "
                << argv[0] << " --data    what spline_torch.py reads\n";
      std::exit(word == "--help" ? 0 : 2);
    }
  }
  return options;
}

const char* curve_name(Curve curve) {
  constexpr const char* kNames[] = {CubicB::kName, CatmullRom::kName, Linear::kName};
  return kNames[static_cast<int>(curve)];
}
const char* measure_name(Measure measure) {
  return measure == Measure::squares ? Squares::kName : LogLoss::kName;
}

json json_of(const Outcome& row) {
  json out = {{"curve", curve_name(row.setup.curve)},
              {"loss", measure_name(row.setup.measure)},
              {"stage", row.setup.is_local ? "local" : "pooled"},
              {"controls", row.setup.controls},
              {"precision", row.setup.is_double ? "double" : "float"},
              {"points", row.points},
              {"runs", row.runs}};
  if (row.setup.is_local) out["iterations_from_zeros"] = row.iterations_from_zeros;
  if (!row.fault.empty()) out["fault"] = row.fault;
  for (const WayOutcome& way : row.ways) {
    out["ways"].push_back({{"way", way.name},
                           {"gradient_error", way.gradient_error},
                           {"stop", name_of(way.stop)},
                           {"iterations", way.iterations},
                           {"losses", way.losses},
                           {"gradients", way.gradients},
                           {"same_work", way.does_same_work},
                           {"seconds", way.seconds},
                           {"p10", way.p10},
                           {"p90", way.p90},
                           {"off_reference", way.off_reference},
                           {"allocations_each", way.allocations_each},
                           {"resident_kib", way.resident_kib}});
  }
  return out;
}

void print(const Outcome& row) {
  std::printf("\n%s, %s, %s, K = %zu, %zu points, %s; %d runs", curve_name(row.setup.curve),
              measure_name(row.setup.measure), row.setup.is_local ? "local" : "pooled",
              row.setup.controls, row.points, row.setup.is_double ? "double" : "float", row.runs);
  if (row.setup.is_local) {
    std::printf("; by hand in double from zeros: %d iterations", row.iterations_from_zeros);
  }
  std::printf("\n");
  if (!row.fault.empty()) {
    std::printf("not timed: %s\n", row.fault.c_str());
    return;
  }
  std::printf("%-7s %-10s %15s %9s %7s %10s %9s %9s %9s %9s\n", "way", "stop", "iter/loss/grad",
              "ms", "/ hand", "us/iter", "/ hand", "off", "heap/iter", "KiB more");
  const WayOutcome& hand = row.ways.front();
  for (const WayOutcome& way : row.ways) {
    char work[48], ratio[16];
    std::snprintf(work, sizeof work, "%d/%d/%d", way.iterations, way.losses, way.gradients);
    std::snprintf(ratio, sizeof ratio, "%.2f", way.seconds / hand.seconds);
    std::printf("%-7s %-10s %15s %9.2f %7s %10.2f %9.2f %9.1e %9.3g %9ld\n", way.name.c_str(),
                name_of(way.stop), work, way.seconds * 1e3, way.does_same_work ? ratio : "void",
                way.per_iteration() * 1e6, way.per_iteration() / hand.per_iteration(),
                way.off_reference, way.allocations_each, way.resident_kib);
  }
}

void report_growth(const Options& options) {
  const std::vector<std::string> names = way_names();
  const std::vector<Growth> rows = measure_growth();
  if (options.as_json) {
    for (const Growth& row : rows) {
      json out = {{"growth_points", row.points}, {"controls", row.controls}};
      for (std::size_t i = 0; i < names.size(); ++i) out["seconds"][names[i]] = row.seconds[i];
      std::cout << out << std::endl;
    }
    return;
  }
  std::printf("\nns of a gradient for each point, float\n%9s %9s", "points", "K");
  for (const std::string& name : names) std::printf(" %8s", name.c_str());
  std::printf("\n");
  for (const Growth& row : rows) {
    std::printf("%9zu %9zu", row.points, row.controls);
    for (const double s : row.seconds) {
      std::printf(" %8.2f", 1e9 * s / static_cast<double>(row.points));
    }
    std::printf("\n");
  }
  std::printf("%-19s", "slope in points");
  for (std::size_t i = 0; i < names.size(); ++i) std::printf(" %8.3f", slope_of(rows, i));
  std::printf("\n");
}

void write_data() {
  const auto fields = [](const Points<double>& data) {
    const Points<float> points = as<float>(data);
    return json{{"x", points.x}, {"y", points.y}};
  };
  std::cout << json{{"pooled", fields(many_users(kPooledPoints))}, {"local", fields(one_user())}}
            << std::endl;
}

// Runs in a separate process, so that no case finds memory of the case before it.
bool run_apart(const std::function<bool()>& work) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const bool is_fine = work();
    std::fflush(stdout);
    _exit(is_fine ? 0 : 1);
  }
  int status = -1;
  if (child > 0) waitpid(child, &status, 0);
  if (child < 0 || WIFSIGNALED(status)) std::cerr << "a process has crashed\n";
  return status == 0;
}

std::vector<Setup> setups(const Options& options) {
  std::vector<Setup> out;
  const auto add = [&](Curve curve, Measure measure, std::size_t controls, bool is_double) {
    for (const bool is_local : {false, true}) {
      if (options.is_quick && !is_local) continue;
      out.push_back({curve, measure, is_local, controls, is_double});
    }
  };
  if (options.with_data) {
    add(Curve::b_spline, Measure::squares, 16, false);
    return out;
  }
  for (const std::size_t controls : {16, 64, 256}) {
    add(Curve::b_spline, Measure::squares, controls, false);
  }
  add(Curve::b_spline, Measure::squares, 16, true);
  add(Curve::catmull_rom, Measure::squares, 16, true);
  add(Curve::linear, Measure::squares, 16, true);
  add(Curve::b_spline, Measure::log_loss, 16, true);
  return out;
}

int run(const Options& options) {
  if (options.with_data) write_data();
  bool is_fine = true;
  for (const Setup& setup : setups(options)) {
    is_fine = run_apart([&] {
                const Outcome row = measure(setup, options.budget);
                if (options.as_json) {
                  std::cout << json_of(row) << std::endl;
                } else {
                  print(row);
                }
                return row.fault.empty();
              }) &&
              is_fine;
  }
  if (!options.is_quick && !options.with_data) {
    is_fine = run_apart([&] {
                report_growth(options);
                return true;
              }) &&
              is_fine;
  }
  return is_fine ? 0 : 1;
}

}  // namespace
}  // namespace etude::bench::spline

int main(int argc, char** argv) {
  etude::bench::flush_denormals();
  return etude::bench::spline::run(etude::bench::spline::parse(argc, argv));
}
