// SPDX-License-Identifier: Apache-2.0
// The common part of all optimisers: the update of a model by a rule, with its state. Used by
// adam.h, sgd.h and the headers of rules; users call update() of those classes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/base/structure.h"
#include "etude/core/call/values.h"
#include "etude/core/op/attrs.h"
#include "etude/core/option_ranges.h"
#include "etude/core/tensor.h"
#include "etude/diff/differentiable.h"
#include "etude/diff/mixed_numbers.h"
#include "etude/optim/internal/parameters.h"
#include "etude/optim/schedule.h"
#include "etude/optim/slots.h"
#include "etude/optim/transforms.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

namespace internal {

class Changes;
struct StepInputs;
struct TransformRun;

// Applies a state update to a layer, and notes how to take it back.
struct TakeStateBack {
  std::vector<std::function<void()>>& undo;
  template <class X, class U>
  void state(X& x, const U& by) const {
    if (!by.value) return;
    undo.push_back([&x, old = x.value]() mutable { x.value = std::move(old); });
    x.take(by);
  }
  template <class X, class U>
  void operator()(X&, const U&) const {}
};
// Applies state updates to the layers of `model`, if `gradients` is a tangent of it, then calls
// `step`. If one of them throws, the layers have their state of before.
template <class Model, class Gradients, class F>
void take_state(Model& model, const Gradients& gradients, const F& step) {
  if constexpr (etude::internal::holds_state<Model>() &&
                std::is_same_v<tangent_t<Model>, Gradients>) {
    std::vector<std::function<void()>> undo;
    try {
      const TakeStateBack take{undo};
      etude::internal::zip_leaves(model, gradients, take);
      step();
    } catch (...) {
      for (auto& each : undo) each();
      throw;
    }
  } else {
    step();
  }
}

// The options that determine the rates of all updates.
struct RateOptions {
  const Schedule& lr;
  double decay;
  std::vector<double> others;  // in the order of the Options of the rule
};

// The step of one parameter. Its references belong to the optimiser and the model, which change
// with the end of the update: a step adds to `changes`.
struct Step {
  Tensor& parameter;
  const Tensor& gradient;
  const Tensor& rates;       // float64[10]
  const Attrs& rule;         // of the optimiser: rule_attrs()
  std::span<Tensor> states;  // of the rule, then of its class
  bool may_overwrite;        // whether parameter and states may be overwritten
  Changes& changes;
};
// The attributes that name a rule.
Attrs rule_attrs(std::string_view rule);
// Adds the step of the rule of the optimiser with these rates.
void step_by_rule(const Step& step, const Tensor& rates);

// A rule of kernels/cpu/optimizer/optimizer_rules.h with the rates of each update, and its
// transforms. A value: copies are independent. As an in-out argument of a staged function it
// advances at each call: count and state are tensors, and the graph evaluates the schedule.
// threads: thread-compatible.
class RuleOptimizer {
 public:
  virtual ~RuleOptimizer();

  // Moves every tensor of `model` against its gradient, in place. `gradients` is the tangent of the
  // model; a tensor with an absent gradient does not change. A frozen part (Freezable) and its
  // state do not change, bit for bit. For a part with a tangent of its own (DifferentiableTraits)
  // the step is taken in its tangent, from 0, and its move() applies the result; it has no weight
  // decay. Layers receive their state updates.
  //
  // throws: kInvalidArgument, with the path, for gradients that do not fit the model, for an option
  //         or a rate of the schedule out of its range, for a group pattern that matches no tensor,
  //         and for a part with a tangent of its own if the optimiser or a transform averages
  //         weights. Host numbers with a derivative are refused at compile time. Model and
  //         optimiser are then as before, with one exception: where steps need tensors of the size
  //         of their parameter (tensor_rules.h, gradients that are slices), each is complete by
  //         itself. If memory ends after some of them, the error states how many parameters have
  //         moved, and the path of the last one.
  // cost:   one pass over each parameter. After the first update nothing of the size of a parameter
  //         is allocated, unless transforms or the header of the optimiser state it.
  template <class Model, class Gradients>
  void update(Model& model, const Gradients& gradients, CallSite where = CallSite::here()) {
    // the compiler has reported the error
    if constexpr (!etude::internal::HoldsRefused<Gradients>) {
      take_state(model, gradients,
                 [&] { update_all(pair_up(model, gradients, slots_.needs_paths()), where); });
    }
  }

  // Appends transforms (transforms.h). Their state starts at the next update. throws:
  // kInvalidArgument for state that another transform keeps.
  void add(std::vector<Transform> transforms, CallSite where = CallSite::here());
  void add(Transform transform, CallSite where = CallSite::here());
  // Sets other options for the tensors that match a pattern (path_matches). Of several groups that
  // match a tensor, the first applies:
  //   optimizer.group("encoder/*", {.lr = 1e-4, .weight_decay = 0});
  // throws: kInvalidArgument for numbers out of their range, and for weight_decay if the
  //         optimiser has none; after the first update also for a pattern that matches no tensor.
  //         Before it, the model is not known, so the update refuses the pattern.
  void group(std::string pattern, GroupOptions options, CallSite where = CallSite::here());

  // The rate of the next update, for tensors outside of all groups.
  double rate() const;
  // Multiplies all rates from the next update on. The factor is part of the state; graphs are not
  // retraced for another factor. throws: kInvalidArgument for a negative factor.
  void scale_rate(double factor, CallSite where = CallSite::here());
  // The product of the factors, initially 1.
  double rate_scale() const;
  // The factor for the loss that loss_scaling() requires, float64[]; absent without loss_scaling().
  Tensor loss_scale() const;
  // The number of gradients that wait for an update by accumulate(); 0 without it. throws: as
  // updates().
  int64_t waiting() const;

