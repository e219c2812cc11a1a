// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/numbers/programs/gmm.h"
#include "benchmarks/numbers/programs/least_squares.h"
#include "benchmarks/numbers/programs/log_sum_exp.h"
#include "benchmarks/numbers/rows.h"
#include "benchmarks/numbers/vector_case.h"

namespace etude::bench::numbers {

void add_statistics(std::vector<Entry>& entries) {
  entries.push_back({"gmm", [](const std::string& n) { return vector_case<Gmm>(n, 20); }});
  entries.push_back(
      {"log_sum_exp", [](const std::string& n) { return vector_case<LogSumExp>(n, 6); }});
  entries.push_back(
      {"least_squares", [](const std::string& n) { return vector_case<LeastSquares>(n, 8); }});
}

}  // namespace etude::bench::numbers
