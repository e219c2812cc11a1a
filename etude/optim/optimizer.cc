// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/optimizer.h"

#include "etude/base/check.h"
#include "etude/core/builtin.h"
#include "etude/core/call.h"
#include "etude/core/call_scope.h"
#include "etude/core/copies.h"
#include "etude/core/run.h"
#include "etude/core/traced.h"
#include "etude/kernels/cpu/optimizer_rates.h"
#include "etude/kernels/cpu/optimizer_steps.h"
#include "etude/kernels/cpu/schedules.h"

namespace etude::optim::internal {
namespace {

using etude::internal::located;

constexpr const char* kUpdates = "updates";

// A path for messages when updates after the first no longer carry paths.
std::string name_of(const std::string& path, std::size_t index) {
  return path.empty() ? fmt::format("number {}", index) : "'" + path + "'";
}

Tensor count_of(std::int64_t updates) {
  return Tensor(std::vector<std::int64_t>{updates}, Shape{});
}

std::vector<std::string> state_names(std::string_view rule) {
  std::vector<std::string> names;
  const bool is_known =
      optimizer::with_rule(rule, [&](auto r) { names.assign(r.kState.begin(), r.kState.end()); });
  ETUDE_CHECK(is_known, "there is no rule '{}'", rule);
  return names;
}

}  // namespace

void throw_unpaired(std::size_t parameters, std::size_t gradients) {
  ETUDE_THROW(kInvalidArgument,
              "the model has {} tensors, but the gradients have {}. Pass what gradient() gave for "
              "this model",
              parameters, gradients);
}

Slots::Slots(const Slots&) = default;
Slots::Slots(Slots&&) noexcept = default;
Slots& Slots::operator=(const Slots&) = default;
Slots& Slots::operator=(Slots&&) noexcept = default;
Slots::~Slots() = default;

Slots::Slots(std::vector<std::string> names) : names_(std::move(names)), count_(count_of(0)) {}

std::int64_t Slots::updates() const {
  const void* data = is_traced() ? nullptr : TensorAccess::data(count_);
  return data != nullptr ? *static_cast<const std::int64_t*>(data) : count_.item<std::int64_t>();
}

void Slots::count_update() {
  const std::int64_t updates = this->updates();
  if (TensorAccess::is_unique(count_)) {
    *static_cast<std::int64_t*>(TensorAccess::writable(count_)) = updates + 1;
  } else {
    count_ = count_of(updates + 1);
  }
}

void Slots::begin_update(const std::vector<Parameter>& parameters) {
  if (slots_.empty()) make_slots(parameters);
  ETUDE_REQUIRE(slots_.size() == parameters.size(),
                "the model has {} tensors, but the optimiser's state was made for {}. Make a new "
                "optimiser for another model",
                parameters.size(), slots_.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [value, gradient, path] = parameters[i];
    const std::string& known = slots_[i].path;
    if (!gradient->has_value()) continue;
    ETUDE_REQUIRE(value->has_value(), "parameter {} is absent, but has a gradient",
                  name_of(known, i));
    ETUDE_REQUIRE(gradient->type() == value->type(), "parameter {} is {}, but its gradient is {}",
                  name_of(known, i), value->type()->to_string(), gradient->type()->to_string());
    for (std::size_t k = 0; k < names_.size(); ++k) {
      Tensor& state = slots_[i].tensors[k];
      if (!state.has_value()) state = etude::internal::full(value->type(), 0.0);
      ETUDE_REQUIRE(state.type() == value->type(), "parameter {} is {}, but its {} is {}",
                    name_of(known, i), value->type()->to_string(), names_[k],
                    state.type()->to_string());
    }
  }
}

void Slots::note_copies(std::size_t i, const Tensor& value, std::string_view by,
                        CallSite where) const {
  using etude::internal::note_copy;
  const Slot& slot = slots_[i];
  if (!TensorAccess::is_unique(value)) note_copy(value, by, where, slot.path);
  for (std::size_t k = 0; k < names_.size(); ++k) {
    const Tensor& state = slot.tensors[k];
    if (!TensorAccess::is_unique(state)) note_copy(state, by, where, names_[k] + "/" + slot.path);
  }
}

void Slots::make_slots(const std::vector<Parameter>& parameters) {
  State pending = pending_;
  std::vector<Slot> slots;
  for (const Parameter& parameter : parameters) {
    Slot& slot = slots.emplace_back();
    slot.path = parameter.path;
    for (std::size_t k = 0; k < names_.size(); ++k) {
      const auto found = pending.find(names_[k] + "/" + parameter.path);
      if (found == pending.end()) continue;
      slot.tensors[k] = std::move(found->second);
      pending.erase(found);
    }
  }
  ETUDE_REQUIRE(pending.empty(),
                "the restored state has '{}', but the model has no tensor of that path",
                pending.begin()->first);
  pending_.clear();
  slots_ = std::move(slots);
}

State Slots::state() const {
  State out = pending_;
  out[kUpdates] = Tensor(updates());
  for (const Slot& slot : slots_) {
    for (std::size_t k = 0; k < names_.size(); ++k) {
      if (slot.tensors[k].has_value()) out[names_[k] + "/" + slot.path] = slot.tensors[k];
    }
  }
  return out;
}

void Slots::restore(State state) {
  const auto updates = state.find(kUpdates);
  ETUDE_REQUIRE(updates != state.end(), "the state has no entry '{}'", kUpdates);
  const auto count = updates->second.item<std::int64_t>();
  state.erase(updates);
  for (const auto& [name, tensor] : state) {
    bool is_known = false;
    for (const std::string& prefix : names_) is_known = is_known || name.starts_with(prefix + "/");
    ETUDE_REQUIRE(is_known, "the state has '{}', but this optimiser keeps only {}", name,
                  fmt::join(names_, ", "));
  }
  count_ = count_of(count);
  slots_.clear();
  pending_ = std::move(state);
}

RuleOptimizer::~RuleOptimizer() = default;
RuleOptimizer::RuleOptimizer(const RuleOptimizer&) = default;
RuleOptimizer& RuleOptimizer::operator=(const RuleOptimizer&) = default;

RuleOptimizer::RuleOptimizer(std::string_view optimizer, std::string_view rule)
    : optimizer_(optimizer),
      update_(fmt::format("{}::update", optimizer)),
      rule_(rule),
      slots_(state_names(rule)) {}

void RuleOptimizer::restore(State state, CallSite where) {
  located(optimizer_, where, [&] { slots_.restore(std::move(state)); });
}

double RuleOptimizer::rate_of(const Schedule& lr, double decay, std::int64_t t) const {
  const double rate = lr(t - 1);
  etude::internal::check_range(optimizer_, "lr", rate, at_least(0), {});
  return optimizer::decayed(rate, decay, t);
}

Tensor RuleOptimizer::host_rates() const {
  const RateOptions options = this->rate_options();
  const optimizer::RateFormula formula = optimizer::rate_formula(rule_);
  ETUDE_CHECK(options.others.size() == formula.options, "the rule '{}' has {} options", rule_,
              formula.options);
  const std::int64_t t = updates() + 1;
  std::vector<double> rates(optimizer::kRates);
  formula.write(options.others.data(), static_cast<double>(t),
                rate_of(options.lr, options.decay, t), rates.data());
  return Tensor(rates);
}

Values RuleOptimizer::traced_rates(CallSite where) const {
  const RateOptions options = this->rate_options();
  const optimizer::ScheduleTree schedule = options.lr.tree();
  ETUDE_REQUIRE(!optimizer::needs_host(schedule),
                "lr is a function of the host, which would run once, while the step is traced, and "
                "not at each update. Take a schedule of etude/optim/schedule.h, or do not stage "
                "the step");
  const Op& op = etude::internal::op<"rule_rates">();
  const Attrs attrs = op.attrs({rule_, options.others, optimizer::formulas_of(schedule),
                                optimizer::numbers_of(schedule), options.decay});
  return execute(op, OperandList({&slots_.count()}).view(), attrs, where);
}

// throws: kFailedPrecondition for tensors of a trace: the numbers of this update, which are known
// now, would be those of all calls of the function.
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

void RuleOptimizer::update_all(const std::vector<Parameter>& parameters, CallSite where) {
  const Op& op = etude::internal::op<"rule_update">();
  located(update_, where, [&] {
    this->check();
    const bool is_traced = slots_.is_traced();
    if (!is_traced) require_untraced(parameters);
    Values made = is_traced ? traced_rates(where) : Values{host_rates()};
    const Tensor rates = std::move(made[0]);
    slots_.begin_update(parameters);
    if (is_traced) {
      slots_.set_count(std::move(made[1]));
    } else {
      slots_.count_update();
    }
    const Attrs attrs = op.attrs({rule_});
    constexpr std::uint64_t kParameterAndState = 0b111001;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& [value, gradient, path] = parameters[i];
      if (!gradient->has_value()) continue;
      slots_.note_copies(i, *value, update_, where);
      OperandList list({value, gradient, &rates});
      for (std::size_t k = 0; k < slots_.names().size(); ++k) list.add(slots_[i][k]);
      Values out = execute(op, list.view(kParameterAndState), attrs, where);
      *value = std::move(out[0]);
      for (std::size_t k = 1; k < out.size(); ++k) slots_[i][k - 1] = std::move(out[k]);
    }
  });
}

}  // namespace etude::optim::internal
