// SPDX-License-Identifier: Apache-2.0
// Loaded functions in the contexts of a program: derivatives of any order, tapes, staged functions,
// vmaps and lazy scopes.
#include <string>
#include <utility>

#include "tests/expect_error.h"
#include "tests/saved_functions/saved_folder.h"

namespace etude::saved_functions_test {
namespace {

using tests::expect_error;

// f(x) = sum(w * x^3): gradients 3 w x^2 and x^3.
class SavedGradients : public SavedFolder {
 protected:
  SavedGradients() {
    f(x);
    save("f");
  }
  void save(const std::string& name) { saved::save(path(name), {{"f", f}, {"w", w}}); }

  const Variable w{Tensor({2.0, 3.0})};
  const Tensor x = Tensor({1.0, 2.0});
  const Function<OfOne> f =
      function([this](const Tensor& a) { return sum(w * a * a * a); }, {.name = "f"});
};

// spec: SV-08.a
TEST_F(SavedGradients, GradientsOfInputsAndVariables) {
  const saved::Program program = saved::load(path("f"));
  const auto loaded = program.function("f").as<OfOne>();
  EXPECT_TRUE(same(gradient(loaded, x), Tensor({6.0, 36.0})));
  GradientTape tape;
  tape.watch(x);
  const Tensor y = loaded(x);
  const auto [dx, dw] = tape.gradient(y, std::pair{x, program.variable("w")});
  EXPECT_TRUE(same(dx, Tensor({6.0, 36.0})));
  EXPECT_TRUE(same(dw, Tensor({1.0, 8.0})));
}

// spec: SV-08.a
TEST_F(SavedGradients, DerivativesOfAnyOrder) {
  const auto loaded = saved::load(path("f")).function("f").as<OfOne>();
  const auto first = [&](const Tensor& a) { return sum(gradient(loaded, a)); };
  const auto second = [&](const Tensor& a) { return sum(gradient(first, a)); };
  EXPECT_TRUE(same(gradient(first, x), Tensor({12.0, 36.0})));
  EXPECT_TRUE(same(gradient(second, x), Tensor({12.0, 18.0})));
  const auto [value, moved] = jvp(loaded, x, Tensor({1.0, 0.0}));
  EXPECT_EQ(value.item<float>(), 26.0F);
  EXPECT_EQ(moved.item<float>(), 6.0F);
  EXPECT_TRUE(same(hvp(loaded, x, Tensor({1.0, 0.0})), Tensor({12.0, 0.0})));
}

// spec: SV-08.b, SV-08.c
TEST_F(SavedGradients, AFunctionThatWasDifferentiatedBefore) {
  const Tensor before = gradient(f, x);
  save("g");
  const saved::Function loaded = saved::load(path("g")).function("f");
  EXPECT_TRUE(same(gradient(loaded.as<OfOne>(), x), before));
  ASSERT_EQ(loaded.signatures().size(), 1U);
  EXPECT_EQ(loaded.signatures()[0].outputs.size(), 1U);  // and no residuals
  EXPECT_EQ(loaded.graphs()[0].graph().outputs().size(), 1U);
}

// spec: SV-08.a
TEST_F(SavedGradients, InsideStagedFunctions) {
  const saved::Program program = saved::load(path("f"));
  const auto loaded = program.function("f").as<OfOne>();
  const auto step = function([&](const Tensor& a) {
    const auto [value, slope] = value_with_gradient(loaded, a);
    program.variable("w").assign_sub(slope);
    return value;
  });
  EXPECT_EQ(step(x).item<float>(), 26.0F);
  EXPECT_TRUE(same(program.variable("w").read(), Tensor({-4.0, -33.0})));
  EXPECT_EQ(step(x).item<float>(), -4.0F - 264.0F);
  EXPECT_EQ(step.trace_count(), 1U);
}

// spec: SV-08.a
TEST_F(SavedGradients, InVmapsAndLazyScopes) {
  const auto loaded = saved::load(path("f")).function("f").as<OfOne>();
  const Tensor batch({{1.0, 2.0}, {0.0, 1.0}});
  EXPECT_TRUE(same(vmap(loaded)(batch), Tensor({26.0, 3.0})));
  const Tensor slopes = vmap([&](const Tensor& a) { return gradient(loaded, a); })(batch);
  EXPECT_TRUE(same(slopes, Tensor({{6.0, 36.0}, {0.0, 9.0}})));
  const LazyScope lazy;
  EXPECT_EQ((loaded(x) + 1).item<float>(), 27.0F);
}

// spec: SV-08.d, SV-08.e
TEST_F(SavedGradients, CustomGradientsAreSavedOnRequest) {
  const auto straight = custom_gradient([](const Tensor& a) {
    return std::pair{round(a), [](const Tensor& dy) { return dy * 10; }};
  });
  const auto g = function([&](const Tensor& a) { return straight(a) * 2; }, {.name = "g"});
  const Tensor a(1.25);
  EXPECT_EQ(gradient(g, a).item<float>(), 20.0F);
  saved::save(path("with"), {{"g", g}}, {.custom_gradients = true});
  saved::save(path("without"), {{"g", g}});
  const auto with = saved::load(path("with")).function("g").as<OfOne>();
  const auto without = saved::load(path("without")).function("g").as<OfOne>();
  EXPECT_EQ(with(a).item<float>(), 2.0F);
  EXPECT_EQ(gradient(with, a).item<float>(), 20.0F);
  EXPECT_EQ(without(a).item<float>(), 2.0F);
  expect_error([&] { gradient(without, a); }, ErrorCode::kUnimplemented,
               {"gradient of custom_gradient", "its derivative was not saved",
                "{.custom_gradients = true}"});
  expect_error([&] { jvp(without, a, Tensor(1.0)); }, ErrorCode::kUnimplemented,
               {"its derivative was not saved"});
}

// Derivatives of recompute_grad are derivatives of the function itself.
// spec: SV-08.a
TEST_F(SavedGradients, RecomputedDerivativesAreSaved) {
  const auto cube = recompute_grad([](const Tensor& a) { return a * a * a; });
  const auto g = function([&](const Tensor& a) { return sum(cube(a)); }, {.name = "g"});
  g(x);
  saved::save(path("g"), {{"g", g}});
  EXPECT_TRUE(
      same(gradient(saved::load(path("g")).function("g").as<OfOne>(), x), Tensor({3.0, 12.0})));
}

// Control flow in graphs: loops and branches, with derivatives.
// spec: SV-08.a
TEST_F(SavedGradients, LoopsAndBranches) {
  const auto g = function(
      [](const Tensor& a) {
        Tensor out = while_loop([](const Tensor& y) { return sum(y) < 10; },
                                [](const Tensor& y) { return y * 2; }, a);
        return sum(cond(
            sum(a) > 1, [](const Tensor& y) { return y * y; }, [](const Tensor& y) { return y; },
            out));
      },
      {.name = "g"});
  const Tensor want = gradient(g, x);
  saved::save(path("g"), {{"g", g}});
  const auto loaded = saved::load(path("g")).function("g").as<OfOne>();
  EXPECT_TRUE(same(loaded(x), g(x)));
  EXPECT_TRUE(same(gradient(loaded, x), want));
}

// spec: SV-08.a
TEST_F(SavedGradients, FineTuningByAnOptimiser) {
  const saved::Program program = saved::load(path("f"));
  const auto loaded = program.function("f").as<OfOne>();
  const std::vector<Variable> weights = program.function("f").trainable_variables();
  ASSERT_EQ(weights.size(), 1U);
  EXPECT_EQ(weights[0].ref(), program.variable("w").ref());
  optim::SGD sgd({.lr = 0.1});
  const float before = loaded(x).item<float>();
  for (int i = 0; i < 3; ++i) {
    const auto slopes = gradient([&](const std::vector<Variable>&) { return loaded(x); }, weights);
    saved::update(sgd, weights, slopes);
  }
  EXPECT_LT(loaded(x).item<float>(), before);
}

}  // namespace
}  // namespace etude::saved_functions_test
