// SPDX-License-Identifier: Apache-2.0
// What all optimisers share: the update of a model by a formula per element, with its state. Used
// by adam.h, sgd.h and rules.h; users call update() of those.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/base/structure.h"
#include "etude/core/attrs.h"
#include "etude/core/option_ranges.h"
#include "etude/core/tensor.h"
#include "etude/core/values.h"
#include "etude/diff/differentiable.h"
#include "etude/diff/mixed_numbers.h"
#include "etude/optim/parameters.h"
#include "etude/optim/schedule.h"
#include "etude/optim/slots.h"
#include "etude/optim/transforms.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

namespace internal {

class Condition;

// Gives the layers of `model` the state that they announced, if `gradients` is a tangent of it.
template <class Model, class Gradients>
void take_state(Model& model, const Gradients& gradients) {
  if constexpr (etude::internal::holds_state<Model>()) {
    if constexpr (std::is_same_v<tangent_t<Model>, Gradients>) {
      const etude::internal::TakeState take;
      etude::internal::zip_leaves(model, gradients, take);
    }
  }
}

// What decides the numbers of all updates.
struct RateOptions {
  const Schedule& lr;
  double decay;
  std::vector<double> others;  // in the order of kernels/cpu/optimizer_rates.cc
};

// The step of one parameter. What it is given belongs to the optimiser and the model.
struct Step {
  Tensor& parameter;
  const Tensor& gradient;
  const Tensor& rates;         // float64[10]
  const Attrs& rule;           // of the optimiser: rule_attrs()
  std::span<Tensor> states;    // of the rule, then those that its class adds
  bool may_overwrite = false;  // whether parameter and states are given away
};
// What names a rule in calls of run_rule.
Attrs rule_attrs(std::string_view rule);
// The step of a rule: parameter and states become what it gives.
void run_rule(const Attrs& rule, const Step& step);

// A rule of kernels/cpu/optimizer_steps.h with the numbers of each update, with what was added
// around it. A value: a copy goes on by itself. As an in-out argument of a staged function it goes
// on at each call: count and state are tensors, and the graph evaluates the schedule. threads:
// thread-compatible.
class RuleOptimizer {
 public:
  virtual ~RuleOptimizer();

  // Moves every tensor of `model` against its gradient, in place. `gradients` is the tangent of the
  // model; where it is absent the tensor stays. A frozen part (Freezable) and its state stay as
  // they are, bit for bit. A part with a tangent of its own (DifferentiableTraits) takes the step
  // in its tangent, from 0, and then goes along it by its move(): it has no weight decay. Layers
  // get the state that they announced.
  //
  // throws: kInvalidArgument, with the path, for gradients that do not fit the model, for an
  //         option or a rate of the schedule that is out of its range, for a pattern of a group
  //         that means no tensor, and for a part with a tangent of its own where the optimiser or a
  //         transform averages weights.
  //         Numbers of the host with a derivative are refused at compile time.
  // cost:   one pass over each parameter; after the first update nothing of their size is
  //         allocated, unless transforms or the header of the optimiser say so.
  template <class Model, class Gradients>
  void update(Model& model, const Gradients& gradients, CallSite where = CallSite::here()) {
    if constexpr (!etude::internal::HoldsRefused<Gradients>) {  // the compiler has said enough
      update_all(pair_up(model, gradients, slots_.needs_paths()), where);
      take_state(model, gradients);
    }
  }

  // Puts transforms behind those that are there: transforms.h. State that they keep begins at the
  // next update. throws: kInvalidArgument for state that another one keeps.
  void add(std::vector<Transform> transforms, CallSite where = CallSite::here());
  void add(Transform transform, CallSite where = CallSite::here());
  // Other options for the tensors that a pattern means (path_matches); the first group that means
  // one has it:
  //   optimizer.group("encoder/*", {.lr = 1e-4, .weight_decay = 0});
  // throws: kInvalidArgument for numbers out of their range, and for weight_decay where the
  //         optimiser has none.
  void group(std::string pattern, GroupOptions options, CallSite where = CallSite::here());

