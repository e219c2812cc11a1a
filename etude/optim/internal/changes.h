// SPDX-License-Identifier: Apache-2.0
// The changes of one update of an optimiser. They are computed first and made together at the end,
// so that a failed update changes nothing. Used by the sources of this folder only.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <list>
#include <span>
#include <utility>
#include <vector>

#include "etude/core/call/together.h"
#include "etude/core/call/values.h"
#include "etude/core/op/attrs.h"
#include "etude/core/tensor.h"

namespace etude::optim::internal {

class Condition;

// A call of the op rule_update. Its parameter, states and gradient stay where they are until the
// changes are made.
struct RuleCall {
  const Attrs& rule;        // rule_attrs()
  const Tensor& parameter;  // the start of the step
  const Tensor& gradient;
  const Tensor& rates;  // float64[10]
  std::span<Tensor> states = {};
  bool may_overwrite = false;  // whether parameter and states may be overwritten
};

// Calls the rule now. Returns the parameter, then the states; overwrites nothing.
Values call_rule(const RuleCall& call);
// The rates of a rule that has these; the others are 0.
Tensor rates_of(std::initializer_list<double> rates);

// threads: confined to the thread that made it.
class Changes {
 public:
  Changes() = default;
  Changes(const Changes&) = delete;
  Changes& operator=(const Changes&) = delete;

  void reserve(std::size_t calls);

  // The following functions add changes, and return the number of the first. A target must stay
  // where it is; it keeps its value until the changes are made. The last change of a target wins.

  // `target` becomes the parameter after a step, and the states of the call change. make() writes
  // over memory with one owner.
  std::size_t step(Tensor& target, const RuleCall& call);
  std::size_t set(Tensor& target, Tensor value);
  // The value of an earlier change; both targets then share it.
  std::size_t set_to(Tensor& target, std::size_t earlier);

  // Replaces the values from change `first` on by the old ones unless the condition holds.
  void pick(std::size_t first, const Condition& due);

  std::size_t size() const { return changes_.size(); }
  // The new value, as an operand of calls of step(). The reference is valid until the next change.
  const Tensor& value(std::size_t change) const;
  Tensor& target(std::size_t change) const { return *changes_[change].target; }
  // The number of the last change of this tensor. It must exist.
  std::size_t last_of(const Tensor& target) const;
  // Keeps a tensor for operands of calls of step().
  const Tensor& keep(Tensor x) { return kept_.emplace_back(std::move(x)); }

  // Runs the calls that wait. After it value() has elements.
  void run() { calls_.run(); }
  // Makes all changes. Allocates nothing.
  void make();

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  struct Change {
    Tensor* target;
    std::size_t call = kNone, result = 0;  // the value is a result of a call,
    std::size_t earlier = kNone;           // or the value of another change,
    Tensor value = {};                     // or this
  };

  etude::internal::CallsTogether calls_;
  std::vector<Change> changes_;
  std::list<Tensor> kept_;
};

}  // namespace etude::optim::internal
