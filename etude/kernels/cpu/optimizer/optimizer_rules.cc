// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/optimizer/optimizer_rules.h"

#include <algorithm>

namespace etude::optimizer {
namespace {

template <class Rule>
void write_rates(const double* option, double t, double lr, double* rate) {
  const auto options = from_list<Options<Rule>>([&](std::size_t i) { return option[i]; });
  const Rates<Rule, double> rates = Rule::rates(options, t, lr);
  std::fill_n(rate, kRates, 0.0);
  each_field(rates, [&](double value, std::size_t i) { rate[i] = value; });
}

}  // namespace

RateFormula rate_formula(std::string_view rule) {
  RateFormula out;
  with_rule(rule, [&](auto r) {
    using Rule = decltype(r);
    out = {kNames<Options<Rule>>, write_rates<Rule>};
  });
  return out;
}

}  // namespace etude::optimizer
