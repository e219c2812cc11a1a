// SPDX-License-Identifier: Apache-2.0
// The rules of all optimisers. A rule is one struct. The kernel, the ops and the names of states in
// checkpoints come from it:
//
//   struct Apply {
//     static constexpr std::string_view kName = "apply";
//     struct Options {};                    // numbers of the user, in the order of graphs
//     template <class T> struct Rates {     // numbers of an update, in the order of graphs
//       T lr;
//     };
//     template <class T> struct State {};   // per element; checkpoints use the names
//     // Sets the rates of update t, counted from 1, with learning rate lr. A rate with the name of
//     // an option has its value already, `lr` has lr, and the others are 0. Optional.
//     static void rates(const Options& o, double t, double lr, Rates<double>& r);
//     // The formula of one element: parameter w, gradient g. On numbers it is the kernel, on
//     // tensors the lowering of the op, so both compute the same bits.
//     template <class T>
//     static void step(T& w, const T& g, State<T>& s, const Rates<T>& rate);
//   };
//
// Saved graphs store options and rates by place, so a new field goes to the end.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>

#include "etude/kernels/cpu/optimizer/adam_rules.h"
#include "etude/kernels/cpu/optimizer/adaptive_rules.h"
#include "etude/kernels/cpu/optimizer/descent_rules.h"
#include "etude/kernels/cpu/optimizer/tensor_rules.h"
#include "etude/kernels/cpu/optimizer/transform_rules.h"

namespace etude::optimizer {

using Rules = decltype(std::tuple_cat(DescentRules(), AdamRules(), AdaptiveRules(), TensorRules(),
                                      TransformRules()));

// Calls fn(Rule{}) for the rule of that name; returns false if there is none.
template <class Fn>
bool with_rule(std::string_view name, const Fn& fn) {
  return std::apply([&](auto... rule) { return ((rule.kName == name && (fn(rule), true)) || ...); },
                    Rules{});
}

// The rates of a rule as lists of numbers. Eager updates and the op rule_rates run it, so both
// compute the same bits.
struct RateFormula {
  std::span<const std::string_view> options;  // their names
  // Writes the kRates rates of update t. The number of options is the size of `options`.
  void (*write)(const double* option, double t, double lr, double* rate) = nullptr;
};
// The formula for the rule of that name; `write` is null if there is none.
RateFormula rate_formula(std::string_view rule);

// The learning rate of update t, counted from 1, decayed by `decay`.
inline double decayed(double lr, double decay, int64_t t) {
  return lr / (1 + decay * static_cast<double>(t - 1));
}

}  // namespace etude::optimizer
