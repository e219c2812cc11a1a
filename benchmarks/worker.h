// SPDX-License-Identifier: Apache-2.0
// What a benchmark program does with its workloads: runs them, or serves them to a harness by the
// protocol of benchmarks/README.md. Knows no tensors, so that peers written in C++ are such
// programs too.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace etude::bench {

// What setup builds; destroyed by :drop.
class Instance {
 public:
  virtual ~Instance() = default;
  // Values to compare with Workload::expected, computed before anything is timed.
  virtual std::vector<double> check() = 0;
  // One timed call: `units` of the workload's unit.
  virtual void run() = 0;
  // More to tell of it, measured when it is asked for: names and numbers.
  virtual std::vector<std::pair<std::string, double>> details() { return {}; }
};

// A problem with exact data, check values that several frameworks agree on, and the call that is
// timed. One whose check fails is not timed.
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
  // Returns when what is compiled behind the program is done; null: nothing is.
  void (*settle)() = nullptr;
};

// The main function: `--serve`, or names of workloads to run once; "NAME:staged" and
// "NAME:lazy" run these modes.
// Gives the exit status.
int run_worker(int argc, char** argv, const Peer& peer, std::vector<Workload> workloads);

}  // namespace etude::bench
