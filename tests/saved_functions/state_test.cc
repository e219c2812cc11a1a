// SPDX-License-Identifier: Apache-2.0
// The state of saved functions: Variables, captures, bound objects, and sharing.
#include <memory>
#include <string>
#include <vector>

#include "tests/expect_error.h"
#include "tests/saved_functions/saved_folder.h"
#include "tests/warnings.h"

namespace etude::saved_functions_test {
namespace {

using tests::expect_error;

class SavedState : public SavedFolder {};

struct Line {
  Tensor w = Tensor({1.0, 2.0});
  Tensor b = Tensor(0.5);
};
Tensor predicted(const Line& line, const Tensor& x) { return matmul(x, line.w) + line.b; }
Tensor trained(Line& line, const Tensor& x, const Tensor& y) {
  const auto [loss, slope] =
      value_with_gradient([&](const Line& l) { return mean(square(predicted(l, x) - y)); }, line);
  move(line, -0.1F * slope);
  return loss;
}
const FunctionOptions kPredict{.name = "predict", .arg_names = {"line", "x"}};
const FunctionOptions kTrain{.name = "train", .arg_names = {"line", "x", "y"}};

// A loaded training step continues where the saved struct was, with its bits.
// spec: SV-01.a, SV-01.b
TEST_F(SavedState, ABoundStructIsStateByPath) {
  Line line;
  const auto predict = function(predicted, kPredict);
  const auto train = function(trained, kTrain);
  const Tensor x({{1.0, 2.0}, {3.0, 4.0}}), y({1.0, 2.0});
  predict(line, x);
  predict(line, ones({5, 2}));
  train(line, x, y);
  saved::save(path("m"),
              {{"predict", saved::bind(predict, line)}, {"train", saved::bind(train, line)}});
  const saved::Program program = saved::load(path("m"));
  const auto loaded = program.function("predict").as<OfOne>();
  const auto step = program.function("train").as<OfTwo>();
  ASSERT_EQ(program.variables().size(), 2U);  // shared by both functions
  EXPECT_EQ(program.variables()[0].first, "line/w");
  EXPECT_TRUE(same(program.variable("line/w").read(), line.w));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same(step(x, y), train(line, x, y)));
  for (const int64_t n : {1, 2, 3, 7}) {
    EXPECT_TRUE(same(loaded(ones({n, 2})), predict(line, ones({n, 2})))) << n;
  }
  EXPECT_TRUE(same(program.variable("line/w").read(), line.w));
  EXPECT_EQ(program.function("train").signatures()[0].changed,
            (std::vector<std::string>{"line/w", "line/b"}));
}

// spec: SV-01.b
TEST_F(SavedState, AModelWithItsOptimiser) {
  set_seed(4);
  struct Net {
    nn::Dense hidden{3, 4, {.activation = nn::relu}};
    nn::Dropout dropout{0.25};
    nn::BatchNorm norm{4};
    nn::Dense output{4, 2};
    Tensor operator()(const Tensor& x) const { return output(norm(dropout(hidden(x)))); }
  };
  Net net;
  optim::Adam adam({.lr = 1e-2});
  const auto train = function(
      [](Net& n, optim::Adam& a, const Tensor& x, const Tensor& y) {
        const PhaseScope phase(Phase::kTraining);
        auto [loss, slope] =
            value_with_gradient([&](const Net& m) { return mean(square(m(x) - y)); }, n);
        a.update(n, slope);
        return loss;
      },
      {.name = "train", .arg_names = {"net", "adam", "x", "y"}});
  const Tensor x = random::normal({8, 3}), y = random::normal({8, 2});
  train(net, adam, x, y);
  expect_error(
      [&] {
        saved::save(path("early"), {{"train", saved::bind(train, net, adam)}});
      },
      ErrorCode::kFailedPrecondition,
      {"function 'train' has no graph that can be saved", "before it is saved"});
  train(net, adam, x, y);
  train(net, adam, x, y);
  saved::save(path("m"), {{"train", saved::bind(train, net, adam)}});
  const saved::Program program = saved::load(path("m"));
  const auto step = program.function("train").as<OfTwo>();
  for (int i = 0; i < 3; ++i) {
    set_seed(10 + static_cast<uint64_t>(i));
    const Tensor want = train(net, adam, x, y);
    set_seed(10 + static_cast<uint64_t>(i));
    EXPECT_TRUE(same(step(x, y), want)) << i;
  }
  EXPECT_TRUE(same(program.variable("net/hidden/weight").read(), net.hidden.weight));
  EXPECT_TRUE(program.variable("net/hidden/weight").trainable());
  EXPECT_FALSE(program.variable("net/norm/running/mean").trainable());
  for (const Variable& v : program.function("train").trainable_variables()) {
    EXPECT_TRUE(v.name().starts_with("net/")) << v.name();  // and no slots of the optimiser
  }
}

// spec: SV-05.a
TEST_F(SavedState, AVariableOutOfReachIsNamed) {
  const Variable weight(Tensor(2.0), {.name = "weight"});
  const auto f = function([&](const Tensor& x) { return x * weight; }, {.name = "f"});
  f(Tensor(1.0));
  expect_error(
      [&] {
        saved::save(path("f"), {{"f", f}});
      },
      ErrorCode::kFailedPrecondition,
      {"function 'f' uses Variable 'weight' made at ",
       "state_test.cc:", "which no entry reaches. Save it as well: {\"name\", variable}"});
  EXPECT_FALSE(saved::is_saved(path("f")));
  saved::save(path("f"), {{"f", f}, {"w", weight}});
  EXPECT_EQ(saved::load(path("f")).variable("w").name(), "weight");
}

struct Net : io::Trackable {
  Variable scale = track("scale", Variable(3.0));
};

// spec: SV-05.a
TEST_F(SavedState, ATrackableAndAStructMakeVariablesReachable) {
  Net net;
  const auto f = function([&](const Tensor& x) { return x * net.scale; }, {.name = "f"});
  f(Tensor(1.0));
  saved::save(path("f"), {{"f", f}, {"net", net}});
  const saved::Program program = saved::load(path("f"));
  EXPECT_EQ(program.variable("net/scale").read().item<float>(), 3.0F);
  struct Pair {
    Variable a;
    std::vector<Variable> more;
  };
  const Pair pair{net.scale, {Variable(4.0)}};
  saved::save(path("g"), {{"f", f}, {"pair", pair}});
  EXPECT_EQ(saved::load(path("g")).variable("pair/a").read().item<float>(), 3.0F);
  EXPECT_EQ(saved::load(path("g")).variable("pair/more/0").read().item<float>(), 4.0F);
}

// spec: SV-06.a
TEST_F(SavedState, AVariableOnTwoPathsIsOne) {
  const Variable v(1.0);
  struct Two {
    Variable left, right;
  };
  const Two two{v, v};
  saved::save(path("f"), {{"two", two}, {"again", v}});
  const saved::Program program = saved::load(path("f"));
  const Variable left = program.variable("two/left");
  EXPECT_EQ(left.ref(), program.variable("two/right").ref());
  EXPECT_EQ(left.ref(), program.variable("again").ref());
  EXPECT_EQ(left.ref(), program.object("two").variable("right").ref());
  EXPECT_EQ(program.variables().size(), 1U);
}

// spec: SV-06.b
TEST_F(SavedState, AConstantThatIsCapturedTwiceIsStoredOnce) {
  const Tensor table = ones({5000}) * 3;  // 20 kB
  const auto f = function([&](const Tensor& x) { return sum(table) * x; }, {.name = "f"});
  const auto g = function([&](const Tensor& x) { return table + x; }, {.name = "g"});
  f(Tensor(1.0));
  g(Tensor(1.0));
  saved::save(path("f"), {{"f", f}, {"g", g}});
  std::size_t bytes = 0;
  for (const auto& [name, content] : files_of(path("f"))) bytes += content.size();
  EXPECT_GT(bytes, 20000U);
  EXPECT_LT(bytes, 30000U);
  EXPECT_EQ(saved::load(path("f")).function("f").as<OfOne>()(Tensor(2.0)).item<float>(), 30000.0F);
}

// spec: SV-06.c, SV-06.d
TEST_F(SavedState, WhatCannotBeSavedIsLeftOut) {
  struct Odd {
    int id;
    bool operator==(const Odd&) const = default;
  };
  const Parts extras = Parts::fields(
      {{"list", Parts::list({Parts(Tensor(1.0)), Parts(Described(Odd{1})), Parts(Tensor(2.0))})},
       {"map", Parts::map({{"a", Described(3)}, {"b", Described(Odd{2})}})}});
  const std::vector<std::string> told = tests::warnings_of([&] {
    saved::save(path("f"), {{"extras", extras}});
  });
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(tests::contains(told[0], "'extras/list/1'")) << told[0];
  EXPECT_TRUE(tests::contains(told[0], "'extras/map/b'")) << told[0];
  const Parts loaded = saved::load(path("f")).object("extras");
  const Form* list = loaded.form()->find("list");
  ASSERT_EQ(list->parts().size(), 3U);
  EXPECT_EQ(list->parts()[1]->kind(), Form::Kind::kNothing);
  EXPECT_EQ(loaded.tensor("list/2").item<float>(), 2.0F);
  EXPECT_EQ(loaded.form()->find("map")->names(), std::vector<std::string>{"a"});
  EXPECT_EQ(loaded.host("map/a").get<int>(), 3);
}

// spec: SV-09.a
TEST_F(SavedState, PropertiesOfVariablesSurvive) {
  struct All {
    Variable open, fixed, integer, empty;
  };
  const All all{Variable(ones({2, 3}), {.name = "open", .shape = Shape{kAny, 3}}),
                Variable(Tensor(1.0), {.name = "fixed", .trainable = false, .dtype = kFloat64}),
                Variable(Tensor(std::vector<int32_t>{1, 2}), {.name = "integer"}),
                Variable(Tensor(), {.name = "empty", .dtype = kFloat16, .shape = Shape{4}})};
  saved::save(path("f"), {{"all", all}});
  const saved::Program program = saved::load(path("f"));
  const Variable open = program.variable("all/open"), fixed = program.variable("all/fixed");
  EXPECT_EQ(open.name(), "open");
  EXPECT_TRUE(open.trainable());
  open.assign(ones({7, 3}));  // its first size may change
  expect_error([&] { open.assign(ones({7, 4})); }, ErrorCode::kInvalidArgument, {"'open'"});
  EXPECT_FALSE(fixed.trainable());
  EXPECT_EQ(fixed.dtype(), kFloat64);
  EXPECT_EQ(program.variable("all/integer").dtype(), kInt32);
  const Variable empty = program.variable("all/empty");
  EXPECT_FALSE(empty.initialized());
  EXPECT_EQ(empty.dtype(), kFloat16);
  EXPECT_EQ(empty.shape(), Shape{4});
  EXPECT_EQ(fixed.device().to_string(), "cpu:0");
}

// spec: SV-09.b
TEST_F(SavedState, LoadedVariablesAreFreedWithTheProgram) {
  const Variable v(1.0);
  const auto f = function([&](const Tensor& x) { return x * v; }, {.name = "f"});
  f(Tensor(1.0));
  saved::save(path("f"), {{"f", f}, {"v", v}});
  std::weak_ptr<void> cell;
  {
    std::optional<saved::Program> program(saved::load(path("f")));
    cell = internal::weak_state(program->variable("v"));
    const auto loaded = program->function("f").as<OfOne>();
    program.reset();
    EXPECT_EQ(loaded(Tensor(2.0)).item<float>(), 2.0F);  // a function keeps its state
    EXPECT_FALSE(cell.expired());
  }
  EXPECT_TRUE(cell.expired());
}

// spec: SV-09.c
TEST_F(SavedState, LoadingWorksInATraceAndRepeatedly) {
  const Variable v(2.0);
  const auto f = function([&](const Tensor& x) { return x * v; }, {.name = "f"});
  f(Tensor(1.0));
  saved::save(path("f"), {{"f", f}, {"v", v}});
  std::optional<saved::Program> kept;
  const auto outer = function(
      [&](const Tensor& x) {
        kept = saved::load(path("f"));
        return kept->function("f").as<OfOne>()(x) + 1;
      },
      {.name = "outer"});
  EXPECT_EQ(outer(Tensor(3.0)).item<float>(), 7.0F);
  kept->variable("v").assign(5.0);
  EXPECT_EQ(outer(Tensor(3.0)).item<float>(), 16.0F);  // the graph reads the Variable
  EXPECT_EQ(outer.trace_count(), 1U);
  const saved::Program again = saved::load(path("f"));
  EXPECT_NE(again.variable("v").ref(), kept->variable("v").ref());
  EXPECT_EQ(again.variable("v").read().item<float>(), 2.0F);
}

// A function that calls a loaded one is saved with the program that it uses.
// spec: SV-09.d
TEST_F(SavedState, ALoadedProgramIsSavedInsideAnother) {
  const Variable v(2.0);
  const auto f = function([&](const Tensor& x) { return x * v; }, {.name = "f"});
  f(Tensor(1.0));
  saved::save(path("inner"), {{"f", f}, {"v", v}});
  const saved::Program inner = saved::load(path("inner"));
  const auto called = inner.function("f").as<OfOne>();
  const auto outer = function([&](const Tensor& x) { return called(x) + 1; }, {.name = "outer"});
  outer(Tensor(3.0));
  expect_error(
      [&] {
        saved::save(path("none"), {{"outer", outer}});
      },
      ErrorCode::kFailedPrecondition, {"function 'outer' uses Variable", "no entry reaches"});
  saved::save(path("outer"), {{"outer", outer}, {"base", inner}});
  const saved::Program program = saved::load(path("outer"));
  EXPECT_EQ(program.functions(), (std::vector<std::string>{"outer", "base/f"}));
  program.variable("base/v").assign(10.0);
  EXPECT_EQ(program.function("outer").as<OfOne>()(Tensor(3.0)).item<float>(), 31.0F);
  EXPECT_EQ(program.function("base/f").as<OfOne>()(Tensor(3.0)).item<float>(), 30.0F);
  saved::save(path("one"), {{"g", inner.function("f")}});
  EXPECT_EQ(saved::load(path("one")).function("g").as<OfOne>()(Tensor(3.0)).item<float>(), 6.0F);
}

// spec: SV-09.a
TEST_F(SavedState, AVariableAsAnArgument) {
  const auto add = function(
      [](const Variable& a, const Variable& b) {
        a.assign_add(1.0);
        return a.read() + b.read();
      },
      {.name = "add", .arg_names = {"a", "b"}});
  const Variable v(1.0), w(1.0);
  add(v, v);
  add(v, w);
  saved::save(path("f"), {{"add", add}});
  const auto loaded =
      saved::load(path("f")).function("add").as<Tensor(const Variable&, const Variable&)>();
  const Variable p(1.0), q(1.0);
  EXPECT_EQ(loaded(p, p).item<float>(), 4.0F);
  EXPECT_EQ(loaded(p, q).item<float>(), 4.0F);
  EXPECT_EQ(p.read().item<float>(), 3.0F);
}

// spec: SV-05.a
TEST_F(SavedState, NamesAreChecked) {
  const Variable v(1.0);
  expect_error(
      [&] {
        saved::save(path("f"), {{"a", v}, {"a", v}});
      },
      ErrorCode::kInvalidArgument, {"the name 'a' is given twice"});
  expect_error(
      [&] {
        saved::save(path("f"), {{"a/b", v}});
      },
      ErrorCode::kInvalidArgument, {"'a/b' is no name of an entry"});
  saved::save(path("f"), {{"net", v}});
  expect_error([&] { saved::load(path("f")).variable("nett"); }, ErrorCode::kNotFound,
               {"has no Variable 'nett'. It has: net"});
}

}  // namespace
}  // namespace etude::saved_functions_test
