// SPDX-License-Identifier: Apache-2.0
// Captures of functions: each operator that takes a function has derivatives by captured tensors,
// eagerly, staged and lazily.
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "etude/etude.h"
#include "tests/gradient/expect.h"

namespace etude::captures_test {
namespace {

using tests::expect_values;
using Function = std::function<Tensor(const Tensor&)>;

// g at x, by an operator that takes g.
struct Row {
  const char* name;
  std::function<Tensor(const Function& g, const Tensor& x)> run;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"recompute_grad", [](const Function& g, const Tensor& x) { return recompute_grad(g)(x); }},
      {"recompute_grad twice",
       [](const Function& g, const Tensor& x) { return recompute_grad(recompute_grad(g))(x); }},
      {"recompute_grad around calls",
       [](const Function& g, const Tensor& x) {
         return recompute_grad([g](const Tensor& a) { return recompute_grad(g)(a) * 1.0F; })(x);
       }},
      {"checkpointed",
       [](const Function& g, const Tensor& x) {
         return checkpointed(1, x, [g](std::size_t, const Tensor& s) { return g(s); });
       }},
      {"vmap", [](const Function& g, const Tensor& x) { return sum(vmap(g)(reshape(x, {1}))); }},
      {"recompute_grad of vmap",
       [](const Function& g, const Tensor& x) {
         return sum(recompute_grad([g](const Tensor& a) { return vmap(g)(a); })(reshape(x, {1})));
       }},
      {"vmap of recompute_grad",
       [](const Function& g, const Tensor& x) {
         return sum(vmap([g](const Tensor& a) { return recompute_grad(g)(a); })(reshape(x, {1})));
       }},
      {"function", [](const Function& g, const Tensor& x) { return function(g)(x); }},
      {"recompute_grad of function",
       [](const Function& g, const Tensor& x) { return recompute_grad(function(g))(x); }},
      {"cond",
       [](const Function& g, const Tensor& x) {
         return cond(
             x > 0.0F, [&] { return g(x); }, [&] { return x; });
       }},
      {"while_loop",
       [](const Function& g, const Tensor& x) {
         return std::get<1>(while_loop(
             [](const Tensor& i, const Tensor&) { return i < 1.0F; },
             [&](const Tensor& i, const Tensor& s) { return std::tuple(i + 1.0F, g(s)); },
             std::tuple(Tensor(0.0F), x), {.max_iterations = 3}));
       }},
      {"fold",
       [](const Function& g, const Tensor& x) {
         return fold([&](const Tensor& s, const Tensor&) { return g(s); }, x, ones({1}));
       }},
      {"recompute_grad of fold",
       [](const Function& g, const Tensor& x) {
         return recompute_grad([g](const Tensor& a) {
           return fold([&](const Tensor& s, const Tensor&) { return g(s); }, a, ones({1}));
         })(x);
       }},
      {"value_with_gradient",
       [](const Function& g, const Tensor& x) { return value_with_gradient(g, x).first; }},
      {"value_with_pullback",
       [](const Function& g, const Tensor& x) { return value_with_pullback(g, x).first; }},
      {"jvp", [](const Function& g, const Tensor& x) { return jvp(g, x, ones({})).first; }},
  };
  return all;
}

// g is linear, so that a * (its derivative) is its value; the derivative depends on the captures of
// g.
const std::vector<Row>& slopes() {
  static const std::vector<Row> all = {
      {"gradient", [](const Function& g, const Tensor& x) { return gradient(g, x) * x; }},
      {"pullback", [](const Function& g, const Tensor& x) { return pullback(g, x)(ones({})) * x; }},
      {"jvp", [](const Function& g, const Tensor& x) { return jvp(g, x, x).second; }},
      {"gradient of recompute_grad",
       [](const Function& g, const Tensor& x) { return gradient(recompute_grad(g), x) * x; }},
      {"recompute_grad of gradient",
       [](const Function& g, const Tensor& x) {
         return recompute_grad([g](const Tensor& a) { return gradient(g, a) * a; })(x);
       }},
      {"jacobian", [](const Function& g, const Tensor& x) { return jacobian(g, x) * x; }},
  };
  return all;
}

// f and its derivatives at x = 2, in every mode.
void expect_derivatives(const Row& row, const Function& f, double value, double slope,
                        double second) {
  SCOPED_TRACE(row.name);
  const Tensor x(2.0F);
  const auto gradient_of = [&](const Tensor& t) { return gradient(f, t); };
  expect_values(f(x), {value});
  expect_values(gradient(f, x), {slope});
  expect_values(jvp(f, x, Tensor(1.0F)).second, {slope});
  expect_values(gradient(gradient_of, x), {second});
  const auto staged = function(f);
  expect_values(gradient([&](const Tensor& t) { return staged(t); }, x), {slope});
  expect_values(function<Tensor(const Tensor&)>(gradient_of)(x), {slope});
  const auto twice =
      function<Tensor(const Tensor&)>([&](const Tensor& t) { return gradient(gradient_of, t); });
  expect_values(twice(x), {second});
  const Tensor xs({2.0F, 2.0F});
  expect_values(vmap(gradient_of)(xs), {slope, slope});
  expect_values(gradient([&](const Tensor& t) { return sum(vmap(f)(t)); }, xs), {slope, slope});
  const LazyScope lazy;
  expect_values(gradient(f, x), {slope});
  expect_values(gradient(gradient_of, x), {second});
}

