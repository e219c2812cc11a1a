// SPDX-License-Identifier: Apache-2.0
// Ops that users add to the registry, and their rules under tapes.
#include "etude/core/op/registry.h"

#include <atomic>
#include <string>
#include <thread>
#include <tuple>

#include "etude/autodiff/gradient.h"
#include "etude/autodiff/gradient_check.h"
#include "etude/autodiff/jvp.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/ops.h"
#include "etude/stage/function.h"
#include "tests/gradient/expect.h"

namespace etude {
namespace {

using tests::expect_error;
using tests::expect_values;

Types like_first(const TypeCall& call) { return {call.types[0]}; }
void copy_first(const PrepareCall& call) { call.view(0); }

OpDef record(std::string_view name) {
  return {.name = name,
          .kind = Kind::kGeneral,
          .doc = "A copy of x1, for a test.",
          .operands = {"x1", "x2?"},
          .dtypes = kFloating,
          .type = like_first,
          .kernels = {.cpu = copy_first}};
}

Tensor run(const Op& op, const Tensor& x) {
  const OperandList in({&x});
  return std::move(execute(op, in.view(), op.default_attrs(), CallSite::here())[0]);
}

TEST(Registry, NamesWhatIsWrong) {  // spec: CG-02.a, CG-02.b, G13.c
  Registry::global().define(record("test_once"));
  expect_error([] { Registry::global().define(record("test_once")); },
               ErrorCode::kFailedPrecondition, {"'test_once'", "registered already"});
  expect_error([] { Registry::global().at("multiplyy"); }, ErrorCode::kNotFound,
               {"'multiplyy'", "multiply"});
  OpDef lacking = {.name = "test_lacking", .kind = Kind::kElementwise, .doc = "For a test."};
  expect_error([&] { Registry::global().define(lacking); }, ErrorCode::kInvalidArgument,
               {"'test_lacking'", "'scalar'"});
}

TEST(Registry, MissingRulesFailWhenNeeded) {  // spec: CG-02.c, TP-23.a, TP-23.b, CG-03.a, CG-03.b
  static const Op& op = Registry::global().define(record("test_ruleless"));
  OpDef stopping = record("test_stopping");
  stopping.no_derivative = "a test says so";
  static const Op& stop = Registry::global().define(stopping);
  Tensor x = 3.0;
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = run(op, x), z = run(stop, x);
  tape.stop();
  expect_values(tape.gradient(x * 1.0 + x, x, {.unconnected = Unconnected::kZero}), {0});
  expect_error([&] { tape.gradient(y, x); }, ErrorCode::kUnimplemented,
               {"gradient of test_ruleless", "has no derivative",
                "a gradient must flow through its operand 'x1'. Use stop_gradient",
                "`no_derivative`, which marks it", "registry_test.cc"});
  EXPECT_FALSE(tape.gradient(z, x).has_value());
  expect_values(tape.gradient(std::vector{z, x}, x), {1});
}

std::atomic<int> rule_runs = 0;

TEST(Registry, RulesSeeTheirOwnCall) {  // spec: CG-01, CG-07.a, TP-22.a, TP-23.c
  OpDef def = record("test_times_ten");
  def.vjp = [](const VjpCall& call) {
    ++rule_runs;
    EXPECT_TRUE(call.ct().has_value());
    Values out(call.in.size());
    out[0] = call.ct() * 10.0 * call.in[0];
    return out;
  };
  static const Op& op = Registry::global().define(def);
  OpDef failing = record("test_failing");
  failing.vjp = [](const VjpCall& call) -> Values { return {call.ct(), call.ct(), call.ct()}; };
  static const Op& fails = Registry::global().define(failing);
  Tensor x = 2.0, w = 5.0;
  GradientTape tape({.persistent = true});
  tape.watch(std::tie(x, w));
  const Tensor a = run(op, x), b = run(op, w), bad = run(fails, x);
  tape.stop();
  rule_runs = 0;
  expect_values(tape.gradient(a, x), {20});
  EXPECT_EQ(rule_runs, 1);  // not the rule of b
  expect_values(tape.gradient(b, w), {50});
  expect_error([&] { tape.gradient(bad, x); }, ErrorCode::kInvalidArgument,
               {"gradient of test_failing", "3 cotangents for 2 operands"});
}

// Of two operands, the error names the first that a derivative reaches.
TEST(Registry, AMissingRuleNamesTheOperand) {  // spec: G1.b
  static const Op& op = Registry::global().define(record("test_two_operands"));
  const auto f = [](const Tensor& a, const Tensor& b) {
    const OperandList in({&a, &b});
    return sum(execute(op, in.view(), op.default_attrs(), CallSite::here())[0]);
  };
  const Tensor a = 2.0, b = 3.0;
  const auto by_second = [&](const Tensor& x) { return f(a, x * x); };
  const auto by_both = [&](const Tensor& x) { return f(x, x); };
  const std::string text =
      "gradient of test_two_operands: has no derivative, but a gradient must flow through its ";
  expect_error([&] { gradient(by_second, b); }, ErrorCode::kUnimplemented,
               {text + "operand 'x2'", "registry_test.cc"});
  expect_error([&] { gradient(by_both, b); }, ErrorCode::kUnimplemented,
               {text + "operand 'x1'", "registry_test.cc"});
  expect_error([&] { jvp(by_second, std::tuple(b), std::tuple(a)); }, ErrorCode::kUnimplemented,
               {"test_two_operands: has no derivative, but a tangent must pass through its operand "
                "'x2'",
                "registry_test.cc"});
}

// A derivative of a staged function is built once for each order, also while a persistent tape
// outside records the calls.
TEST(Registry, DerivativesOfAFunctionAreBuiltOnce) {  // spec: FB-09.b, FB-09.c
  static std::atomic<int> runs = 0;
  OpDef def = record("test_counted");  // its rule is that for x^3 / 3
  def.vjp = [](const VjpCall& call) {
    ++runs;
    Values out(call.in.size());
    out[0] = call.ct() * call.in[0] * call.in[0];
    return out;
  };
  static const Op& op = Registry::global().define(def);
  const auto f = function([](const Tensor& x) { return run(op, x) * 2.0; });
  const Tensor x = 3.0;
  {
    GradientTape outside({.persistent = true});
    outside.watch(x);
    int first = 0;
    for (int i = 0; i < 5; ++i) {
      const Tensor y = f(x);
      expect_values(outside.gradient(y, x), {18});
      if (i == 0) first = runs;
      EXPECT_EQ(runs, first) << i;
    }
    EXPECT_GT(first, 0);
  }
  const auto slope = [&](const Tensor& t) { return gradient(f, t); };
  expect_values(gradient(slope, x), {12});
  const int both = runs;  // the second order has a graph of its own
  for (int i = 0; i < 3; ++i) {
    expect_values(slope(x), {18});
    expect_values(gradient(slope, x), {12});
  }
  EXPECT_EQ(runs, both);
  EXPECT_EQ(f.trace_count(), 1u);
}

// Without a tape no derivative of the graph is built.
TEST(Registry, WithoutATapeThereIsThePlainGraphAlone) {  // spec: FB-01.c
  static std::atomic<int> runs = 0;
  OpDef def = record("test_built_when_needed");
  def.vjp = [](const VjpCall& call) {
    ++runs;
    Values out(call.in.size());
    out[0] = call.ct();
    return out;
  };
  static const Op& op = Registry::global().define(def);
  const auto f = function([](const Tensor& x) { return run(op, x); });
  Tensor x = 3.0;
  for (int i = 0; i < 3; ++i) expect_values(f(x), {3});
  {
    GradientTape tape;  // watches another tensor
    const Tensor other = 1.0;
    tape.watch(other);
    expect_values(f(x), {3});
  }
  EXPECT_EQ(runs, 0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(x);
  const int built = runs;  // by the first call under a tape that watches an operand
  EXPECT_GT(built, 0);
  expect_values(tape.gradient(y, x), {1});
  EXPECT_EQ(runs, built);
}

TEST(Registry, UnwatchedOperandsCostNothing) {  // spec: CG-12
  Tensor w({{1.0, 2.0}, {3.0, 4.0}}), x({{1.0, 0.0}, {0.0, 1.0}});
  GradientTape outer({.persistent = true}), tape;
  tape.watch(w);
  outer.watch(w);
  const Tensor y = sum(matmul(w, x));
  const std::size_t before = outer.size();
  const Tensor seed = Tensor(1.0);
  outer.watch(seed);
  tape.gradient(y, w, {.output_gradients = {seed}});
  // The rule of sum and one matrix product, not two.
  EXPECT_LE(outer.size(), before + 3);
}

TEST(Registry, BroadcastingSumsBack) {  // spec: CG-13.a 0.7
  const Tensor a = zeros({2, 3}), b = zeros({3}), c = full({2, 1}, 2.0), d = full({1, 3}, 3.0);
  const auto [da, db] = gradient([](const Tensor& p, const Tensor& q) { return sum(p + q); }, a, b);
  EXPECT_EQ(da.shape(), (Shape{2, 3}));
  expect_values(db, {2, 2, 2});
  const auto [dc, dd] = gradient([](const Tensor& p, const Tensor& q) { return sum(p * q); }, c, d);
  expect_values(dc, {9, 9});
  expect_values(dd, {4, 4, 4});
}

TEST(GradientCheck, FindsWrongRules) {  // spec: TP-24.b
  const Tensor args[] = {Tensor({0.5, 2.0}), Tensor({{1.5}, {0.7}})};
  EXPECT_EQ(check_gradient([](std::span<const Tensor> x) { return exp(x[0]) * x[1] / x[0]; }, args),
            "");
  const Tensor z[] = {Tensor(std::complex<float>(1, 2))};
  EXPECT_EQ(check_gradient([](std::span<const Tensor> x) { return x[0] * x[0] * x[0]; }, z), "");
  OpDef def = record("test_wrong_rule");
  def.vjp = [](const VjpCall& call) {
    Values out(call.in.size());
    out[0] = call.ct() * 2.0;
    return out;
  };
  static const Op& op = Registry::global().define(def);
  const std::string said =
      check_gradient([](std::span<const Tensor> x) { return run(op, x[0]); }, {args, 1});
  EXPECT_NE(said.find("argument 0, element 0: the gradient is 2"), std::string::npos) << said;
}

TEST(Registry, IsSharedByThreads) {  // spec: CG-17.a, CG-17.b
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([t] {
      static const char* const kNames[] = {"test_thread_0", "test_thread_1", "test_thread_2"};
      Registry::global().define(record(kNames[t]));
      for (int i = 0; i < 200; ++i) {
        expect_values(gradient([](const Tensor& x) { return x * x * x; }, Tensor(2.0)), {12});
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

// Cotangents that pile up are added early; the numbers are small integers, so that any order is
// exact.
TEST(Registry, EarlySumsChangeNoResult) {  // spec: CG-17.c
  for (const int uses : {1, 2, 3, 31, 64, 65, 700}) {
    const auto total = [&](const Tensor& x) {
      Tensor out = zeros({3});
      for (int i = 0; i < uses; ++i) out += x * static_cast<float>(i % 16);
      return sum(out);
    };
    float want = 0;
    for (int i = 0; i < uses; ++i) want += static_cast<float>(i % 16);
    const Tensor x({0.5, 1.0, 2.0});
    const auto slope = [&](const Tensor& v) { return gradient(total, v); };
    expect_values(slope(x), {want, want, want});
    if (uses == 700) expect_values(function(slope)(x), {want, want, want});
  }
}

TEST(Registry, ErrorsInRulesNameTheOp) {  // spec: CG-14.a
  OpDef def = record("test_breaking");
  def.vjp = [](const VjpCall&) -> Values {
    throw Error(ErrorCode::kOutOfRange, "the rule is broken");
  };
  static const Op& op = Registry::global().define(def);
  Tensor x = 2.0;
  GradientTape tape;
  tape.watch(x);
  const Tensor y = run(op, x);
  expect_error([&] { tape.gradient(y, x); }, ErrorCode::kOutOfRange,
               {"gradient of test_breaking", "the rule is broken", "registry_test.cc"});
}

TEST(Registry, ErrorsInSummingUpNameTheOp) {  // spec: CG-14.b
  OpDef def = record("test_of_another_shape");
  def.vjp = [](const VjpCall& call) {
    Values out(call.in.size());
    out[0] = ones({3});
    return out;
  };
  static const Op& op = Registry::global().define(def);
  const Tensor x = ones({2});
  const auto f = [](const Tensor& t) {
    const Tensor y = run(op, t);
    return sum(y) + sum(t * 2.0F);
  };
  const std::vector<std::string_view> want = {
      "sum of gradients for operand 0 of test_of_another_shape", "registry_test.cc"};
  expect_error([&] { gradient(f, x); }, ErrorCode::kInvalidArgument, want);
  expect_error([&] { function([&](const Tensor& t) { return gradient(f, t); })(x); },
               ErrorCode::kInvalidArgument, want);
  const auto staged = function<Tensor(const Tensor&)>(f);
  expect_error([&] { gradient(staged, x); }, ErrorCode::kInvalidArgument, want);
  const LazyScope lazy;
  expect_error([&] { gradient(f, x); }, ErrorCode::kInvalidArgument, want);
}

TEST(Registry, AFirstDerivativeNeedsNoSecondOne) {  // spec: FB-04.d
  static const Op& last = Registry::global().define(record("test_no_rule_of_a_rule"));
  OpDef def = record("test_first_order");
  def.vjp = [](const VjpCall& call) {
    Values out(call.in.size());
    out[0] = run(last, call.ct()) * call.in[0];
    return out;
  };
  static const Op& op = Registry::global().define(def);
  const auto f = function([](const Tensor& x) { return run(op, x) * x; });
  const auto slope = [&](const Tensor& x) { return gradient(f, x); };
  expect_values(slope(Tensor(2.0F)), {6});  // x + x x
  expect_values(function(slope)(Tensor(2.0F)), {6});
  expect_error([&] { gradient(slope, Tensor(2.0F)); }, ErrorCode::kUnimplemented,
               {"test_no_rule_of_a_rule", "has no derivative"});
}

}  // namespace
}  // namespace etude
