// SPDX-License-Identifier: Apache-2.0
// The steps of one update, planned first and then run: without memory no parameter and no state
// changes. Used by optimizer.cc only.
//
// A planned step is a prepared kernel that writes in place, or the new values of a step that ran on
// copies. Running the plan allocates nothing. Exceptions are steps with sparse gradients, and steps
// under a profile or a CancelScope: they run in place, one after the other.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "etude/base/internal/inline_vector.h"
#include "etude/core/op/rules.h"
#include "etude/eager/dispatch.h"
#include "etude/optim/internal/optimizer.h"

namespace etude::optim::internal {

// threads: confined to the thread that made it.
class StepPlan {
 public:
  using RunStep = etude::internal::FunctionRef<void(const Step&)>;

  // `may_overwrite`: of the steps.
  StepPlan(std::size_t steps, bool may_overwrite);

  // Plans a step; `run` is the run_step() of the optimiser. Changes nothing.
  void add(const Step& step, RunStep run);
  // The values of the last step, if it ran on copies: parameter, then states. Empty if it did not.
  std::span<Tensor> last_values();
  // Runs all steps.
  void run(RunStep run);

  // The plan that run_rule() has to give `step` to; null: none, run_rule() runs it.
  static StepPlan* planning(const Step& step);
  void take(const Attrs& rule);

 private:
  static constexpr std::size_t kMostResults = 4;  // a parameter and its states
  enum class How { kCopies, kReady, kInPlace };
  struct Planned {
    Step step;  // with the tensors of model and optimiser
    How how = How::kCopies;
    etude::internal::InlineVector<Tensor, kMostResults> values = {};  // kCopies
    etude::internal::RefPtr<Prepared> call = {};
    std::array<const void*, etude::internal::kDispatchOperands> in = {};
    std::array<void*, kMostResults> out = {};
    std::array<Tensor, kMostResults> made = {};  // results that overwrite nothing
  };
  // Whether the last step is ready to run in place, or into tensors that were made for it.
  bool prepare(const Attrs& rule);
  static Tensor& target(Planned& planned, std::size_t result);
  static void run_ready(Planned& planned);

  std::vector<Planned> steps_;
  bool may_overwrite_;
  uint32_t is_unique_ = 0;  // of the last step; bit i: the target of result i
};

}  // namespace etude::optim::internal
