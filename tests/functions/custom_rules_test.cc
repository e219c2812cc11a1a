// SPDX-License-Identifier: Apache-2.0
// Custom rules in staged functions: every derivative of the function uses the rule, inside and
// outside, in every mode. Recomputation computes values again that it did not keep.
#include <cmath>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "etude/plan/plan.h"
#include "tests/expect_error.h"
#include "tests/live_memory.h"

namespace etude {
namespace {

using internal::Plan;
using tests::expect_error;

using Floats = std::vector<float>;

// Rules with wrong derivatives, so that a mode that ignores the rule is detected.
const auto kSquare = custom_gradient([](const Tensor& x) {  // slope 3x, second slope 3
  return std::pair{x * x, [x](const Tensor& dy) { return 3.0F * dy * x; }};
});
const auto kProduct = custom_gradient([](const Tensor& x, const Tensor& w) {  // 5 w and 7 x
  return std::pair{x * w, [=](const Tensor& dy) {
                     return std::tuple{5.0F * dy * w, 7.0F * dy * x};
                   }};
});
const auto kTwo = custom_gradient([](const Tensor& x) {  // (x, 2x) with slopes 10 and 100
  return std::pair{std::tuple(x * 1.0F, 2.0F * x),
                   [](const Tensor& da, const Tensor& db) { return 10.0F * da + 100.0F * db; }};
});

template <class F>
auto slope(const F& f) {
  return [f](const Tensor& x) { return gradient([&](const Tensor& t) { return sum(f(t)); }, x); };
}
template <class F>
auto forward(const F& f) {
  return [f](const Tensor& x) { return jvp(f, x, ones(x.shape())).second; };
}
template <class F>
auto batched(const F& f) {
  return [f](const Tensor& x) { return vmap([&](const Tensor& e) { return f(e); })(x); };
}
// Compares `mode` of f, `mode` of the staged f, and the whole as one staged function. With two
// modes around a call, the outer mode adds all contributions of the call at once, so the last bits
// may differ.
template <class Mode, class F>
void expect_same(const char* what, const Mode& mode, const F& f, const Tensor& x,
                 float tolerance = 0) {
  const Tensor want = mode(f)(x);
  const auto staged = function<Tensor(const Tensor&)>(f);
  const Tensor outside = mode([&](const Tensor& t) { return staged(t); })(x);
  const bool is_near = all(abs(outside - want) <= tolerance * (1.0F + abs(want))).item<bool>();
  EXPECT_TRUE(is_near) << what << ": " << outside << want;
  const Tensor whole = function<Tensor(const Tensor&)>(mode(f))(x);
  EXPECT_TRUE(same_value(whole, want)) << what << ", staged as a whole: " << whole << want;
}
// By one mode and by each pair of two.
template <class F>
void expect_same_in_all_modes(const F& f, const Tensor& x) {
  const auto s = [](const auto& g) { return slope(g); };
  const auto j = [](const auto& g) { return forward(g); };
  const auto b = [](const auto& g) { return batched(g); };
  expect_same("gradient", s, f, x);
  expect_same("jvp", j, f, x);
  expect_same("vmap", b, f, x);
  expect_same(
      "gradient of gradient", [&](const auto& g) { return s(s(g)); }, f, x, 1e-6F);
  expect_same(
      "jvp of gradient", [&](const auto& g) { return j(s(g)); }, f, x, 1e-6F);
  expect_same(
      "gradient of jvp", [&](const auto& g) { return s(j(g)); }, f, x, 1e-6F);
  expect_same(
      "jvp of jvp", [&](const auto& g) { return j(j(g)); }, f, x, 1e-6F);
  expect_same(
      "vmap of gradient", [&](const auto& g) { return b(s(g)); }, f, x, 1e-6F);
  expect_same(
      "gradient of vmap", [&](const auto& g) { return s(b(g)); }, f, x, 1e-6F);
  expect_same(
      "vmap of jvp", [&](const auto& g) { return b(j(g)); }, f, x, 1e-6F);
  expect_same(
      "jvp of vmap", [&](const auto& g) { return j(b(g)); }, f, x, 1e-6F);
}

const Tensor kXs = Tensor({1.25F, 2.0F, 3.0F});

// spec: CU-05.b, D47.a
TEST(CustomRules, HoldInEveryMode) {
  expect_same_in_all_modes([](const Tensor& x) { return kSquare(x); }, kXs);
  expect_same_in_all_modes([](const Tensor& x) { return kProduct(x, tanh(x)) * x; }, kXs);
  expect_same_in_all_modes(
      [](const Tensor& x) {
        const auto [a, b] = kTwo(sin(x));
        return a * b;
      },
      kXs);
  expect_same_in_all_modes(
      [](const Tensor& x) {
        return with_derivative(x * x, [](const Tensor& dy) { return 2.0F * dy; });
      },
      kXs);
}

TEST(CustomRules, AreAskedForFromOutside) {
  const auto straight = custom_gradient(
      [](const Tensor& x) { return std::pair(round(x), [](const Tensor& dy) { return dy; }); });
  const auto f = function([&](const Tensor& x) { return sum(straight(x) * 3.0F); });
  const Tensor x({0.3, 0.8});
  EXPECT_EQ(gradient([&](const Tensor& t) { return f(t); }, x).to_vector<float>(), (Floats{3, 3}));
  EXPECT_EQ(jvp([&](const Tensor& t) { return f(t); }, x, ones({2})).second.item<float>(), 6);
  const auto w = function([](const Tensor& a, const Tensor& b) { return sum(kProduct(a, b)); });
  const auto [da, db] = gradient([&](const Tensor& a, const Tensor& b) { return w(a, b); },
                                 Tensor(2.0F), Tensor(3.0F));
  EXPECT_EQ(da.item<float>(), 15);
  EXPECT_EQ(db.item<float>(), 14);
}

TEST(CustomRules, HoldInBranchesAndLoops) {
  expect_same_in_all_modes(
      [](const Tensor& x) {
        return cond(
            sum(x) > 0.0F, [&] { return kSquare(x) * x; }, [&] { return x; });
      },
      kXs);
  expect_same(
      "gradient of a fold", [](const auto& g) { return slope(g); },
      [](const Tensor& x) {
        return fold([&](const Tensor& s, const Tensor& row) { return kProduct(s, row); },
                    Tensor(1.0F), x);
      },
      kXs);
  expect_same(
      "gradient of a recomputed fold", [](const auto& g) { return slope(g); },
      [](const Tensor& x) {
        return recompute_grad([](const Tensor& t) {
          return fold([](const Tensor& s, const Tensor& row) { return tanh(s * row); },
                      Tensor(1.0F), t);
        })(x);
      },
      kXs);
}

// (x, 2x), by a rule that looks which of its cotangents arrived: slopes 3, 5, or 7 and 11.
const auto kTelling = custom_gradient([](const Tensor& x) {
  return std::pair{std::tuple(x * 1.0F, 2.0F * x), [](const Tensor& da, const Tensor& db) {
                     if (!db.has_value()) return 3.0F * da;
                     if (!da.has_value()) return 5.0F * db;
                     return 7.0F * da + 11.0F * db;
                   }};
});

// spec: TP-22.c
TEST(CustomRules, ToldWhichCotangentsArriveStaged) {
  const auto first = [](const Tensor& x) { return std::get<0>(kTelling(x)); };
  const auto second = [](const Tensor& x) { return std::get<1>(kTelling(x)); };
  const auto both = [](const Tensor& x) {
    const auto [a, b] = kTelling(x);
    return a + b;
  };
  const auto stopped = [](const Tensor& x) {
    const auto [a, b] = kTelling(x);
    return stop_gradient(a) + b;
  };
  const auto expect_slopes = [&] {
    EXPECT_TRUE(same_value(slope(first)(kXs), full({3}, 3.0F)));
    const auto expect_staged = [](const auto& f, float want) {
      const auto staged = function<Tensor(const Tensor&)>(f);
      const Tensor slopes = full({3}, want);
      EXPECT_TRUE(same_value(slope([&](const Tensor& t) { return staged(t); })(kXs), slopes));
      EXPECT_TRUE(
          same_value(batched(slope([&](const Tensor& t) { return staged(t); }))(kXs), slopes));
      EXPECT_TRUE(
          same_value(slope(batched([&](const Tensor& t) { return staged(t); }))(kXs), slopes));
      EXPECT_TRUE(same_value(function<Tensor(const Tensor&)>(slope(f))(kXs), slopes));
    };
    expect_staged(first, 3);
    expect_staged(second, 5);
    expect_staged(both, 18);
    expect_staged(stopped, 5);
    expect_staged(
        [&](const Tensor& x) {
          return cond(
              sum(x) > -100.0F, [&] { return first(x); }, [&] { return x; });
        },
        3);
  };
  expect_slopes();
  // Forward mode goes by the rule for all cotangents.
  EXPECT_TRUE(same_value(forward(function<Tensor(const Tensor&)>(second))(kXs), full({3}, 11.0F)));
  const LazyScope lazy;
  expect_slopes();
}

// A rule that cannot do without a cotangent is an error where that is missing, as eagerly.
TEST(CustomRules, AreRefusedForCotangentsThatTheyLackStaged) {
  const auto f = function([](const Tensor& x) { return std::get<0>(kTwo(x)); });
  const auto sums = function([](const Tensor& x) {
    const auto [a, b] = kTwo(x);
    return a + b;
  });
  EXPECT_TRUE(same_value(f(kXs), kXs));
  EXPECT_TRUE(same_value(slope(sums)(kXs), full({3}, 110.0F)));
  expect_error([&] { slope(f)(kXs); }, ErrorCode::kInvalidArgument,
               {"gradient of custom_gradient", "absent"});
}

// For more than four results missing cotangents are zeros: there would be too many cases.
TEST(CustomRules, SeeZerosForMissingOnesOfManyResultsStaged) {
  const auto five = custom_gradient([](const Tensor& x) {
    return std::pair{std::tuple(x * 1.0F, x * 1.0F, x * 1.0F, x * 1.0F, x * 1.0F),
                     [](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d,
                        const Tensor& e) { return a + 2.0F * b + 3.0F * c + 4.0F * d + 5.0F * e; }};
  });
  const auto f = function([&](const Tensor& x) { return std::get<1>(five(x)); });
  EXPECT_TRUE(same_value(slope(f)(kXs), full({3}, 2.0F)));
}

// spec: CU-01.c, D45.b
TEST(CustomRules, FixNumericsStaged) {
  const auto log1pexp = custom_gradient([](const Tensor& x) {
    Tensor e = exp(x);
    return std::pair{log(1.0F + e),
                     [e](const Tensor& dy) { return dy * (1.0F - 1.0F / (1.0F + e)); }};
  });
  const auto f = function([&](const Tensor& x) { return log1pexp(x); });
  EXPECT_EQ(gradient([&](const Tensor& x) { return f(x); }, Tensor(100.0F)).item<float>(), 1);
}

// spec: CU-02.a
TEST(CustomRules, CountGradientsStaged) {
  const auto wrong = custom_gradient([](const Tensor& x, const Tensor& y) {
    return std::pair{x * y, [](const Tensor& dy) { return dy; }};
  });
  const auto f = function([&](const Tensor& x) { return wrong(x, x); });
  EXPECT_EQ(f(Tensor(3.0F)).item<float>(), 9);  // nobody asks for its derivative
  expect_error([&] { gradient([&](const Tensor& x) { return f(x); }, Tensor(1.0F)); },
               ErrorCode::kInvalidArgument,
               {"gradient of custom_gradient", "1 gradients for 2 inputs"});
  expect_error([&] { jvp([&](const Tensor& x) { return f(x); }, Tensor(1.0F), Tensor(1.0F)); },
               ErrorCode::kInvalidArgument, {"custom_gradient", "1 gradients for 2 inputs"});
}

TEST(CustomRules, GiveWhatFitsTheInputStaged) {
  const auto rule = custom_gradient([](const Tensor& x) {
    return std::pair{sum(x), [](const Tensor& dy) { return dy * ones({7}); }};
  });
  const std::string at = "custom_rules_test.cc:" + std::to_string(__LINE__ - 3);
  const auto f = function([&](const Tensor& x) { return rule(x); });
  const auto g = function([&](const Tensor& x) { return gradient(rule, x); });
  const auto expect_refusal = [&](const auto& run) {
    expect_error(run, ErrorCode::kInvalidArgument,
                 {"custom_gradient", "returned a gradient float32[7] for input 0", at});
  };
  EXPECT_EQ(f(kXs).item<float>(), 6.25F);  // nobody asks for its derivative
  expect_refusal([&] { gradient([&](const Tensor& x) { return f(x); }, kXs); });
  expect_refusal([&] { jvp([&](const Tensor& x) { return f(x); }, kXs, ones({3})); });
  expect_refusal([&] { g(kXs); });
  const LazyScope lazy;
  expect_refusal([&] { gradient(rule, kXs); });
}

TEST(CustomRules, SayWhyARuleIsNoGraph) {
  const auto expect_fault = [](const auto& pull, std::string_view why) {
    const auto rule = custom_gradient([&](const Tensor& x) { return std::pair{x * x, pull}; });
    const auto f = function<Tensor(const Tensor&)>([&](const Tensor& x) { return rule(x); });
    EXPECT_TRUE(same_value(f(Tensor(3.0F)), Tensor(9.0F)));
    expect_error([&] { gradient([&](const Tensor& x) { return f(x); }, Tensor(1.0F)); },
                 ErrorCode::kInvalidArgument, {"gradient of custom_gradient", why});
  };
  Variable v(1.0F, {.name = "v"});
  expect_fault([](const Tensor& dy) { return Tensor(2 * dy.item<float>()); },
               "it has no elements before the function runs");
  expect_fault([](const Tensor& dy) { return dy * random::uniform({}); },
               "the pullback draws random numbers, but runs in a graph");
  expect_fault([&](const Tensor& dy) { return v.assign(dy), dy; },
               "the pullback assigns Variable 'v', but runs in a graph");
  std::optional<Variable> made;
  expect_fault([&](const Tensor& dy) { return made.emplace(1.0F), dy; },
               "the pullback makes Variable");
}

TEST(CustomRules, HaveNoForwardModeUnlessLinear) {
  const auto f = function([](const Tensor& x) {
    return with_derivative(x, [](const Tensor& dy) { return minimum(maximum(dy, -1.0F), 1.0F); });
  });
  const auto g = [&](const Tensor& x) { return 5.0F * f(x); };
  EXPECT_EQ(gradient(g, Tensor(2.0F)).item<float>(), 1);
  expect_error([&] { jvp(g, Tensor(2.0F), Tensor(1.0F)); }, ErrorCode::kInvalidArgument,
               {"forward mode needs a pullback that is linear in its cotangents, but maximum"});
}

// spec: CU-03.a, CU-03.b
TEST(CustomRules, AskForVariablesStaged) {
  Variable v(3.0F, {.name = "scale"});
  const auto bare = custom_gradient([&](const Tensor& x) {
    return std::pair{x * v, [](const Tensor& dy) { return dy; }};
  });
  const auto f = function([&](const Tensor& x) { return bare(x); });
  expect_error([&] { f(Tensor(2.0F)); }, ErrorCode::kFailedPrecondition,
               {"custom_gradient", "'scale'"});
  const auto full = custom_gradient([&](const Tensor& x) {
    return std::pair{x * v, [x](const Tensor& dy, std::span<const Variable>) {
                       return std::pair{dy * 100.0F, std::vector<Tensor>{dy * x}};
                     }};
  });
  const auto g = function([&](const Tensor& x) { return full(x); });
  const Tensor x = 2.0F;
  GradientTape tape;
  tape.watch(x);
  const Tensor y = g(x);
  const auto [dx, dv] = tape.gradient(y, std::tie(x, v));
  EXPECT_EQ(dx.item<float>(), 100);
  EXPECT_EQ(dv.item<float>(), 2);
  // A Variable that only the pullback reads has its value at the call.
  const auto scaled = custom_gradient([&](const Tensor& t) {
    return std::pair{t * t, [&v](const Tensor& dy) { return dy * v; }};
  });
  const auto h = function([&](const Tensor& t) { return scaled(t); });
  EXPECT_EQ(gradient([&](const Tensor& t) { return h(t); }, Tensor(5.0F)).item<float>(), 3);
  v.assign(4.0F);
  EXPECT_EQ(gradient([&](const Tensor& t) { return h(t); }, Tensor(5.0F)).item<float>(), 4);
}

// spec: CU-05.b
TEST(CustomRules, MayGiveTheirInput) {
  const auto same = custom_gradient([](const Tensor& x) {
    return std::pair{x, [x](const Tensor& dy) { return dy * x * 7.0F; }};
  });
  expect_same_in_all_modes([&](const Tensor& x) { return same(x) * x; }, kXs);
  const auto f = function([&](const Tensor& x) { return same(x); });
  EXPECT_EQ(gradient([&](const Tensor& x) { return f(x); }, Tensor(2.0F)).item<float>(), 14);
}

// spec: CU-09.b
TEST(CustomRules, ClosuresDieWithTheGraph) {
  const auto token = std::make_shared<int>(1);
  {
    const auto g = function([weak = std::weak_ptr(token)](const Tensor& x) {
      const auto held = weak.lock();
      return custom_gradient([held](const Tensor& t) {
        return std::pair{t * t, [held](const Tensor& dy) { return dy; }};
      })(x);
    });
    EXPECT_EQ(gradient([&](const Tensor& x) { return g(x); }, Tensor(2.0F)).item<float>(), 1);
    EXPECT_EQ(token.use_count(), 1);  // the rule is a graph now
  }
  const auto use = [] {
    const auto f = function([kept = ones({7})](const Tensor& x) {
      return custom_gradient([kept](const Tensor& t) {
        return std::pair{t * t, [kept](const Tensor& dy) { return dy * kept; }};
      })(x);
    });
    gradient([&](const Tensor& x) { return sum(f(x)); }, ones({7}));
  };
  use();
  const int64_t before = tests::live_tensors();
  for (int i = 0; i < 3; ++i) use();
  EXPECT_EQ(tests::live_tensors(), before);
}

// spec: CU-06.b
TEST(RecomputeGrad, RunsAgainStaged) {
  const auto cube = recompute_grad([](const Tensor& x) { return x * x * x; });
  expect_same_in_all_modes([&](const Tensor& x) { return cube(tanh(x)); }, kXs);
  Variable v(3.0F);
  const auto scaled = recompute_grad([&](const Tensor& x) { return x * v * v; });
  const auto f = function([&](const Tensor& x) { return scaled(x); });
  const Tensor x = 2.0F;
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(x);
  v.assign(100.0F);
  const auto [dx, dv] = tape.gradient(y, std::tie(x, v));
  EXPECT_EQ(dx.item<float>(), 9);
  EXPECT_EQ(dv.item<float>(), 12);
}

TEST(RecomputeGrad, ReplaysDrawsFromOutside) {
  const auto noisy = recompute_grad(
      [](const Tensor& x) { return sum(tanh(x * random::normal({4})) * random::normal({4})); });
  const auto loss = [&](const Tensor& x) { return noisy(x) + sum(random::normal({4})); };
  const Tensor x = ones({4});
  const auto seeded = [&](const auto& f) {
    const SeedScope seed(5);
    return value_with_gradient(f, x);
  };
  const auto f = function(loss);
  const auto want = seeded(loss), got = seeded([&](const Tensor&t) { return f(t); });
  EXPECT_TRUE(same_value(got.first, want.first));
  EXPECT_TRUE(same_value(got.second, want.second));
}

Tensor deep(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < 8; ++i) y = tanh(y) * exp(y * 0.25F);
  return y;
}
template <class Block>
Tensor chain(const Block& block, const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < 6; ++i) y = block(y);
  return sum(y);
}
int count_of(const Graph& graph, std::string_view op) {
  int count = 0;
  for (std::size_t i = 0; i < graph.size(); ++i) count += graph.node(i).op.name() == op ? 1 : 0;
  return count;
}

