// SPDX-License-Identifier: Apache-2.0
// The rates of an update, from the options of an optimiser and the count of updates. Eager updates
// and the op rule_rates run these functions, so both compute the same bits.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "etude/kernels/cpu/optimizer/optimizer_steps.h"

namespace etude::optimizer {

// Writes the kRates rates of update t, counted from 1, with learning rate lr.
using RatesFn = void (*)(const double* option, double t, double lr, double* rate);

struct RateFormula {
  std::size_t options = 0;  // how many numbers `write` reads, in the order of numbers() in optim/
  RatesFn write = nullptr;
};
// For the rule of that name; `write` is null if there is none.
RateFormula rate_formula(std::string_view rule);

// The learning rate of update t, counted from 1, decayed by `decay`.
inline double decayed(double lr, double decay, std::int64_t t) {
  return lr / (1 + decay * static_cast<double>(t - 1));
}

}  // namespace etude::optimizer
