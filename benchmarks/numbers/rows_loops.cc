// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "benchmarks/numbers/programs/loops.h"
#include "benchmarks/numbers/programs/scans.h"
#include "benchmarks/numbers/rows.h"
#include "etude/diff/scalar_operators.h"

namespace etude::bench::numbers {

void append(std::vector<double>& out, const Row<double>& row) { append(out, row.w); }

namespace {

template <class Loop, std::size_t n>
Case loop(const std::string& name) {
  using Argument = decltype(Loop::make(n));
  const auto at = std::make_shared<const Argument>(Loop::make(n));
  Case out;
  out.name = name;
  out.elements = n;
  out.primal = contender([at] { return Loop()(*at); });
  out.gradient = contender([at] { return etude::gradient(Loop(), *at); });
  out.hand = contender([at] { return Loop().hand(*at); });
  return out;
}

template <class Loop>
void add_lengths(std::vector<Entry>& entries, const std::string& name) {
  entries.push_back({name + "/100", loop<Loop, 100>});
  entries.push_back({name + "/10000", loop<Loop, 10'000>});
  entries.push_back({name + "/1000000", loop<Loop, 1'000'000>});
}

}  // namespace

void add_loops(std::vector<Entry>& entries) {
  add_lengths<SumByIndex>(entries, "sum_by_index");
  add_lengths<ProductByIndex>(entries, "product_by_index");
  add_lengths<ChangeByIndex>(entries, "change_by_index");
  add_lengths<NestedSubscripts>(entries, "nested_subscripts");
  add_lengths<MapEntries>(entries, "map_entries");
  constexpr std::size_t kSteps = 1'000'000;
  entries.push_back({"scan_sine/1000000", loop<ScanLoop<SineBody, kSteps>, kSteps>});
  entries.push_back({"scan_polynomial/1000000", loop<ScanLoop<PolynomialBody, kSteps>, kSteps>});
}

}  // namespace etude::bench::numbers