  // The rate of the next update, of what no group means.
  double rate() const;
  // Multiplies all rates from the next update on; a factor is part of the state. Graphs are not
  // made anew for another one. throws: kInvalidArgument for a negative factor.
  void scale_rate(double factor, CallSite where = CallSite::here());
  // The product of the factors, 1 at first.
  double rate_scale() const;
  // What loss_scaling() wants the loss to be multiplied by, float64[]; absent without it.
  Tensor loss_scale() const;
  // How many gradients wait for an update by accumulate(); 0 without it. throws: as updates().
  std::int64_t waiting() const;

  // A copy of the model with the averages of its tensors: "ema" and "swa" of transforms, "slow" of
  // lookahead, "average" of ASGD and the schedule-free optimisers. Tensors without one stay, and
  // those of frozen parts.
  //
  // throws: kInvalidArgument for another name, before the first update, and for another model.
  template <class Model>
  Model averaged(Model model, std::string_view name = "ema",
                 CallSite where = CallSite::here()) const {
    take_averages(parameters_of(model, false).all, name, where);
    return model;
  }

  // How many there were. throws: kFailedPrecondition while a function is traced that has this
  // optimiser as an argument: its number is known when the function runs.
  std::int64_t updates() const { return slots_.updates(); }
  State state() const { return slots_.state(); }
  // throws: kInvalidArgument for the state of another kind of optimiser, or of other transforms.
  void restore(State state, CallSite where = CallSite::here());

 protected:
  // `optimizer` is the class, for messages; `rule` names the formula and so the state. `others` are
  // names of state beside it.
  RuleOptimizer(std::string_view optimizer, std::string_view rule,
                const std::vector<std::string>& others);
  RuleOptimizer(const RuleOptimizer&);
  RuleOptimizer& operator=(const RuleOptimizer&);

  // The class, for messages.
  std::string_view optimizer() const { return optimizer_; }
  const std::string& rule() const { return rule_; }
  const Extras& extras() const { return extras_; }

 private:
  // throws: kInvalidArgument for an option out of its range: they may be changed between updates.
  virtual void check() const = 0;
  virtual bool has_weight_decay() const = 0;
  // Whether a step goes on from the parameter, and does not make it anew from state.
  virtual bool has_increments() const { return true; }
  virtual RateOptions rate_options() const = 0;
  // How a state of the rule, or of its class, begins.
  virtual StateStart start_of(std::size_t state, const Tensor& value) const;
  virtual void run_step(const Step& step) const { run_rule(step.rule, step); }

  void update_all(Parameters parameters, CallSite where);
  // The rate of update t, counted from 1: lr / (1 + decay (t - 1)), scaled. throws:
  // kInvalidArgument for a negative one.
  double rate_of(const RateOptions& options, std::int64_t t) const;
  void take_averages(const std::vector<Parameter>& parameters, std::string_view name,
                     CallSite where) const;
  // The rates of the next update by group, at once or as values of the trace; then also the count.
  std::vector<Tensor> rates(Tensor& done, CallSite where) const;
  Tensor host_rates(const RateOptions& options) const;
  Values traced_rates(const RateOptions& options, CallSite where) const;
  void step_all(const std::vector<Parameter>& parameters, const std::vector<Tensor>& rates,
                const Condition& due, CallSite where);
  std::size_t group_of(std::size_t parameter) const;
  void require_groups() const;
  void require_weights(const std::vector<Parameter>& parameters) const;

  std::string_view optimizer_;  // a literal: "Lion"
  std::string update_;          // "Lion::update"
  std::string rule_;
  std::size_t own_states_ = 0;  // those before the ones of transforms
  Extras extras_;

 protected:
  Slots slots_;
};

// A RuleOptimizer with options of a type, which are checked against its table of ranges.
template <class Options>
class OptimizerWith : public RuleOptimizer {
 public:
  const Options& options() const { return options_; }
  // By what calls of a staged function with other optimisers differ.
  auto host_values() const { return std::tie(rule(), options_, extras()); }

 protected:
  OptimizerWith(std::string_view optimizer, std::string_view rule, Options options, CallSite where,
                const std::vector<std::string>& others = {})
      : RuleOptimizer(optimizer, rule, others), options_(std::move(options)) {
    etude::internal::check_options(optimizer, options_, where);
  }

  Options options_;

 private:
  void check() const final { etude::internal::check_options(this->optimizer(), options_, {}); }
  bool has_weight_decay() const final {
    return requires(const Options& o) { o.weight_decay; };
  }
};

}  // namespace internal
}  // namespace optim
}  // namespace etude