// spec: CU-07
TEST(RecomputeGrad, TakesLessMemoryStaged) {
  const auto cheap = recompute_grad(deep);
  const Tensor x = random::normal({1024});
  const auto graph_of = [&](const auto& block) {
    const auto f = function([&](const Tensor& t) {
      return gradient([&](const Tensor& s) { return chain(block, s); }, t);
    });
    EXPECT_TRUE(same_value(f(x), gradient([&](const Tensor& s) { return chain(block, s); }, x)));
    return GraphRef(&f.traces()[0].graph());
  };
  const GraphRef plain = graph_of(deep), again = graph_of(cheap);
  EXPECT_LT(2 * Plan::of(*again)->arena_bytes(), Plan::of(*plain)->arena_bytes());
  const PassScope one_by_one("fuse_elementwise");
  const GraphRef ready = run_passes(*again);
  // No pass merges the second run with the first, but the value of the last block is not needed.
  EXPECT_EQ(count_of(*ready, "tanh"), (2 * 6 - 1) * 8);
  EXPECT_EQ(count_of(*run_passes(*plain), "tanh"), 6 * 8);
}

// spec: CU-07
TEST(RecomputeGrad, KeepsInputsOnlyAcrossTheCall) {
  const auto bytes_between = [&](const auto& block) {
    const auto f = function([&](const Tensor& t) { return chain(block, t); });
    const Tensor x = random::normal({1024});
    const auto run = [&] {
      GradientTape tape;
      tape.watch(x);
      const int64_t before = tests::live_bytes();
      const Tensor y = f(x);
      const int64_t kept = tests::live_bytes() - before;
      const Tensor want = gradient([&](const Tensor& s) { return chain(block, s); }, x);
      EXPECT_TRUE(same_value(tape.gradient(y, x), want));
      return kept;
    };
    run();
    return run();
  };
  const int64_t kBlocks = 6, kBytes = 4 * 1024;
  EXPECT_LE(bytes_between(recompute_grad(deep)), (kBlocks + 1) * kBytes);
  EXPECT_GT(bytes_between(deep), 3 * kBlocks * kBytes);
}

}  // namespace
}  // namespace etude
