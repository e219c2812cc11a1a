// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/numbers/programs/lstm.h"
#include "benchmarks/numbers/rows.h"
#include "benchmarks/numbers/vector_case.h"

namespace etude::bench::numbers {

void add_networks(std::vector<Entry>& entries) {
  entries.push_back({"lstm", [](const std::string& n) { return vector_case<Lstm>(n, 3.3); }});
}

}  // namespace etude::bench::numbers
