// SPDX-License-Identifier: Apache-2.0
// Optimiser updates as ops without public functions: what etude/optim calls for each parameter.
// Compositions with a kernel, so that they can be traced and differentiated like anything else.
#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/run.h"
#include "etude/core/context/placement.h"
#include "etude/kernels/cpu/optimizer/optimizer.h"
#include "etude/kernels/cpu/optimizer/optimizer_rules.h"
#include "etude/kernels/cpu/optimizer/schedules.h"
#include "etude/ops.h"
#include "etude/ops/families.h"

namespace etude {

// The formulas find these by the namespace of Tensor.
static Tensor square_root(const Tensor& x) { return internal::call1(internal::op<"sqrt">(), x); }
static Tensor larger(const Tensor& a, const Tensor& b) {
  return internal::call2(internal::op<"maximum">(), a, b);
}
static Tensor smaller(const Tensor& a, const Tensor& b) {
  return internal::call2(internal::op<"minimum">(), a, b);
}
static Tensor sign_of(const Tensor& x) { return internal::call1(internal::op<"sign">(), x); }
static Tensor zero_like(const Tensor& x) {
  return internal::call1(internal::op<"zeros_like">(), x);
}

namespace ops {
namespace {

constexpr DTypeSet kUpdated = DTypeSet(kFloat32) | kFloat64;
constexpr std::size_t kFirstState = 3;

// Results have the types of the parameter and of the state; the gradient has that of the parameter.
Types optimizer_update_type(const TypeCall& call) {
  for (std::size_t i = 0; i < call.types.size(); ++i) {
    if (i == 2 || !call.has(i)) continue;
    ETUDE_REQUIRE(call.shape(i) == call.shape(0),
                  "operand '{}' has shape {}, but operand 'parameter' has shape {}; they must be "
                  "equal",
                  call.op.operand(i).name, call.shape(i).to_string(), call.shape(0).to_string());
  }
  const Shape expected{static_cast<int64_t>(optimizer::kRates)};
  ETUDE_REQUIRE(call.shape(2) == expected, "operand 'rates' has shape {}, but needs {}",
                call.shape(2).to_string(), expected.to_string());
  Types out{call.types[0]};
  for (std::size_t i = kFirstState; i < call.types.size() && call.has(i); ++i) {
    out.push_back(call.types[i]);
  }
  return out;
}

Types rule_type(const TypeCall& call) {
  const std::string& name = call.attrs.text("rule");
  std::size_t states = 0;
  const bool is_known =
      optimizer::with_rule(name, [&](auto rule) { states = optimizer::kStates<decltype(rule)>; });
  ETUDE_REQUIRE(is_known, "there is no rule '{}'", name);
  Types out = optimizer_update_type(call);
  ETUDE_REQUIRE(out.size() == states + 1, "the rule '{}' has {} states, but {} are given", name,
                states, out.size() - 1);
  return out;
}

Values lower_rule(Operands in, const Attrs& attrs) {
  Values out{in[0]};
  optimizer::with_rule(attrs.text("rule"), [&](auto rule) {
    using Rule = decltype(rule);
    // One copy of all rates, so that their cotangents are added in the order of the calls.
    const Tensor all = internal::moved(in[2], in[0].device());
    const auto rates = optimizer::from_list<optimizer::Rates<Rule, Tensor>>([&](std::size_t i) {
      return internal::cast(get_index(all, {static_cast<int64_t>(i)}, {}), in[0].dtype());
    });
    auto states = optimizer::from_list<optimizer::State<Rule, Tensor>>(
        [&](std::size_t k) { return in[kFirstState + k]; });
    rule.step(out[0], in[1], states, rates);
    optimizer::each_field(states,
                          [&](Tensor& state, std::size_t) { out.push_back(std::move(state)); });
  });
  return out;
}

// A sample of every rule, on vectors and on matrices in turn.
std::vector<Sample> rule_samples() {
  std::vector<Sample> out;
  const auto add = [&](auto rule) {
    const std::string_view shape = out.size() % 2 == 0 ? "[5]" : "[2,3]";
    std::vector<std::string_view> types = {shape, shape, "float64[10]"};
    types.resize(types.size() + optimizer::kStates<decltype(rule)>, shape);
    out.push_back({types, {{"rule", std::string(rule.kName)}}});
  };
  std::apply([&](auto... rule) { (add(rule), ...); }, optimizer::Rules{});
  return out;
}

Types rates_type(const TypeCall& call) {
  ETUDE_REQUIRE(call.rank(0) == 0, "operand 'updates' has shape {}, but is one number",
                call.shape(0).to_string());
  if (call.has(1)) {
    ETUDE_REQUIRE(call.rank(1) == 0, "operand 'scale' has shape {}, but is one number",
                  call.shape(1).to_string());
  }
  const std::string& name = call.attrs.text("rule");
  const optimizer::RateFormula formula = optimizer::rate_formula(name);
  ETUDE_REQUIRE(formula.write != nullptr, "there is no rule '{}'", name);
  const std::size_t given = call.attrs.reals("options").size();
  ETUDE_REQUIRE(given == formula.options.size(), "the rule '{}' has {} options, but {} are given",
                name, formula.options.size(), given);
  static_cast<void>(
      optimizer::read_schedule(call.attrs.text("schedule"), call.attrs.reals("schedule_numbers")));
  return {call.make(kFloat64, {static_cast<int64_t>(optimizer::kRates)}), call.types[0]};
}

// The attributes of a call for RMSProp, whose rule has options 0.9, 1e-8 and 0.
std::vector<std::pair<std::string_view, AttrValue>> rates_attrs(const char* schedule,
                                                                std::vector<double> numbers,
                                                                std::size_t options = 3) {
  std::vector<double> values{0.9, 1e-8, 0};
  values.resize(options);
  return {{"rule", std::string("rmsprop")},
          {"options", std::move(values)},
          {"schedule", std::string(schedule)},
          {"schedule_numbers", std::move(numbers)}};
}

// Samples of all schedules that numbers alone make, and of trees of them.
std::vector<Sample> rates_samples() {
  const std::vector<std::pair<const char*, std::vector<double>>> schedules = {
      {"constant", {0.1}},
      {"step", {0.1, 0.5, 3}},
      {"polynomial", {0.1, 0.01, 2, 10}},
      {"cosine_restarts", {0.1, 4, 2, 0.01}},
      {"piecewise", {3, 4, 0.1, 0.2}},
      {"chain(exponential, inverse_time)", {0.1, 0.9, 1, 0.1}},
      {"join(linear_warmup, cosine)", {1, 4, 0.1, 4, 0.1, 0, 10}}};
  std::vector<Sample> out;
  for (const auto& [schedule, numbers] : schedules) {
    out.push_back({{"int64[]"}, rates_attrs(schedule, numbers), {{0, 9}}});
  }
  out.push_back({{"int64[]", "float64[]"}, rates_attrs("constant", {0.1}), {{0, 9}, {0.5, 2}}});
  return out;
}

}  // namespace

void define_optimizer_updates(Registry& r) {
  r.define({
      .name = "rule_rates",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "The numbers that the next update of that rule needs, and the updates done then.",
      .operands = {{"updates@host", kInt64}, {"scale?@host", kFloat64}},
      .attrs = {{"rule", AttrKind::kText},
                {"options", AttrKind::kReals},
                {"schedule", AttrKind::kText},
                {"schedule_numbers", AttrKind::kReals},
                {"decay", 0.0}},
      .results = {"rates", "done"},
      .type = rates_type,
      .kernels = {.cpu = kernels::cpu::prepare_rule_rates},
      .no_derivative = "the count of updates is an integer",
      .samples = {.calls = rates_samples()},
      .errors = {{{"int64[2]"}, "operand 'updates' has shape [2]", rates_attrs("constant", {1})},
                 {{"int64[]", "float64[2]"},
                  "operand 'scale' has shape [2]",
                  rates_attrs("constant", {1})},
                 {{"int64[]"}, "has 3 options, but 2 are given", rates_attrs("constant", {1}, 2)},
                 {{"int64[]"}, "there is no schedule 'none'", rates_attrs("none", {})},
                 {{"int64[]"}, "'step' has too few numbers", rates_attrs("step", {1})},
                 {{"int64[]"},
                  "does not take 2 numbers and 0",
                  rates_attrs("piecewise", {2, 1, 1})},
                 {{"int64[]"}, "1 numbers too many", rates_attrs("constant", {1, 2})},
                 {{"int64[]"}, "ends before ', step'", rates_attrs("constant, step", {1})},
                 {{"int64[]"}, "no closing parenthesis", rates_attrs("chain(constant", {1})}},
  });
  r.define({
      .name = "rule_update",
      .space = "internal",
      .kind = Kind::kComposition,
      .doc = "A parameter after a step of the rule of that name, and its state.",
      .operands =
          {"parameter", "gradient", {"rates@host", kFloat64}, "state1?", "state2?", "state3?"},
      .attrs = {{"rule", AttrKind::kText}},
      .results = {"ys..."},
      .dtypes = kUpdated,
      .type = rule_type,
      .kernels = {.cpu = kernels::cpu::prepare_rule_update},
      .lower = lower_rule,
      .samples = {.calls = rule_samples(),
                  .ranges = {{-2, 2}, {-2, 2}, {0.1, 0.9}, {0.1, 0.6}, {3, 4}, {-2, 2}}},
      .errors = {{{"float32[2]", "float32[2]", "float64[10]", "float32[2]"},
                  "there is no rule 'none'",
                  {{"rule", std::string("none")}}},
                 {{"float32[2]", "float32[3]", "float64[10]"},
                  "operand 'gradient' has shape [3]",
                  {{"rule", std::string("sgd")}}},
                 {{"float32[2]", "float32[2]", "float64[3]"},
                  "operand 'rates' has shape [3]",
                  {{"rule", std::string("sgd")}}},
                 {{"float32[2]", "float32[2]", "float64[10]", "float32[2]", "float32[3]"},
                  "operand 'state2' has shape [3]",
                  {{"rule", std::string("adam")}}},
                 {{"float32[2]", "float32[2]", "float64[10]", "float32[2]"},
                  "the rule 'adamax' has 2 states, but 1 are given",
                  {{"rule", std::string("adamax")}}}},
  });
}

}  // namespace ops
}  // namespace etude
