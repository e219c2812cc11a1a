// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/internal/optimizer.h"

#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/call/run.h"
#include "etude/core/internal/call.h"
#include "etude/core/internal/traced.h"
#include "etude/kernels/cpu/optimizer/optimizer_rules.h"
#include "etude/kernels/cpu/optimizer/schedules.h"
#include "etude/optim/transform_run.h"

namespace etude::optim::internal {
namespace {

using etude::internal::located;

std::vector<std::string> state_names(std::string_view rule,
                                     const std::vector<std::string>& others) {
  std::vector<std::string> names;
  const bool is_known = optimizer::with_rule(rule, [&](auto r) {
    constexpr auto& own = optimizer::kNames<optimizer::State<decltype(r), double>>;
    names.assign(own.begin(), own.end());
  });
  ETUDE_CHECK(is_known, "there is no rule '{}'", rule);
  names.insert(names.end(), others.begin(), others.end());
  return names;
}

}  // namespace

RuleOptimizer::~RuleOptimizer() = default;
RuleOptimizer::RuleOptimizer(const RuleOptimizer&) = default;
RuleOptimizer& RuleOptimizer::operator=(const RuleOptimizer&) = default;

RuleOptimizer::RuleOptimizer(std::string_view optimizer, std::string_view rule,
                             const std::vector<std::string>& others)
    : optimizer_(optimizer),
      update_(fmt::format("{}::update", optimizer)),
      rule_(rule),
      slots_(state_names(rule, others)) {
  own_states_ = slots_.names().size();
}

void RuleOptimizer::add(std::vector<Transform> transforms, CallSite where) {
  located(optimizer_, where, [&] {
    for (Transform& transform : transforms) {
      add_transform(slots_, transform);
      extras_.transforms.push_back(std::move(transform));
    }
  });
}

void RuleOptimizer::add(Transform transform, CallSite where) {
  add(std::vector<Transform>{std::move(transform)}, where);
}

void RuleOptimizer::group(std::string pattern, GroupOptions options, CallSite where) {
  using etude::internal::check_range;
  if (options.lr && options.lr->fixed()) {
    check_range(optimizer_, "lr", *options.lr->fixed(), at_least(0), where);
  }
  if (options.weight_decay) {
    check_range(optimizer_, "weight_decay", *options.weight_decay, at_least(0), where);
    located(optimizer_, where, [&] {
      ETUDE_REQUIRE(this->option("weight_decay").has_value(),
                    "the group '{}' has a weight_decay, but this optimiser has none", pattern);
    });
  }
  if (!slots_.needs_paths()) {
    located(optimizer_, where, [&] { require_match(slots_, "the group", pattern); });
  }
  extras_.groups.push_back({std::move(pattern), std::move(options)});
}

void RuleOptimizer::restore(State state, CallSite where) {
  located(optimizer_, where, [&] { slots_.restore(std::move(state)); });
}

void RuleOptimizer::scale_rate(double factor, CallSite where) {
  etude::internal::check_range(optimizer_, "factor", factor, at_least(0), where);
  slots_.number(kRateScale) = Tensor(std::vector<double>{rate_scale() * factor}, Shape{});
}

double RuleOptimizer::rate_scale() const {
  const Tensor* scale = slots_.find_number(kRateScale);
  return scale == nullptr ? 1 : scale->item<double>();
}

Tensor RuleOptimizer::loss_scale() const {
  const Tensor* scale = slots_.find_number("loss_scale");
  return scale == nullptr ? Tensor() : *scale;
}

int64_t RuleOptimizer::waiting() const {
  const Tensor* calls = slots_.find_number("accumulated_calls");
  return calls == nullptr ? 0 : calls->item<int64_t>();
}

void RuleOptimizer::take_averages(const std::vector<Parameter>& parameters, std::string_view name,
                                  CallSite where) const {
  located(optimizer_, where, [&] {
    const std::vector<Tensor> averages = slots_.all_of(name);
    ETUDE_REQUIRE(parameters.size() == averages.size(),
                  "the model has {} tensors, but the state was made for {}", parameters.size(),
                  averages.size());
    for (std::size_t i = 0; i < averages.size(); ++i) {
      const Parameter& p = parameters[i];
      if (averages[i].has_value() && !p.is_frozen) *p.value = averages[i];
    }
  });
}

double RuleOptimizer::rate() const { return rate_of(rate_options(), updates() + 1); }

RateOptions RuleOptimizer::rate_options() const {
  RateOptions out{this->schedule(), this->option("decay").value_or(0), {}};
  const auto names = optimizer::rate_formula(rule_).options;
  out.others.reserve(names.size());
  for (const std::string_view name : names) {
    const std::optional<double> number = this->option(name);
    ETUDE_CHECK(number.has_value(), "{} has no option '{}'", optimizer_, name);
    out.others.push_back(*number);
  }
  return out;
}

double RuleOptimizer::rate_of(const RateOptions& options, int64_t t) const {
  const double rate = options.lr(t - 1) * rate_scale();
  etude::internal::check_range(optimizer_, "lr", rate, at_least(0), {});
  return optimizer::decayed(rate, options.decay, t);
}

Tensor RuleOptimizer::host_rates(const RateOptions& options) const {
  const optimizer::RateFormula formula = optimizer::rate_formula(rule_);
  const int64_t t = updates() + 1;
  std::vector<double> rates(optimizer::kRates);
  formula.write(options.others.data(), static_cast<double>(t), rate_of(options, t), rates.data());
  return Tensor(rates);
}

Values RuleOptimizer::traced_rates(const RateOptions& options, CallSite where) const {
  const optimizer::ScheduleTree schedule = options.lr.tree();
  ETUDE_REQUIRE(!optimizer::needs_host(schedule),
                "lr is a function of the host, which would run once, while the step is traced, and "
                "not at each update. Take a schedule of etude/optim/schedule.h, or do not stage "
                "the step");
  const Op& op = etude::internal::op<"rule_rates">();
  const Attrs attrs = op.attrs({rule_, options.others, optimizer::formulas_of(schedule),
                                optimizer::numbers_of(schedule), options.decay});
  OperandList list({&slots_.count()});
  if (const Tensor* scale = slots_.find_number(kRateScale)) list.add(*scale);
  return execute(op, list.view(), attrs, where);
}

std::vector<Tensor> RuleOptimizer::rates(Tensor& done, CallSite where) const {
  std::vector<Tensor> out;
  const auto add = [&](const RateOptions& options) {
    if (!slots_.is_traced()) {
      out.push_back(host_rates(options));
      return;
    }
    Values made = traced_rates(options, where);
    out.push_back(std::move(made[0]));
    done = std::move(made[1]);
  };
  const RateOptions options = rate_options();
  add(options);
  if (extras_.groups.empty()) return out;
  const auto names = optimizer::rate_formula(rule_).options;
  const auto decay = std::ranges::find(names, "weight_decay") - names.begin();
  for (const Group& group : extras_.groups) {
    std::vector<double> others = options.others;
    if (group.options.weight_decay) {
      others.at(static_cast<std::size_t>(decay)) = *group.options.weight_decay;
    }
    add({group.options.lr ? *group.options.lr : options.lr, options.decay, std::move(others)});
  }
  return out;
}

StateStart RuleOptimizer::start_of(std::string_view, const Tensor& value) const {
  return {value.type()};
}

// The rates that a parameter has, by its place in rates().
std::size_t RuleOptimizer::group_of(std::size_t parameter) const {
  for (std::size_t i = 0; i < extras_.groups.size(); ++i) {
    if (path_matches(extras_.groups[i].pattern, slots_.path(parameter))) return i + 1;
  }
  return 0;
}

void RuleOptimizer::require_groups() const {
  for (const Group& group : extras_.groups) require_match(slots_, "the group", group.pattern);
}

// throws: kFailedPrecondition for tensors of a trace: the numbers of this update, which are known
// now, would be fixed for all calls of the function.
static void require_untraced(const std::vector<Parameter>& parameters) {
  for (const Parameter& p : parameters) {
    const bool is_traced = etude::internal::trace_of(*p.value) != nullptr ||
                           etude::internal::trace_of(*p.gradient) != nullptr;
    ETUDE_REQUIRE_CODE(kFailedPrecondition, !is_traced,
                       "the optimiser is no argument of the function that is traced, so its count "
                       "of updates would stand still. Give the function a parameter for it, by "
                       "reference: [](Model& model, Optimizer& optimizer, ...)");
  }
}

// throws: kInvalidArgument for a part with a tangent of its own.
void RuleOptimizer::require_weights(const std::vector<Parameter>& parameters) const {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    ETUDE_REQUIRE(!parameters[i].is_tangent || parameters[i].is_frozen,
                  "parameter '{}' moves by its own rule (DifferentiableTraits), but this optimiser "
                  "makes weights anew at each step. Take another one, such as AdamW, or freeze it",
                  slots_.path(i));
  }
}

