// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/transforms.h"

#include <algorithm>
#include <array>

#include "etude/base/check.h"
#include "etude/base/permanent.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/call/run.h"
#include "etude/core/dtype_functions.h"
#include "etude/kernels/cpu/optimizer/transform_rules.h"
#include "etude/ops.h"
#include "etude/ops/random.h"
#include "etude/optim/internal/optimizer.h"
#include "etude/optim/transform_run.h"

namespace etude::optim {

bool Transform::operator==(const Transform& other) const = default;
bool GroupOptions::operator==(const GroupOptions& other) const = default;

namespace internal {

bool Group::operator==(const Group& other) const = default;
bool Extras::operator==(const Extras& other) const = default;
Extras::Extras() = default;
Extras::Extras(const Extras& other) = default;
Extras::Extras(Extras&& other) noexcept = default;
Extras& Extras::operator=(const Extras& other) = default;
Extras& Extras::operator=(Extras&& other) noexcept = default;
Extras::~Extras() = default;

using etude::internal::cast;

Condition Condition::operator&&(const Condition& other) const {
  if (is_never() || other.is_always()) return *this;
  if (is_always() || other.is_never()) return other;
  return Condition(logical_and(value_, other.value_));
}

Tensor Condition::pick(const Tensor& a, const Tensor& b) const {
  if (known_) return *known_ ? a : b;
  return where(value_, a, b);
}

Tensor& TransformRun::state(const char* name, std::size_t i) const {
  const auto& names = slots.names();
  const auto k = std::find(names.begin(), names.end(), name) - names.begin();
  return slots[i][static_cast<std::size_t>(k)];
}

Tensor TransformRun::count() const {
  return is_traced() ? next_count : Tensor(std::vector<int64_t>{slots.updates() + 1}, Shape{});
}

Condition TransformRun::has_remainder(const Tensor& x, int64_t divisor, int64_t remainder) const {
  if (is_traced()) return Condition(etude::remainder(x, divisor) == remainder);
  return Condition(x.item<int64_t>() % divisor == remainder);
}

namespace {

// Calls fn(i, gradient) for each gradient that is not absent.
template <class Fn>
void each_gradient(TransformRun& run, const Fn& fn) {
  for (std::size_t i = 0; i < run.gradients.size(); ++i) {
    if (run.gradients[i].has_value()) fn(i, run.gradients[i]);
  }
}

Tensor int64_scalar(int64_t value) { return Tensor(std::vector<int64_t>{value}, Shape{}); }
Tensor float64_scalar(double value) { return Tensor(std::vector<double>{value}, Shape{}); }

// The sum of squares of tensors divided by the square of their scale, float64.
struct ScaledSquares {
  Tensor squares, scale;
};
ScaledSquares scaled_squares(std::span<const Tensor> xs) {
  const Values both =
      etude::internal::run_all(etude::internal::op<"scaled_squares">(), OperandList(xs));
  return {both[0], both[1]};
}

// x times min(1, most / length); x itself if the length does not exceed `most`. The scale may be
// the scale of tensors of another dtype, but the divisor of x must be a number of the dtype of x.
Tensor shortened(const Tensor& x, const ScaledSquares& length, double most) {
  const FInfo info = finfo(real_dtype(x.dtype()));
  const Tensor own = clip(length.scale, {.min = info.smallest_normal, .max = info.max / 4});
  const Tensor factor =
      most / maximum(sqrt(length.squares), most / length.scale) * (own / length.scale);
  return x / cast(own, x.dtype()) * cast(factor, x.dtype());
}

void run_clip_by_value(TransformRun& run, const Transform& self) {
  const double limit = self.number(0);
  each_gradient(run, [&](std::size_t, Tensor& g) { g = minimum(maximum(g, -limit), limit); });
}

void run_clip_by_norm(TransformRun& run, const Transform& self) {
  each_gradient(run, [&](std::size_t, Tensor& g) {
    g = shortened(g, scaled_squares({&g, 1}), self.number(0));
  });
}

void run_clip_by_global_norm(TransformRun& run, const Transform& self) {
  std::vector<Tensor> all;
  each_gradient(run, [&](std::size_t, const Tensor& g) { all.push_back(g); });
  if (all.empty()) return;
  const ScaledSquares length = scaled_squares(all);
  each_gradient(run, [&](std::size_t, Tensor& g) { g = shortened(g, length, self.number(0)); });
}

void run_centralize(TransformRun& run, const Transform&) {
  each_gradient(run, [&](std::size_t, Tensor& g) {
    if (g.rank() < 2) return;
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis + 1 < g.rank(); ++axis) axes.push_back(axis);
    g = g - mean(g, {.axis = axes, .keepdims = true});
  });
}

void run_add_noise(TransformRun& run, const Transform& self) {
  const Tensor t = cast(run.slots.count(), kFloat64);
  const Tensor deviation = sqrt(self.number(0) * pow(1.0 + t, -self.number(1)));
  each_gradient(run, [&](std::size_t, Tensor& g) {
    const Tensor noise = random::normal(g.shape().to_vector(), {.dtype = g.dtype()});
    g = g + cast(deviation, g.dtype()) * noise;
  });
}

// Adds a step of a rule of transform_rules.h on the state `kept` if the condition holds. Returns
// the number of the change.
template <class Rule>
std::size_t step_state(TransformRun& run, Tensor& kept, const Tensor& with, const Tensor& rates,
                       const Condition& due) {
  static const etude::internal::Permanent<Attrs> rule(rule_attrs(Rule::kName));
  const std::size_t change =
      run.changes.step(kept, {*rule, kept, with, rates, {}, due.is_always()});
  if (!due.is_always()) run.changes.pick(change, due);
  return change;
}

constexpr const char* kCalls = "accumulated_calls";  // since the last update

void run_accumulate(TransformRun& run, const Transform& self) {
  const double n = self.number(0);
  Tensor& calls = run.slots.number(kCalls);
  const auto period = static_cast<int64_t>(n);
  const Condition due = run.has_remainder(calls, period, period - 1);
  const Tensor& rates = run.changes.keep(rates_of({n}));
  each_gradient(run, [&](std::size_t i, Tensor& g) {
    Tensor& kept = run.state("accumulated", i);
    if (due.is_never()) {
      step_state<optimizer::Accumulate>(run, kept, g, rates, Condition(true));
      return;
    }
    g = kept + g / n;
    if (due.is_always()) {
      step_state<optimizer::Restart>(run, kept, g, rates, due);
    } else {
      run.changes.set(kept, due.pick(zeros_like(g), g));
    }
  });
  run.changes.set(calls,
                  due.pick(int64_scalar(0),
                           run.is_traced() ? calls + 1 : int64_scalar(calls.item<int64_t>() + 1)));
  run.due = run.due && due;
}

constexpr const char* kLossScale = "loss_scale";
constexpr const char* kFiniteCalls = "finite_calls";

// An overflow multiplies the scale by backoff, `every` updates without one by growth.
void run_loss_scaling(TransformRun& run, const Transform& self) {
  const double growth = self.number(1), backoff = self.number(2);
  const auto every = static_cast<int64_t>(self.number(3));
  Tensor& scale = run.slots.number(kLossScale);
  Tensor& calls = run.slots.number(kFiniteCalls);
  Tensor finite;
  each_gradient(run, [&](std::size_t, Tensor& g) {
    g = g / cast(scale, g.dtype());
    const Tensor here = all(isfinite(g));
    finite = finite.has_value() ? logical_and(finite, here) : here;
  });
  if (!finite.has_value()) return;
  const Condition goes_on = run.is_traced() ? Condition(finite) : Condition(finite.item<bool>());
  const Condition grows = run.has_remainder(calls, every, every - 1);
  const Tensor larger = grows.pick(scale * growth, scale);
  run.changes.set(scale, goes_on.pick(larger, scale * backoff));
  run.changes.set(calls, goes_on.pick(calls + 1, int64_scalar(0)));
  run.due = run.due && goes_on;
}

void run_ema(TransformRun& run, const Transform& self) {
  const double decay = self.number(0);
  const Tensor& rates = run.changes.keep(rates_of({decay, 1 - decay}));
  each_gradient(run, [&](std::size_t i, const Tensor&) {
    step_state<optimizer::Ema>(run, run.state("ema", i), run.value(i), rates, run.due);
  });
}

// Of updates start, start + every, ... the mean, by its n-th step to the weights.
void run_swa(TransformRun& run, const Transform& self) {
  const auto start = static_cast<int64_t>(self.number(0));
  const auto every = static_cast<int64_t>(self.number(1));
  const bool is_traced = run.is_traced();
  const Tensor since = run.count() - start;
  const Condition begins =
      is_traced ? Condition(since >= 0) : Condition(since.item<int64_t>() >= 0);
  const Condition counts = run.due && begins && run.has_remainder(since, every, 0);
  if (counts.is_never()) return;
  const Tensor n = cast(since, kFloat64) / static_cast<double>(every) + 1.0;
  const Tensor& rates = run.changes.keep(rates_of({1}) * n);
  each_gradient(run, [&](std::size_t i, const Tensor&) {
    step_state<optimizer::Swa>(run, run.state("swa", i), run.value(i), rates, counts);
  });
}

void run_lookahead(TransformRun& run, const Transform& self) {
  const Condition syncs =
      run.due && run.has_remainder(run.count(), static_cast<int64_t>(self.number(0)), 0);
  if (syncs.is_never()) return;
  const Tensor& rates = run.changes.keep(rates_of({self.number(1)}));
  each_gradient(run, [&](std::size_t i, const Tensor&) {
    const std::size_t slow =
        step_state<optimizer::Lookahead>(run, run.state("slow", i), run.value(i), rates, syncs);
    Tensor& w = *run.parameters[i].value;
    run.places[i] = syncs.is_always()
                        ? run.changes.set_to(w, slow)
                        : run.changes.set(w, syncs.pick(run.changes.value(slow), run.value(i)));
  });
}

// A kind of Transform: its state per parameter, and its functions before and after the rules.
struct TransformKind {
  using Run = void (*)(TransformRun&, const Transform&);
  std::string_view name;
  Run before = nullptr;
  Run after = nullptr;
  const char* state = nullptr;
  bool starts_as_parameter = false;
};
constexpr std::array kKinds = {
    TransformKind{"clip_by_value", run_clip_by_value},
    TransformKind{"clip_by_norm", run_clip_by_norm},
    TransformKind{"clip_by_global_norm", run_clip_by_global_norm},
    TransformKind{"centralize", run_centralize},
    TransformKind{"add_noise", run_add_noise},
    TransformKind{"accumulate", run_accumulate, nullptr, "accumulated"},
    TransformKind{"loss_scaling", run_loss_scaling},
    TransformKind{"freeze"},
    TransformKind{"ema", nullptr, run_ema, "ema", true},
    TransformKind{"swa", nullptr, run_swa, "swa", true},
    TransformKind{"lookahead", nullptr, run_lookahead, "slow", true},
};

const TransformKind& kind_of(const Transform& transform) {
  const auto* found = std::find_if(kKinds.begin(), kKinds.end(), [&](const TransformKind& kind) {
    return kind.name == transform.name();
  });
  ETUDE_REQUIRE(found != kKinds.end(), "there is no transform '{}'", transform.name());
  return *found;
}

}  // namespace

StateStart transform_start(const Extras& extras, const std::string& name, const Tensor& value) {
  for (const Transform& transform : extras.transforms) {
    const TransformKind& kind = kind_of(transform);
    if (kind.state != nullptr && kind.state == name) {
      return {value.type(), 0, kind.starts_as_parameter};
    }
  }
  return {};
}

void add_transform(Slots& slots, const Transform& transform) {
  const TransformKind& kind = kind_of(transform);
  if (kind.state != nullptr) slots.add_name(kind.state);
  if (kind.before == run_accumulate) slots.number(kCalls) = int64_scalar(0);
  if (kind.before == run_loss_scaling) {
    ETUDE_REQUIRE(slots.find_number(kLossScale) == nullptr,
                  "the optimiser has a loss scale already. Add this transform once");
    slots.number(kLossScale) = float64_scalar(transform.number(0));
    slots.number(kFiniteCalls) = int64_scalar(0);
  }
}

void require_match(std::size_t count, PathOf path, std::string_view what,
                   const std::string& pattern) {
  std::string paths;
  for (std::size_t i = 0; i < count; ++i) {
    if (path_matches(pattern, path(i))) return;
    paths += (i == 0 ? "'" : ", '") + path(i) + "'";
  }
  ETUDE_THROW(kInvalidArgument, "{} '{}' means no tensor of the model, which has {}", what, pattern,
              paths);
}

void require_match(const Slots& slots, std::string_view what, const std::string& pattern) {
  const auto path = [&](std::size_t i) -> const std::string& { return slots.path(i); };
  require_match(slots.size(), path, what, pattern);
}

void leave_frozen(const Extras& extras, Slots& slots, std::vector<Parameter>& parameters) {
  static const etude::internal::Permanent<Tensor> absent;
  for (const Transform& transform : extras.transforms) {
    if (transform.name() != "freeze") continue;
    require_match(slots, "freeze: the pattern", transform.pattern());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (path_matches(transform.pattern(), slots.path(i))) parameters[i].is_frozen = true;
    }
  }
  for (Parameter& parameter : parameters) {
    if (parameter.is_frozen) parameter.gradient = &*absent;
  }
}

