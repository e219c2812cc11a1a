// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/optimizer/optimizer_rules.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace etude::optimizer {
namespace {

// For each rate the place of its value in the list of the options, lr and 0.
template <class Rule>
constexpr auto sources_of() {
  constexpr auto rates = kNames<Rates<Rule, double>>;
  constexpr auto options = kNames<Options<Rule>>;
  std::array<std::size_t, rates.size()> out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto found = std::find(options.begin(), options.end(), rates[i]) - options.begin();
    const bool is_unset = static_cast<std::size_t>(found) == options.size() && rates[i] != "lr";
    out[i] = static_cast<std::size_t>(found) + (is_unset ? 1 : 0);
  }
  return out;
}

template <class Rule>
void write_rates(const double* option, double t, double lr, double* rate) {
  constexpr auto kSources = sources_of<Rule>();
  static_assert(kSources.size() <= kRates);
  constexpr std::size_t kCount = kNames<Options<Rule>>.size();
  const auto options = from_list<Options<Rule>>([&](std::size_t i) { return option[i]; });
  auto rates = from_list<Rates<Rule, double>>([&](std::size_t i) {
    return kSources[i] < kCount ? option[kSources[i]] : kSources[i] == kCount ? lr : 0;
  });
  if constexpr (requires { &Rule::rates; }) Rule::rates(options, t, lr, rates);
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
