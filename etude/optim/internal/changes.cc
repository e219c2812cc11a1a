// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/internal/changes.h"

#include <algorithm>
#include <utility>

#include "etude/base/check.h"
#include "etude/core/call/run.h"
#include "etude/kernels/cpu/optimizer/rule_parts.h"
#include "etude/optim/transform_run.h"

namespace etude::optim::internal {
namespace {

OperandList operands_of(const RuleCall& call) {
  OperandList list({&call.parameter, &call.gradient, &call.rates});
  for (const Tensor& state : call.states) list.add(state);
  return list;
}

}  // namespace

Values call_rule(const RuleCall& call) {
  return execute(etude::internal::op<"rule_update">(), operands_of(call).view(), call.rule, {});
}

Tensor rates_of(std::initializer_list<double> rates) {
  std::vector<double> all(optimizer::kRates);
  std::ranges::copy(rates, all.begin());
  return Tensor(all);
}

void Changes::reserve(std::size_t calls) {
  calls_.reserve(calls);
  changes_.reserve(2 * calls);
}

std::size_t Changes::step(Tensor& target, const RuleCall& call) {
  constexpr uint64_t kParameterAndStates = 0b111001;
  const std::size_t first = changes_.size();
  const std::size_t number =
      calls_.add(etude::internal::op<"rule_update">(),
                 operands_of(call).view(call.may_overwrite ? kParameterAndStates : 0), call.rule);
  changes_.push_back({.target = &target, .call = number});
  for (std::size_t r = 1; r < calls_.results(number); ++r) {
    changes_.push_back({.target = &call.states[r - 1], .call = number, .result = r});
  }
  return first;
}

std::size_t Changes::set(Tensor& target, Tensor value) {
  changes_.push_back({.target = &target, .value = std::move(value)});
  return changes_.size() - 1;
}

std::size_t Changes::set_to(Tensor& target, std::size_t earlier) {
  changes_.push_back({.target = &target, .earlier = earlier});
  return changes_.size() - 1;
}

void Changes::pick(std::size_t first, const Condition& due) {
  for (std::size_t i = first; i < changes_.size(); ++i) {
    Change& change = changes_[i];
    change.value = due.pick(value(i), *change.target);
    change.call = change.earlier = kNone;
  }
}

const Tensor& Changes::value(std::size_t i) const {
  const Change& change = changes_[i];
  if (change.earlier != kNone) return value(change.earlier);
  return change.call != kNone ? calls_.result(change.call, change.result) : change.value;
}

std::size_t Changes::last_of(const Tensor& target) const {
  std::size_t i = changes_.size();
  while (i > 0 && changes_[i - 1].target != &target) --i;
  ETUDE_CHECK(i > 0, "a step changes its parameter");
  return i - 1;
}

void Changes::make() {
  calls_.run();
  for (Change& change : changes_) {
    if (change.earlier != kNone) {
      *change.target = *changes_[change.earlier].target;
    } else if (change.call != kNone) {
      *change.target = calls_.take(change.call, change.result);
    } else {
      *change.target = std::move(change.value);
    }
  }
  changes_.clear();
}

}  // namespace etude::optim::internal