Attrs rule_attrs(std::string_view rule) {
  return etude::internal::op<"rule_update">().attrs({std::string(rule)});
}

void run_rule(const Attrs& rule, const Step& step) {
  OperandList list({&step.parameter, &step.gradient, &step.rates});
  for (const Tensor& state : step.states) list.add(state);
  constexpr uint64_t kParameterAndState = 0b111001;
  Values out = execute(etude::internal::op<"rule_update">(),
                       list.view(step.may_overwrite ? kParameterAndState : 0), rule, {});
  step.parameter = std::move(out[0]);
  for (std::size_t k = 1; k < out.size(); ++k) step.states[k - 1] = std::move(out[k]);
}

void RuleOptimizer::step_all(const std::vector<Parameter>& parameters,
                             const std::vector<Tensor>& rates, const Condition& due,
                             CallSite where) {
  const Attrs rule = rule_attrs(rule_);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [value, gradient, path, is_frozen, is_tangent] = parameters[i];
    if (!gradient->has_value()) continue;
    slots_.note_copies(i, *value, update_, where);
    const std::span<Tensor> states(slots_[i].data(), own_states_);
    const bool is_always = due.is_always();
    Tensor before;
    std::vector<Tensor> states_before;
    if (!is_always) {
      before = *value;
      states_before.assign(states.begin(), states.end());
    }
    this->run_step(
        {*value, *gradient, rates[rates.size() > 1 ? group_of(i) : 0], rule, states, is_always});
    if (is_always) continue;
    *value = due.pick(*value, before);
    for (std::size_t k = 0; k < states.size(); ++k) {
      if (states[k].has_value()) states[k] = due.pick(states[k], states_before[k]);
    }
  }
}

