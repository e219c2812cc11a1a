// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/numbers/programs/determinant.h"
#include "benchmarks/numbers/programs/runge_kutta.h"
#include "benchmarks/numbers/rows.h"
#include "benchmarks/numbers/vector_case.h"

namespace etude::bench::numbers {

void add_dynamics(std::vector<Entry>& entries) {
  entries.push_back(
      {"runge_kutta", [](const std::string& n) { return vector_case<RungeKutta>(n, 15); }});
  entries.push_back(
      {"determinant", [](const std::string& n) { return vector_case<Determinant>(n, 10); }});
}

}  // namespace etude::bench::numbers
