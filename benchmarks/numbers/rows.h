// SPDX-License-Identifier: Apache-2.0
// The rows of the table, by topic; each is one file, so that they compile side by side.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/numbers/harness.h"

namespace etude::bench::numbers {

// Programs are made when they are measured, so that only one holds memory.
struct Entry {
  std::string name;
  Case (*make)(const std::string& name);
};

void add_statistics(std::vector<Entry>& entries);  // gmm, log_sum_exp, least_squares
void add_networks(std::vector<Entry>& entries);    // lstm
void add_dynamics(std::vector<Entry>& entries);    // runge_kutta, determinant
void add_structures(std::vector<Entry>& entries);  // thermal, bundle
void add_loops(std::vector<Entry>& entries);       // loops of several lengths

}  // namespace etude::bench::numbers
