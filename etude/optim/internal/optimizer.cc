// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/internal/optimizer.h"

#include <algorithm>
#include <new>
#include <utility>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/call/run.h"
#include "etude/core/context/ambient.h"
#include "etude/core/internal/call.h"
#include "etude/core/internal/traced.h"
#include "etude/kernels/cpu/optimizer/optimizer_rules.h"
#include "etude/kernels/cpu/optimizer/schedules.h"
#include "etude/optim/internal/changes.h"
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

std::function<void()> RuleOptimizer::prepare_restore(State state, CallSite where) {
  return located(optimizer_, where, [&]() -> std::function<void()> {
    return
        [this, slots = slots_.restored(std::move(state))]() mutable { std::swap(slots_, slots); };
  });
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

// The averages by parameter. Restored ones have paths until the next update.
static std::vector<Tensor> averages_of(const Slots& slots, const std::vector<Parameter>& parameters,
                                       std::string_view name) {
  const bool is_restored = slots.needs_paths() && (slots.is_traced() || slots.updates() > 0);
  if (!is_restored) return slots.all_of(name);
  Slots paired = slots;
  paired.pair(parameters);
  std::vector<Tensor> out = paired.all_of(name);
  ETUDE_REQUIRE(std::ranges::any_of(out, [](const Tensor& x) { return x.has_value(); }),
                "the restored state has no '{}'. It is made by the next update", name);
  return out;
}

void RuleOptimizer::take_averages(const std::vector<Parameter>& parameters, std::string_view name,
                                  CallSite where) const {
  located(optimizer_, where, [&] {
    const std::vector<Tensor> averages = averages_of(slots_, parameters, name);
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

void RuleOptimizer::require_groups(const std::vector<Parameter>& parameters) const {
  const auto path = [&](std::size_t i) -> const std::string& { return parameters[i].path; };
  for (const Group& group : extras_.groups) {
    require_match(parameters.size(), path, "the group", group.pattern);
  }
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

void step_by_rule(const Step& step, const Tensor& rates) {
  step.changes.step(step.parameter, {step.rule, step.parameter, step.gradient, rates, step.states,
                                     step.may_overwrite});
}

// The common inputs of the steps of an update.
struct StepInputs {
  const std::vector<Tensor>& rates;  // by group
  Attrs rule;
  CallSite where;
};

std::size_t RuleOptimizer::add_step(std::size_t i, const TransformRun& run, Changes& changes,
                                    const StepInputs& inputs) {
  const Parameter& p = run.parameters[i];
  slots_.note_copies(i, *p.value, update_, inputs.where);
  const Tensor& rates = inputs.rates[inputs.rates.size() > 1 ? group_of(i) : 0];
  const std::span<Tensor> states(slots_[i].data(), own_states_);
  const bool is_always = run.due.is_always();
  const std::size_t first = changes.size();
  this->run_step(
      {*p.value, *p.gradient, rates, inputs.rule, states, is_always && !p.is_tangent, changes});
  if (!is_always) changes.pick(first, run.due);
  return first;
}

// A tangent is no part of the model. Its step is made now, since its part then moves along it.
void RuleOptimizer::step_tangent(std::size_t i, TransformRun& run, const StepInputs& inputs) {
  Tensor& along = *run.parameters[i].value;
  Changes own;
  add_step(i, run, own, inputs);
  own.run();
  for (std::size_t c = 0; c < own.size(); ++c) {
    if (&own.target(c) == &along) continue;
    run.changes.set(own.target(c), own.value(c));
  }
  along = own.value(own.last_of(along));
}

// A step that makes tensors of the size of its parameter is made by itself, so that they exist for
// one parameter at a time. All other steps are prepared before it.
void RuleOptimizer::step_all(TransformRun& run, const StepInputs& inputs) {
  const bool has_transforms = !extras_.transforms.empty();
  if (has_transforms) run.places.assign(run.parameters.size(), TransformRun::kNone);
  run.changes.reserve(run.parameters.size());
  const bool runs_now = ContextStack::is_on_eager() && !run.is_traced();
  std::vector<std::size_t> large;
  for (std::size_t i = 0; i < run.parameters.size(); ++i) {
    const Parameter& p = run.parameters[i];
    if (!p.gradient->has_value()) continue;
    const bool is_small = this->is_small_step(*p.value) && !TensorAccess::is_sparse(*p.gradient);
    if (p.is_tangent) {
      step_tangent(i, run, inputs);
    } else if (runs_now && !is_small) {
      large.push_back(i);
    } else {
      add_step(i, run, run.changes, inputs);
      if (has_transforms) run.places[i] = run.changes.last_of(*p.value);
    }
  }
  run.moved.reserve(large.size());
  for (const std::size_t i : large) {
    Changes own;
    add_step(i, run, own, inputs);
    own.make();
    run.moved.push_back(i);
  }
}

// Moves the parts with tangents of their own, if a gradient arrived and the update is due.
static void move_parts(const Parameters& all, TransformRun& run) {
  for (const MovedPart& part : all.moved) {
    const auto begin = all.all.begin() + static_cast<std::ptrdiff_t>(part.first);
    if (std::none_of(begin, begin + static_cast<std::ptrdiff_t>(part.count),
                     [](const Parameter& p) { return p.gradient->has_value(); })) {
      continue;
    }
    std::vector<Tensor> other;
    for (const Tensor* tensor : part.tensors) other.push_back(*tensor);
    const auto exchange = [&]() noexcept {
      for (std::size_t i = 0; i < other.size(); ++i) std::swap(*part.tensors[i], other[i]);
    };
    try {
      part.move();
    } catch (...) {
      exchange();
      throw;
    }
    exchange();
    for (std::size_t i = 0; i < other.size(); ++i) {
      run.changes.set(*part.tensors[i], run.due.pick(other[i], *part.tensors[i]));
    }
  }
}

// Makes the count the only owner of its memory, so that count_update() allocates nothing.
static void own_count(Slots& slots) {
  if (TensorAccess::is_unique(slots.count()) && slots.count().device().is_home()) return;
  slots.set_count(Tensor(std::vector<int64_t>{slots.updates()}, Shape{}));
}

void RuleOptimizer::compute(Parameters& all, TransformRun& run, std::vector<Tensor*>& started,
                            CallSite where) {
  std::vector<Parameter>& parameters = all.all;
  this->check();
  const bool is_traced = slots_.is_traced();
  if (!is_traced) require_untraced(parameters);
  Tensor done;
  const std::vector<Tensor>& rates = run.rates = this->rates(done, where);
  if (slots_.needs_paths()) require_groups(parameters);  // an update that fails pairs nothing
  slots_.pair(parameters);
  leave_frozen(extras_, slots_, parameters);
  if (!this->has_increments()) require_weights(parameters);
  const auto start = [&](std::size_t k, const Tensor& value) {
    const std::string& name = slots_.names()[k];
    return k < own_states_ ? this->start_of(name, value) : transform_start(extras_, name, value);
  };
  slots_.begin_update(parameters, start, started);
  if (!extras_.transforms.empty()) {
    for (Parameter& p : parameters) run.gradients.push_back(*p.gradient);
    run_before(extras_, run);
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].gradient = &run.gradients[i];
    if (run.due.is_never()) return;
  }
  if (is_traced) {
    run.next_count = run.due.pick(done, slots_.count());
  } else {
    own_count(slots_);
  }
  step_all(run, {rates, rule_attrs(rule_), where});
  move_parts(all, run);
  run_after(extras_, run);
}

// The error of an update some of whose parameters have moved.
static Error incomplete(const TransformRun& run, ErrorCode code, std::string_view text) {
  return Error(code, fmt::format("{}. {} of {} parameters have moved, the last of them '{}', but "
                                 "the update is not complete. Restore model and optimiser from "
                                 "copies or from a checkpoint",
                                 text, run.moved.size(), run.parameters.size(),
                                 run.slots.path(run.moved.back())));
}

// Throws the exception that is handled as such an error.
[[noreturn]] static void throw_incomplete(const TransformRun& run) {
  try {
    throw;
  } catch (const Error& error) {
    throw incomplete(run, error.code(), error.text());
  } catch (const std::bad_alloc&) {
    throw incomplete(run, ErrorCode::kResourceExhausted,
                     "the host has no memory left for this call");
  }
}

void RuleOptimizer::update_all(Parameters all, CallSite where) {
  located(update_, where, [&] {
    const Generator generator = ambient().generator;
    std::vector<Tensor*> started;
    TransformRun run{slots_, all.all};
    try {
      compute(all, run, started, where);
    } catch (...) {
      ambient().generator = generator;
      if (!run.moved.empty()) throw_incomplete(run);
      for (Tensor* state : started) *state = Tensor();
      throw;
    }
    run.changes.make();
    if (run.due.is_never()) return;
    if (slots_.is_traced()) {
      slots_.set_count(std::move(run.next_count));
    } else {
      slots_.count_update();
    }
  });
}

}  // namespace etude::optim::internal
