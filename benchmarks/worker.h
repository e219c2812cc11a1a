// SPDX-License-Identifier: Apache-2.0
// The main part of a benchmark program: runs workloads, or serves them to a harness by the protocol
// of benchmarks/README.md. It knows no tensors, so that peers written in C++ use it, too.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace etude::bench {

// The object that setup builds and :drop destroys.
class Instance {
 public:
  virtual ~Instance() = default;
  // Values to compare with Workload::expected, computed before anything is timed.
  virtual std::vector<double> check() = 0;
  // One timed call: `units` of the workload's unit.
  virtual void run() = 0;
  // Further measurements, made on demand: names and numbers.
  virtual std::vector<std::pair<std::string, double>> details() { return {}; }
};

// A problem with exact data, check values that several frameworks agree on, and the call that is
// timed. A workload whose check fails is not timed.
struct Workload {
  std::string name;
  std::vector<double>
      expected;             // empty: compared with a second way of computing it, inside check()
  double tolerance = 2e-3;  // relative
  double units = 1;         // units of one run(); times are given per unit
  std::function<std::unique_ptr<Instance>()> make;
  std::function<std::unique_ptr<Instance>()> staged =
      {};                                                // the same in mode `staged`, if it has one
  std::function<std::unique_ptr<Instance>()> lazy = {};  // and in mode `lazy`
};

struct Peer {
  std::string name, version;
  // Waits for compilation in the background; null if there is none.
  void (*settle)() = nullptr;
};

// Seconds of the clock of samples: time that has passed or, with BENCH_CLOCK=processor, time that
// this process has computed, for a machine that others use as well.
double sample_seconds();

// The main function: `--serve`, or names of workloads to run once; "NAME:staged" and "NAME:lazy"
// run these modes. Returns the exit status.
int run_worker(int argc, char** argv, const Peer& peer, std::vector<Workload> workloads);

}  // namespace etude::bench