TEST(Captures, HaveDerivativesInAllOperators) {
  for (const auto* table : {&rows(), &slopes()}) {
    for (const Row& row : *table) {
      const Function f = [&row](const Tensor& x) {  // 3 x^2
        const Tensor w = x * 3.0F;
        return row.run([w](const Tensor& a) { return w * a; }, x);
      };
      expect_derivatives(row, f, 12, 12, 6);
    }
  }
}

TEST(Captures, MayBeTheArgumentItself) {
  for (const auto* table : {&rows(), &slopes()}) {
    for (const Row& row : *table) {
      const Function f = [&](const Tensor& x) {  // 3 x^3
        const Tensor w = x * 3.0F;
        return row.run([w, x](const Tensor& a) { return w * x * a; }, x);
      };
      expect_derivatives(row, f, 24, 36, 36);
    }
  }
}

TEST(Captures, MayBeTheResult) {
  for (const Row& row : rows()) {
    const Function f = [&](const Tensor& x) {
      const Tensor w = x * x;
      return row.run([w](const Tensor&) { return w; }, x);
    };
    expect_derivatives(row, f, 4, 4, 2);
  }
}

TEST(Captures, MayBeReadForNothing) {
  for (const Row& row : rows()) {
    const Function f = [&](const Tensor& x) {
      const Tensor w = x * 3.0F, unused = x * 5.0F;
      return row.run(
          [=](const Tensor& a) {
            const Tensor nothing = unused * a;
            return w * a;
          },
          x);
    };
    expect_derivatives(row, f, 12, 12, 6);
  }
}

// A model whose layers a block captures: torch.utils.checkpoint(block, x).
struct Net {
  nn::Dense first{2, 3, {}}, second{3, 2, {}};
};

TEST(Captures, OfARecomputedBlockAreLayers) {
  set_seed(1);
  const Net net;
  const Tensor x({{1.0F, 2.0F}});
  const auto plain = [&](const Net& m) { return sum(square(m.second(tanh(m.first(x))))); };
  const auto frugal = [&](const Net& m) {
    const Tensor h = recompute_grad([&m](const Tensor& v) { return tanh(m.first(v)); })(x);
    return sum(square(m.second(h)));
  };
  const auto want = gradient(plain, net), got = gradient(frugal, net);
  const auto staged = function([&](const Net& m) { return gradient(frugal, m); })(net);
  EXPECT_GT(sum(abs(want[&Net::first].weight)).item<float>(), 0.1F);
  for (const auto* g : {&got, &staged}) {
    expect_values((*g)[&Net::first].weight, want[&Net::first].weight.to_vector<double>());
    expect_values((*g)[&Net::second].weight, want[&Net::second].weight.to_vector<double>());
  }
}

TEST(Captures, OfCheckpointedSteps) {
  // s <- s + theta s / 100, a hundred times from 1: (1 + theta / 100)^100.
  const Function f = [](const Tensor& theta) {
    return checkpointed(100, ones({}),
                        [theta](std::size_t, const Tensor& s) { return s + 0.01F * theta * s; });
  };
  const double base = 1.02, value = std::pow(base, 100), slope = std::pow(base, 99),
               second = 0.99 * std::pow(base, 98);
  expect_derivatives({"checkpointed", nullptr}, f, value, slope, second);
}

TEST(Captures, MayBeSparseArguments) {
  const auto twice = recompute_grad([](const Tensor& t) { return sum(t * t) * 0.5F; });
  const auto tripled = custom_gradient([](const Tensor& t) {
    return std::pair{sum(t), [t](const Tensor& dy) { return dy * 3.0F * ones(t.shape()); }};
  });
  const auto loss = [&](const auto& f) {
    return [&](const Tensor& rows) {
      return f(make_slices({Tensor(std::vector<int32_t>{1, 3}), rows, Shape{4, 1}}));
    };
  };
  const Tensor rows({{2.0F}, {5.0F}});
  expect_values(gradient(loss(twice), rows), {2, 5});
  expect_values(gradient(loss(tripled), rows), {3, 3});
}