  // Returns a copy of the model with the averages of its tensors: "ema" and "swa" of transforms,
  // "slow" of lookahead, "average" of ASGD and the schedule-free optimisers. Tensors without an
  // average, and tensors of frozen parts, are unchanged.
  //
  // throws: kInvalidArgument for another name, before the first update, and for another model.
  template <class Model>
  Model averaged(Model model, std::string_view name = "ema",
                 CallSite where = CallSite::here()) const {
    take_averages(parameters_of(model, slots_.needs_paths()).all, name, where);
    return model;
  }

  // The number of updates. throws: kFailedPrecondition while a function is traced that has this
  // optimiser as an argument: the number is known when the function runs.
  int64_t updates() const { return slots_.updates(); }
  State state() const { return slots_.state(); }
  // throws: kInvalidArgument for the state of another kind of optimiser, or of other transforms.
  void restore(State state, CallSite where = CallSite::here());
  // For checkpoints. The returned function exchanges the state and the given one, and does not
  // throw. throws: as restore().
  std::function<void()> prepare_restore(State state, CallSite where = CallSite::here());

 protected:
  // `optimizer` is the class, for messages; `rule` names the formula and thereby the state.
  // `others` are the names of further state.
  RuleOptimizer(std::string_view optimizer, std::string_view rule,
                const std::vector<std::string>& others);
  RuleOptimizer(const RuleOptimizer&);
  RuleOptimizer& operator=(const RuleOptimizer&);

  // The class, for messages.
  std::string_view optimizer() const { return optimizer_; }
  const std::string& rule() const { return rule_; }
  const Extras& extras() const { return extras_; }

 private:
  // throws: kInvalidArgument for an option out of its range, since options may change between
  // updates.
  virtual void check() const = 0;
  // The number of that name among the options; none if there is no such number.
  virtual std::optional<double> option(std::string_view name) const = 0;
  // Whether a step adds to the parameter; false if it computes the parameter from state.
  virtual bool has_increments() const { return true; }
  // The option lr.
  virtual const Schedule& schedule() const = 0;
  // The initial value of a state of the rule or of its class, by its name.
  virtual StateStart start_of(std::string_view state, const Tensor& value) const;
  virtual void run_step(const Step& step) const { step_by_rule(step, step.rates); }
  // Whether run_step() makes no tensor of the size of the parameter.
  virtual bool is_small_step(const Tensor& /*parameter*/) const { return true; }

  RateOptions rate_options() const;
  void update_all(Parameters parameters, CallSite where);
  // The rate of update t, counted from 1: lr / (1 + decay (t - 1)), scaled. throws:
  // kInvalidArgument for a negative one.
  double rate_of(const RateOptions& options, int64_t t) const;
  void take_averages(const std::vector<Parameter>& parameters, std::string_view name,
                     CallSite where) const;
  // The rates of the next update by group, at once or as values of the trace; then the count as
  // well.
  std::vector<Tensor> rates(Tensor& done, CallSite where) const;
  Tensor host_rates(const RateOptions& options) const;
  Values traced_rates(const RateOptions& options, CallSite where) const;
  // Computes the changes of an update. `started` gets the states that it made.
  void compute(Parameters& all, TransformRun& run, std::vector<Tensor*>& started, CallSite where);
  void step_all(TransformRun& run, const StepInputs& inputs);
  // Adds the step of parameter i. Returns the number of its first change.
  std::size_t add_step(std::size_t i, const TransformRun& run, Changes& changes,
                       const StepInputs& inputs);
  void step_tangent(std::size_t i, TransformRun& run, const StepInputs& inputs);
  std::size_t group_of(std::size_t parameter) const;
  void require_groups(const std::vector<Parameter>& parameters) const;
  void require_weights(const std::vector<Parameter>& parameters) const;

  std::string_view optimizer_;  // a literal: "Lion"
  std::string update_;          // "Lion::update"
  std::string rule_;
  std::size_t own_states_ = 0;  // those before the states of transforms
  Extras extras_;

 protected:
  Slots slots_;
};

// A RuleOptimizer with typed options, which are checked against their table of ranges.
template <class Options>
class OptimizerWith : public RuleOptimizer {
 public:
  const Options& options() const { return options_; }
  // The host values that distinguish optimisers in calls of a staged function.
  auto host_values() const { return std::tie(rule(), options_, extras()); }

 protected:
  OptimizerWith(std::string_view optimizer, std::string_view rule, Options options, CallSite where,
                const std::vector<std::string>& others = {})
      : RuleOptimizer(optimizer, rule, others), options_(std::move(options)) {
    etude::internal::check_options(optimizer, options_, where);
  }

  std::optional<double> option(std::string_view name) const override {
    std::optional<double> found;
    Options::ranges([&](std::string_view row, auto option, const Range&) {
      if constexpr (std::is_same_v<decltype(option), double Options::*>) {
        if (row == name) found = options_.*option;
      }
    });
    return found;
  }

  Options options_;

 private:
  void check() const final { etude::internal::check_options(this->optimizer(), options_, {}); }
  // Rprop, whose lr is a number, overrides it.
  const Schedule& schedule() const override {
    if constexpr (std::is_same_v<decltype(Options::lr), Schedule>) return options_.lr;
    __builtin_unreachable();
  }
};

}  // namespace internal
}  // namespace optim
}  // namespace etude
