// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/internal/step_plan.h"

#include <utility>

#include "etude/base/thread_object.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/run.h"
#include "etude/core/internal/mode.h"
#include "etude/device/cpu/float_mode.h"

namespace etude::optim::internal {
namespace {

// The step for which this thread calls run_step() to plan it.
struct Planning {
  StepPlan* plan = nullptr;
  const Step* step = nullptr;
};

class PlanningScope {
 public:
  PlanningScope(StepPlan& plan, const Step& step)
      : now_(etude::internal::ThreadObject<Planning>::get()),
        before_(std::exchange(now_, Planning{&plan, &step})) {}
  PlanningScope(const PlanningScope&) = delete;
  PlanningScope& operator=(const PlanningScope&) = delete;
  ~PlanningScope() { now_ = before_; }

 private:
  Planning& now_;
  const Planning before_;
};

template <class Values>
std::span<Tensor> states_of(Values& values) {
  return {values.begin() + 1, values.end()};
}

bool is_plain(const Tensor& x) {
  return x.has_value() && TensorAccess::has_elements(x) && !TensorAccess::is_sparse(x) &&
         x.type()->device().is_home();
}

}  // namespace

StepPlan::StepPlan(std::size_t steps, bool may_overwrite) : may_overwrite_(may_overwrite) {
  steps_.reserve(steps);
}

void StepPlan::add(const Step& step, RunStep run) {
  Planned& planned = steps_.emplace_back(Planned{.step = step});
  is_unique_ = 0;
  for (std::size_t r = 0; r <= step.states.size() && r < kMostResults; ++r) {
    if (TensorAccess::is_unique(target(planned, r))) is_unique_ |= uint32_t{1} << r;
  }
  planned.values.push_back(step.parameter);
  for (const Tensor& state : step.states) planned.values.push_back(state);
  const Step on_copies{planned.values[0],         step.gradient, step.rates, step.rule,
                       states_of(planned.values), may_overwrite_};
  const PlanningScope scope(*this, on_copies);
  run(on_copies);
  if (planned.how != How::kCopies) planned.values = {};
}

std::span<Tensor> StepPlan::last_values() {
  return {steps_.back().values.begin(), steps_.back().values.end()};
}

StepPlan* StepPlan::planning(const Step& step) {
  const Planning* const now = etude::internal::ThreadObject<Planning>::find();
  return now != nullptr && now->step == &step ? now->plan : nullptr;
}

Tensor& StepPlan::target(Planned& planned, std::size_t result) {
  return result == 0 ? planned.step.parameter : planned.step.states[result - 1];
}

void StepPlan::take(const Attrs& rule) {
  Planned& planned = steps_.back();
  constexpr uint32_t kWatched = etude::internal::kModeProfile | etude::internal::kModeCancel;
  const bool is_eager = (etude::internal::mode_word & ~kWatched) == 0;
  if (is_eager && may_overwrite_) {
    planned.how = etude::internal::mode_word == 0 && prepare(rule) ? How::kReady : How::kInPlace;
    return;
  }
  // Recorded: the copies become the results of the call.
  const Step copies{planned.values[0],         planned.step.gradient, planned.step.rates, rule,
                    states_of(planned.values), may_overwrite_};
  run_rule(rule, copies);
}

bool StepPlan::prepare(const Attrs& rule) {
  using namespace etude::internal;
  Planned& planned = steps_.back();
  const Step& step = planned.step;
  const Op& op = etude::internal::op<"rule_update">();
  const std::size_t count = 3 + step.states.size();
  if (count > kDispatchOperands || 1 + step.states.size() > kMostResults) return false;
  std::array<const Tensor*, kDispatchOperands> list = {&step.parameter, &step.gradient,
                                                       &step.rates};
  for (std::size_t k = 0; k < step.states.size(); ++k) list[3 + k] = &step.states[k];
  std::array<const Type*, kDispatchOperands> types = {};
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_plain(*list[i])) return false;
    types[i] = list[i]->type();
    planned.in[i] = TensorAccess::rep(*list[i])->data;
  }
  // Other dtypes are errors, which the call itself throws.
  if (!op.operand_dtypes(0).contains(types[0]->dtype())) return false;
  DispatchEntry scratch;
  const DispatchEntry& entry = dispatch(op, rule, types.data(), count, scratch);
  const RefPtr<Prepared> call = entry.prepared;
  if (call->run == nullptr || call->view_of >= 0 || is_queued(*call)) return false;
  if (call->results.size() != 1 + step.states.size()) return false;
  for (std::size_t r = 0; r < call->results.size(); ++r) {
    Tensor& to = target(planned, r);
    const bool is_over = r < call->results_over.size() && to.type() == call->results[r] &&
                         call->results_over[r] == static_cast<int>(r == 0 ? 0 : 2 + r);
    if (!is_over || ((is_unique_ >> r) & 1) == 0) planned.made[r] = make_tensor(call->results[r]);
    planned.out[r] = TensorAccess::rep(planned.made[r].has_value() ? planned.made[r] : to)->data;
  }
  planned.call = call;
  return true;
}

void StepPlan::run_ready(Planned& planned) {
  const Prepared& call = *planned.call;
  const FloatModeScope float_mode;
  if (!call.run({call.state, planned.out.data(), planned.in.data()})) {
    etude::internal::throw_fault(etude::internal::op<"rule_update">(), planned.step.rule);
  }
  for (std::size_t r = 0; r < call.results.size(); ++r) {
    Tensor& to = target(planned, r);
    if (planned.made[r].has_value()) {
      to = std::move(planned.made[r]);
    } else {
      TensorAccess::forget_id(to);
    }
  }
}

void StepPlan::run(RunStep run) {
  for (Planned& planned : steps_) {
    if (planned.how == How::kReady) {
      run_ready(planned);
    } else if (planned.how == How::kInPlace) {
      run(planned.step);
    } else {
      for (std::size_t r = 0; r < planned.values.size(); ++r) {
        target(planned, r) = std::move(planned.values[r]);
      }
    }
  }
}

}  // namespace etude::optim::internal