void run_before(const Extras& extras, TransformRun& run) {
  for (const Transform& transform : extras.transforms) {
    if (const auto before = kind_of(transform).before) before(run, transform);
  }
}
void run_after(const Extras& extras, TransformRun& run) {
  for (const Transform& transform : extras.transforms) {
    if (const auto after = kind_of(transform).after) after(run, transform);
  }
}

}  // namespace internal

namespace {

// A transform of numbers that each lie in their range.
struct Checked {
  const char* name;
  double value;
  Range range;
};
Transform checked(std::string_view transform, std::initializer_list<Checked> numbers,
                  CallSite where) {
  std::vector<double> values;
  for (const auto& [name, value, range] : numbers) {
    etude::internal::check_range(transform, name, value, range, where);
    values.push_back(value);
  }
  return {transform, std::move(values)};
}

double number(int64_t n) { return static_cast<double>(n); }

}  // namespace

Transform clip_by_value(double limit, CallSite where) {
  return checked("clip_by_value", {{"limit", limit, above(0)}}, where);
}
Transform clip_by_norm(double norm, CallSite where) {
  return checked("clip_by_norm", {{"norm", norm, above(0)}}, where);
}
Transform clip_by_global_norm(double norm, CallSite where) {
  return checked("clip_by_global_norm", {{"norm", norm, above(0)}}, where);
}
Transform centralize() { return {"centralize", {}}; }
Transform add_noise(double eta, double gamma, CallSite where) {
  return checked("add_noise", {{"eta", eta, at_least(0)}, {"gamma", gamma, at_least(0)}}, where);
}
Transform accumulate(int64_t n, CallSite where) {
  return checked("accumulate", {{"n", number(n), at_least(1)}}, where);
}
Transform loss_scaling(const LossScalingOptions& options, CallSite where) {
  etude::internal::check_options("loss_scaling", options, where);
  return {"loss_scaling",
          {options.initial, options.growth, options.backoff, number(options.every)}};
}
Transform freeze(std::string pattern) { return {"freeze", {}, std::move(pattern)}; }
Transform ema(double decay, CallSite where) {
  return checked("ema", {{"decay", decay, within(0, 1)}}, where);
}
Transform swa(int64_t start, int64_t every, CallSite where) {
  return checked(
      "swa", {{"start", number(start), at_least(1)}, {"every", number(every), at_least(1)}}, where);
}
Transform lookahead(int64_t k, double alpha, CallSite where) {
  return checked("lookahead", {{"k", number(k), at_least(1)}, {"alpha", alpha, within(0, 1)}},
                 where);
}

bool path_matches(std::string_view pattern, std::string_view path) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) {
    return path.starts_with(pattern) &&
           (pattern.empty() || path.size() == pattern.size() || path[pattern.size()] == '/');
  }
  if (!path.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  if (rest.empty()) return true;
  const bool ends = rest.find('*') == std::string_view::npos;
  for (std::size_t at = star; at <= path.size(); ++at) {
    const std::string_view tail = path.substr(at);
    if (ends ? tail == rest : path_matches(rest, tail)) return true;
  }
  return false;
}

}  // namespace etude::optim