TEST(RecomputeGrad, AssignsVariablesOnce) {
  // 1: x * v, v += 1; 2: x * v, so that the value is x (2 v + 1).
  for (const char* mode : {"eager", "staged", "lazy"}) {
    SCOPED_TRACE(mode);
    Variable v(3.0F), count(0.0F, {.trainable = false});
    const auto f = recompute_grad([&](const Tensor& x) {
      const Tensor before = x * v;
      v.assign_add(1.0F);
      count.assign(count + 1.0F);
      return before + x * v + count;
    });
    const auto step = [&](const Tensor& x) { return gradient(f, x); };
    const auto staged = function(step);
    std::optional<LazyScope> lazy;
    if (mode == std::string("lazy")) lazy.emplace();
    expect_values(mode == std::string("staged") ? staged(Tensor(2.0F)) : step(Tensor(2.0F)), {7});
    expect_values(v.read(), {4});
    expect_values(count.read(), {1});
    // The gradient by the Variable: reads after its assignment count as in a plain call.
    GradientTape tape;
    const Tensor y = f(Tensor(2.0F));
    expect_values(y, {2 * 4 + 2 * 5 + 2});
    expect_values(v.read(), {5});
    expect_values(tape.gradient(y, v), {4});
    expect_values(v.read(), {5});
  }
}

// Branches, bodies of loops and functions are traced in both runs, but their assignments happen
// once.
TEST(RecomputeGrad, TracesWhatAssignsInBothRuns) {
  for (const char* mode : {"eager", "staged", "lazy"}) {
    SCOPED_TRACE(mode);
    const Variable v(3.0F);
    const auto f = recompute_grad([&](const Tensor& x) {
      const Tensor y = cond(
          x > 0.0F, [&] { return v.assign_add(1.0F), x * v; },
          [&] { return v.assign(v * 7.0F), x; });  // 4 x
      const auto g = function([&](const Tensor& t) {
        const Tensor before = t * v;
        v.assign_add(1.0F);
        return before * v;
      });  // 4 * 5 t
      return fold([&](const Tensor& s, const Tensor& row) { return v.assign_add(row), s * v; },
                  g(y), Tensor({1.0F, 1.0F}));  // 6 * 7 s
    });
    const auto step = [&](const Tensor& x) { return gradient(f, x); };
    const auto staged = function(step);
    std::optional<LazyScope> lazy;
    if (mode == std::string("lazy")) lazy.emplace();
    expect_values(mode == std::string("staged") ? staged(Tensor(2.0F)) : step(Tensor(2.0F)),
                  {4 * 4 * 5 * 6 * 7});
    expect_values(v.read(), {7});
  }
}

TEST(RecomputeGrad, SecondRunReadsArgumentsThatAreVariablesAsTheyWere) {
  const Variable v(3.0F);
  const auto f = recompute_grad([](const Variable& w, const Tensor& x) { return x * w * w; });
  Tensor x = 2.0F;
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(v, x);
  v.assign(100.0F);
  const auto [dx, dv] = tape.gradient(y, std::tie(x, v));
  expect_values(dx, {9});
  expect_values(dv, {12});
}

// spec: CU-07
TEST(RecomputeGrad, TakesLessMemoryLazily) {
  const auto deep = [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 12; ++i) y = matmul(tanh(y), y);
    return y;
  };
  const Tensor x = random::normal({64, 64}) * 0.1F;
  const auto bytes_of = [&](const auto& block) {
    const auto loss = [&](const Tensor& t) { return sum(block(block(t))); };
    const Tensor want = gradient(loss, x);
    const LazyScope lazy;
    EXPECT_TRUE(same_value(gradient(loss, x), want));
    wait_for_compile();
    return LazyMetrics::programs().back().bytes;
  };
  const int64_t plain = bytes_of(deep);
  EXPECT_LT(3 * bytes_of(recompute_grad(deep)), 2 * plain);
}

struct Block {
  nn::BatchNorm norm{2};
};

TEST(RecomputeGrad, AnnouncesStateOnce) {
  const Tensor x({{1.0F, 2.0F}, {3.0F, 6.0F}});
  const PhaseScope training(Phase::kTraining);
  const auto plain = [](const Block& m, const Tensor& v) { return sum(square(m.norm(v)) * v); };
  const auto frugal = [](const Block& m, const Tensor& v) {
    return sum(recompute_grad([&m](const Tensor& t) { return square(m.norm(t)); })(v) * v);
  };
  const auto step = [&](const auto& loss) {
    return [&loss](Block m, const Tensor& v) {
      move(m, gradient([&](const Block& at) { return loss(at, v); }, m));
      return m;
    };
  };
  const Block fresh;
  const Block want = step(plain)(fresh, x), eager = step(frugal)(fresh, x);
  const Block staged = function<Block(Block, const Tensor&)>(step(frugal))(fresh, x);
  const Tensor mean = want.norm.running.value.mean;
  expect_values(mean, {0.02, 0.04});
  for (const Block* b : {&eager, &staged}) {
    expect_values(b->norm.scale, want.norm.scale.to_vector<double>());
    expect_values(b->norm.running.value.mean, mean.to_vector<double>());
    expect_values(b->norm.running.value.variance,
                  want.norm.running.value.variance.to_vector<double>());
  }
}

}  // namespace
}  // namespace etude::captures_test
