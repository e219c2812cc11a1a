// SPDX-License-Identifier: Apache-2.0
// What all optimisers share: the update of a model by a formula per element, with its state. Used
// by adam.h, sgd.h and rules.h; users call update() of those.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/base/fields.h"
#include "etude/base/structure.h"
#include "etude/core/option_ranges.h"
#include "etude/core/tensor.h"
#include "etude/core/values.h"
#include "etude/diff/differentiable.h"
#include "etude/optim/schedule.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

// State of an optimiser by name, "mean/conv1/filter", with the number of updates as "updates": what
// checkpoints keep.
using State = std::map<std::string, Tensor>;

namespace internal {

// A tensor of the model, its gradient (absent: none arrived) and its state.
struct Parameter {
  Tensor* value = nullptr;
  const Tensor* gradient = nullptr;
  std::string path = {};
};

// State tensors per parameter, in the order of the model's tensors. A value; mirrors the model.
class Slots {
 public:
  // The names of the state tensors that each parameter has; at most three.
  explicit Slots(std::vector<std::string> names);
  // In the source, since every program would compile them with all that a slot is made of.
  Slots(const Slots&);
  Slots(Slots&&) noexcept;
  Slots& operator=(const Slots&);
  Slots& operator=(Slots&&) noexcept;
  ~Slots();

  // throws: kFailedPrecondition while a function is traced that has them as an argument.
  std::int64_t updates() const;
  // The number of updates, int64[]; without elements while such a function is traced.
  const Tensor& count() const { return count_; }
  bool is_traced() const {
    return count_.type() != nullptr && TensorAccess::data(count_) == nullptr;
  }
  // Counts an update: in place, or by a new number.
  void count_update();
  void set_count(Tensor count) { count_ = std::move(count); }
  // Whether the next update makes the state, for which it needs the paths of the parameters.
  bool needs_paths() const { return slots_.empty(); }
  const std::vector<std::string>& names() const { return names_; }
  // Starts an update of `parameters`: makes state that is missing (zeros), checks types.
  // throws: kInvalidArgument, with the path, for a gradient of another type than its parameter and
  //         for a model with other tensors than at the last update.
  void begin_update(const std::vector<Parameter>& parameters);
  // Notes for explain_copy() what of parameter i a step at `where` will copy since it is shared.
  void note_copies(std::size_t i, const Tensor& value, std::string_view by, CallSite where) const;
  std::array<Tensor, 3>& operator[](std::size_t parameter) { return slots_[parameter].tensors; }

  State state() const;
  // Takes over what `state` gave. Its tensors go to the parameters at the next update, by path.
  // throws: kInvalidArgument for a name that is not part of this kind of state.
  void restore(State state);

  // Names and paths say nothing that the kind of optimiser and the model do not.
  std::tuple<> host_values() const { return {}; }

 private:
  struct Slot {
    std::string path;
    std::array<Tensor, 3> tensors;

    std::tuple<> host_values() const { return {}; }
    ETUDE_FIELDS(Slot, tensors);
  };
  void make_slots(const std::vector<Parameter>& parameters);

  std::vector<std::string> names_;
  Tensor count_;
  std::vector<Slot> slots_;
  State pending_;  // restored, not yet given to parameters

  ETUDE_FIELDS(Slots, count_, slots_, pending_);
};

[[noreturn]] void throw_unpaired(std::size_t parameters, std::size_t gradients);

// The tensors of `model` beside those of its tangent `gradients`.
template <class Model, class Gradients>
std::vector<Parameter> pair_up(Model& model, const Gradients& gradients, bool with_paths) {
  std::vector<Parameter> out;
  etude::internal::for_each_leaf_with<Tensor>(
      with_paths, model,
      [&](const std::string& path, Tensor& x) { out.push_back({.value = &x, .path = path}); });
  std::size_t i = 0;
  for_each_leaf<Tensor>(gradients, [&](const Tensor& g) {
    if (i < out.size()) out[i].gradient = &g;
    ++i;
  });
  if (i != out.size()) throw_unpaired(out.size(), i);
  return out;
}

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

// A rule of kernels/cpu/optimizer_steps.h with the numbers of each update. A value: a copy goes on
// by itself. As an in-out argument of a staged function it goes on at each call: count and state
// are tensors, and the graph evaluates the schedule. threads: thread-compatible.
class RuleOptimizer {
 public:
  virtual ~RuleOptimizer();

  // Moves every tensor of `model` against its gradient, in place. `gradients` is the tangent of the
  // model; where it is absent the tensor stays. Layers get the state that they announced.
  //
  // throws: kInvalidArgument, with the path, for gradients that do not fit the model, and for an
  //         option or a rate of the schedule that is out of its range.
  // cost:   one pass over each parameter; after the first update nothing of their size is
  // allocated.
  template <class Model, class Gradients>
  void update(Model& model, const Gradients& gradients, CallSite where = CallSite::here()) {
    update_all(pair_up(model, gradients, slots_.needs_paths()), where);
    take_state(model, gradients);
  }

  // How many there were. throws: kFailedPrecondition while a function is traced that has this
  // optimiser as an argument: its number is known when the function runs.
  std::int64_t updates() const { return slots_.updates(); }
  State state() const { return slots_.state(); }
  // throws: kInvalidArgument for the state of another kind of optimiser.
  void restore(State state, CallSite where = CallSite::here());

 protected:
  // `optimizer` is the class, for messages; `rule` names the formula and so the state.
  RuleOptimizer(std::string_view optimizer, std::string_view rule);
  RuleOptimizer(const RuleOptimizer&);
  RuleOptimizer& operator=(const RuleOptimizer&);

  // The class, for messages.
  std::string_view optimizer() const { return optimizer_; }
  const std::string& rule() const { return rule_; }
  // The rate of update t, counted from 1: lr / (1 + decay (t - 1)). throws: kInvalidArgument for a
  // negative one.
  double rate_of(const Schedule& lr, double decay, std::int64_t t) const;

 private:
  // throws: kInvalidArgument for an option out of its range: they may be changed between updates.
  virtual void check() const = 0;
  virtual RateOptions rate_options() const = 0;
  void update_all(const std::vector<Parameter>& parameters, CallSite where);
  // The rates of the next update: at once, or as values of the trace, with the count.
  Tensor host_rates() const;
  Values traced_rates(CallSite where) const;

  std::string_view optimizer_;  // a literal: "Lion"
  std::string update_;          // "Lion::update"
  std::string rule_;

 protected:
  Slots slots_;
};

// A RuleOptimizer with options of a type, which are checked against its table of ranges.
template <class Options>
class OptimizerWith : public RuleOptimizer {
 public:
  const Options& options() const { return options_; }
  // By what calls of a staged function with other optimisers differ.
  auto host_values() const { return std::tie(rule(), options_); }

 protected:
  OptimizerWith(std::string_view optimizer, std::string_view rule, Options options, CallSite where)
      : RuleOptimizer(optimizer, rule), options_(std::move(options)) {
    etude::internal::check_options(optimizer, options_, where);
  }

  Options options_;

 private:
  void check() const final { etude::internal::check_options(this->optimizer(), options_, {}); }
};

}  // namespace internal
}  // namespace optim
}  // namespace etude