// Moves the parts with tangents of their own, if a gradient arrived and the update is due.
static void move_parts(const Parameters& all, const Condition& due) {
  for (const MovedPart& part : all.moved) {
    const auto begin = all.all.begin() + static_cast<std::ptrdiff_t>(part.first);
    if (std::none_of(begin, begin + static_cast<std::ptrdiff_t>(part.count),
                     [](const Parameter& p) { return p.gradient->has_value(); })) {
      continue;
    }
    std::vector<Tensor> before;
    for (const Tensor* tensor : part.tensors) before.push_back(*tensor);
    if (due.is_always()) before.clear();
    part.move();
    for (std::size_t i = 0; i < before.size(); ++i) {
      *part.tensors[i] = due.pick(*part.tensors[i], before[i]);
    }
  }
}

void RuleOptimizer::update_all(Parameters all, CallSite where) {
  located(update_, where, [&] {
    std::vector<Parameter>& parameters = all.all;
    this->check();
    const bool is_traced = slots_.is_traced(), is_new = slots_.needs_paths();
    if (!is_traced) require_untraced(parameters);
    Tensor done;
    const std::vector<Tensor> rates = this->rates(done, where);
    slots_.pair(parameters);
    if (is_new) require_groups();
    leave_frozen(extras_, slots_, parameters);
    if (!this->has_increments()) require_weights(parameters);
    slots_.begin_update(parameters, [&](std::size_t k, const Tensor& value) {
      const std::string& name = slots_.names()[k];
      return k < own_states_ ? this->start_of(name, value) : transform_start(extras_, name, value);
    });
    std::vector<Tensor> changed;
    TransformRun run{slots_, parameters, changed};
    if (!extras_.transforms.empty()) {
      for (Parameter& p : parameters) changed.push_back(*p.gradient);
      run_before(extras_, run);
      for (std::size_t i = 0; i < changed.size(); ++i) parameters[i].gradient = &changed[i];
      if (run.due.is_never()) return;
    }
    if (is_traced) {
      slots_.set_count(run.due.pick(done, slots_.count()));
    } else {
      slots_.count_update();
    }
    step_all(parameters, rates, run.due, where);
    move_parts(all, run.due);
    run_after(extras_, run);
  });
}

}  // namespace etude::optim::internal
