// SPDX-License-Identifier: Apache-2.0
// Random draws inside vmap. The reference is a loop over the examples with explicit keys: the key
// of a draw, with the index of the example folded in.
// spec: D38, C3.a
#include <functional>

#include <gtest/gtest.h>

#include "etude/core/call/graph_calls.h"
#include "etude/device/cpu/parallel.h"
#include "etude/etude.h"
#include "tests/expect_error.h"
#include "tests/recording.h"

namespace etude::vmap_draws_test {
namespace {

using tests::expect_error;
using Floats = std::vector<float>;
using Map = std::function<Tensor(const Tensor&)>;

constexpr uint64_t kSeed = 7;
const VmapOptions kDifferent{.randomness = "different"}, kSame{.randomness = "same"};

Tensor rows() { return Tensor(Floats{1, 2, 3, 0.5F, 0, -1, 4, 4, 4, -2, 1, 0}, Shape{4, 3}); }

// A call of each function that draws: without a key it takes the next one of the thread.
struct Draw {
  const char* name;
  Tensor (*of)(const Tensor& x, const Tensor& key);
};
const Draw kDraws[] = {
    {"uniform",
     [](const Tensor& x, const Tensor& key) { return random::uniform({}, {.key = key}) + x; }},
    {"uniform between",
     [](const Tensor& x, const Tensor& key) {
       return random::uniform({2, 3}, {.low = x - 1.0F, .high = x + 2.0F, .key = key});
     }},
    {"normal",
     [](const Tensor& x, const Tensor& key) {
       return random::normal({5, 3}, {.mean = x, .dtype = kFloat64, .key = key});
     }},
    {"truncated_normal",
     [](const Tensor& x, const Tensor& key) {
       return random::truncated_normal({3}, {.stddev = abs(x), .key = key});
     }},
    {"randint",
     [](const Tensor&, const Tensor& key) { return random::randint({7}, -3, 100, {.key = key}); }},
    {"bernoulli",
     [](const Tensor& x, const Tensor& key) {
       return random::bernoulli(exp(-abs(x)), {}, {.key = key});
     }},
    {"permutation",
     [](const Tensor&, const Tensor& key) { return random::permutation(9, {.key = key}); }},
    {"categorical",
     [](const Tensor& x, const Tensor& key) { return random::categorical(x, {8}, {.key = key}); }},
    {"shuffle",
     [](const Tensor& x, const Tensor& key) { return random::shuffle(x, {.key = key}); }},
    {"choice",
     [](const Tensor& x, const Tensor& key) {
       return random::choice(x, 2, {.replace = false, .key = key});
     }},
    {"weighted choice",
     [](const Tensor& x, const Tensor& key) {
       return random::choice(x, 2,
                             {.replace = false, .p = Tensor({0.5F, 0.25F, 0.25F}), .key = key});
     }},
    {"attention",
     [](const Tensor& x, const Tensor& key) {
       const Tensor q = reshape(x, {3, 1});
       return nn::scaled_dot_product_attention(q, q, q, {.dropout = 0.5, .key = key});
     }},
};

// The ways to run a vmap.
struct Mode {
  const char* name;
  Tensor (*run)(const Map& f, const VmapOptions& options, const Tensor& xs);
};
const Mode kModes[] = {
    {"eager", [](const Map& f, const VmapOptions& o, const Tensor& xs) { return vmap(f, o)(xs); }},
    {"staged",
     [](const Map& f, const VmapOptions& o, const Tensor& xs) {
       return function([&](const Tensor& x) { return vmap(f, o)(x); })(xs);
     }},
    {"of a staged function",
     [](const Map& f, const VmapOptions& o, const Tensor& xs) {
       const auto staged = function(f);
       return vmap([&](const Tensor& x) { return staged(x); }, o)(xs);
     }},
    {"staged of a staged function",
     [](const Map& f, const VmapOptions& o, const Tensor& xs) {
       const auto staged = function(f);
       return function([&](const Tensor& all) {
         return vmap([&](const Tensor& x) { return staged(x); }, o)(all);
       })(xs);
     }},
    {"lazy",
     [](const Map& f, const VmapOptions& o, const Tensor& xs) {
       const LazyScope lazy;
       return vmap(f, o)(xs);
     }},
};

// The result in each mode, from the same seed, is `want`.
void expect_in_all_modes(const Map& f, const VmapOptions& options, const Tensor& xs,
                         const Tensor& want) {
  for (const Mode& mode : kModes) {
    SCOPED_TRACE(mode.name);
    const SeedScope seed(kSeed);
    const Tensor got = mode.run(f, options, xs);
    EXPECT_TRUE(same_value(got, want)) << got.to_string() << "\nwant " << want.to_string();
  }
}

// The key of draw d after SeedScope(kSeed).
Tensor key_of(uint64_t draw) {
  Generator generator(kSeed);
  generator.position = draw;
  return generator.next_key();
}

// f(x, key) for each example, with the index of the example folded into the key.
Tensor in_a_loop(const std::function<Tensor(const Tensor&, const Tensor&)>& f, const Tensor& xs,
                 const Tensor& key) {
  std::vector<Tensor> out;
  for (int64_t i = 0; i < xs.shape()[0]; ++i) {
    out.push_back(f(xs.at(i), random::fold_in(key, i)));
  }
  return stack(out);
}

TEST(VmapDraws, DifferAsInALoopThatFoldsTheIndexIn) {
  for (const Draw& draw : kDraws) {
    SCOPED_TRACE(draw.name);
    const Map f = [&](const Tensor& x) { return draw.of(x, {}); };
    const Tensor want = in_a_loop(draw.of, rows(), key_of(0));
    expect_in_all_modes(f, kDifferent, rows(), want);
  }
}

TEST(VmapDraws, AreTheSameForAllExamplesIfAskedFor) {
  for (const Draw& draw : kDraws) {
    SCOPED_TRACE(draw.name);
    std::vector<Tensor> want;
    for (int64_t i = 0; i < 4; ++i) want.push_back(draw.of(rows().at(i), key_of(0)));
    expect_in_all_modes([&](const Tensor& x) { return draw.of(x, {}); }, kSame, rows(),
                        stack(want));
  }
}

TEST(VmapDraws, OfAStagedFunctionAtManySizes) {
  const auto f = function([](const Tensor& xs) {
    return vmap([](const Tensor& x) { return x + random::uniform({}); }, kDifferent)(xs);
  });
  const auto drawn = [](const Tensor& x, const Tensor& key) {
    return x + random::uniform({}, {.key = key});
  };
  for (const int64_t n : {2, 3, 5, 8, 13, 4}) {
    const SeedScope seed(kSeed);
    EXPECT_TRUE(same_value(f(zeros({n})), in_a_loop(drawn, zeros({n}), key_of(0)))) << n;
  }
}

TEST(VmapDraws, TakeOneKeyOfTheSequenceEach) {
  const Map f = [](const Tensor& x) {
    const Tensor first = random::normal({3});
    return x + first * random::uniform({3});
  };
  std::vector<Tensor> want;
  for (int64_t i = 0; i < 4; ++i) {
    want.push_back(rows().at(i) + random::normal({3}, {.key = random::fold_in(key_of(0), i)}) *
                                      random::uniform({3}, {.key = random::fold_in(key_of(1), i)}));
  }
  expect_in_all_modes(f, kDifferent, rows(), stack(want));
  for (const VmapOptions& options : {kSame, kDifferent}) {
    const SeedScope seed(kSeed);
    vmap(f, options)(rows());
    EXPECT_EQ(ambient().generator.position, 2U) << options.randomness;
  }
}

// spec: T2.b
TEST(VmapDraws, HaveTheSameBitsForAnyNumberOfThreads) {
  const Tensor xs = zeros({3, 1});
  const auto f = [](const Tensor& x) { return x + random::normal({20001}); };
  std::vector<Tensor> got;
  for (const int threads : {1, 2, 7}) {
    set_thread_count(threads);
    const SeedScope seed(kSeed);
    got.push_back(vmap(f, kDifferent)(xs));
  }
  set_thread_count(0);
  EXPECT_TRUE(same_value(got[0], got[1]));
  EXPECT_TRUE(same_value(got[0], got[2]));
  EXPECT_FALSE(same_value(got[0].at(0), got[0].at(1)));
}

TEST(VmapDraws, OfNestedVmapsDifferByBothIndices) {
  const auto nested = [](const VmapOptions& outer, const VmapOptions& inner) {
    const SeedScope seed(kSeed);
    return vmap(
        [&](const Tensor& row) {
          return vmap([](const Tensor& x) { return x + random::uniform({}); }, inner)(row);
        },
        outer)(zeros({2, 3}));
  };
  const auto draw = [](const Tensor& key) { return random::uniform({}, {.key = key}); };
  const Tensor key = key_of(0);
  const auto expect_keys = [&](const Tensor& got, const auto& key_at) {
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t j = 0; j < 3; ++j) {
        EXPECT_TRUE(same_value(got.at(i, j), draw(key_at(i, j)))) << i << " " << j;
      }
    }
  };
  expect_keys(nested(kDifferent, kDifferent),
              [&](int64_t i, int64_t j) { return random::fold_in(random::fold_in(key, i), j); });
  expect_keys(nested(kDifferent, kSame),
              [&](int64_t i, int64_t) { return random::fold_in(key, i); });
  expect_keys(nested(kSame, kDifferent),
              [&](int64_t, int64_t j) { return random::fold_in(key, j); });
  for (const VmapOptions& other : {kSame, kDifferent}) {
    expect_error([&] { nested(other, {}); }, ErrorCode::kFailedPrecondition, {"random.uniform: "});
    expect_error([&] { nested({}, other); }, ErrorCode::kFailedPrecondition, {"random.uniform: "});
  }
}

// Keys in loops and branches: the key of the loop, with the numbers of step and draw folded in.
TEST(VmapDraws, OfLoopsAndBranches) {
  const auto key_in = [](int64_t example, int64_t step) {
    return random::fold_in(random::fold_in(random::fold_in(key_of(0), example), step), 0);
  };
  const Map loop = [](const Tensor& n) {
    return std::get<1>(while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
                                  [](const Tensor& i, const Tensor& s) {
                                    return std::tuple(i + 1.0F, s + random::uniform({}));
                                  },
                                  std::tuple(zeros_like(n), zeros_like(n))));
  };
  const Tensor steps(Floats{1, 2, 3, 0});
  std::vector<Tensor> want;
  for (int64_t i = 0; i < 4; ++i) {
    Tensor sum(0.0F);
    for (int64_t step = 0; step < static_cast<int64_t>(steps.at(i).item<float>()); ++step) {
      sum = sum + random::uniform({}, {.key = key_in(i, step)});
    }
    want.push_back(sum);
  }
  expect_in_all_modes(loop, kDifferent, steps, stack(want));

  const Map scanned = [](const Tensor& x) {
    return scan([](const Tensor& s,
                   const Tensor& v) { return std::pair(s, v + random::uniform({})); },
                Tensor(0.0F), x)
        .second;
  };
  std::vector<Tensor> all;
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t step = 0; step < 3; ++step) {
      all.push_back(rows().at(i, step) + random::uniform({}, {.key = key_in(i, step)}));
    }
  }
  expect_in_all_modes(scanned, kDifferent, rows(), reshape(stack(all), {4, 3}));

  const Map branch = [](const Tensor& x) {
    return cond(
        x > 1.5F, [] { return random::uniform({}); }, [] { return -random::uniform({}); });
  };
  std::vector<Tensor> chosen;
  for (int64_t i = 0; i < 4; ++i) {
    const Tensor key = random::fold_in(random::fold_in(key_of(0), i), 0);
    const Tensor drawn = random::uniform({}, {.key = key});
    chosen.push_back(steps.at(i).item<float>() > 1.5F ? drawn : -drawn);
  }
  expect_in_all_modes(branch, kDifferent, steps, stack(chosen));
}

TEST(VmapDraws, AreRefusedUnlessTheVmapSaysWhatTheyDo) {
  const auto expect_refusal = [](const Map& f, std::string_view name) {
    for (const Mode& mode : kModes) {
      SCOPED_TRACE(mode.name);
      expect_error(
          [&] { mode.run(f, {}, rows()); }, ErrorCode::kFailedPrecondition,
          {name, "vmap(f, {.randomness = \"different\"})", "\"same\"", "vmap_draws_test.cc"});
    }
  };
  expect_refusal([](const Tensor& x) { return x + random::normal({3}); }, "random");
  expect_refusal([](const Tensor& x) { return random::shuffle(x); }, "random");
  expect_refusal(
      [](const Tensor& x) {
        const PhaseScope training(Phase::kTraining);
        return nn::Dropout(0.5)(x);
      },
      "random");
  expect_refusal(
      [](const Tensor& x) {
        const Tensor q = reshape(x, {3, 1});
        return nn::scaled_dot_product_attention(q, q, q, {.dropout = 0.5});
      },
      "attention: ");
  expect_refusal(
      [](const Tensor& x) {
        return fold([](const Tensor& s, const Tensor& v) { return s + v * random::uniform({}); },
                    Tensor(0.0F), x);
      },
      "");
  expect_refusal(
      [](const Tensor& x) {
        return cond(
            sum(x) > 0.0F, [&] { return x; }, [&] { return x + random::uniform({}); });
      },
      "");
  expect_refusal(
      [](const Tensor& x) {
        return recompute_grad([](const Tensor& a) { return a * random::uniform({}); })(x);
      },
      "random");
  expect_error([] { vmap([](const Tensor& x) { return x * random::uniform({}); })(rows()); },
               ErrorCode::kFailedPrecondition, {"random.uniform: ", "give the draw a key"});
  // A function that was staged outside.
  const auto noisy =
      function([](const Tensor& x) { return x + random::uniform({}); }, {.name = "noisy"});
  noisy(ones({3}));
  expect_error([&] { vmap([&](const Tensor& x) { return noisy(x); })(rows()); },
               ErrorCode::kFailedPrecondition, {"random_uniform: ", "noisy", "vmap_draws_test.cc"});
}

TEST(VmapDraws, OfOtherKeysAreNotRefused) {
  // Loops take a key before it is known whether their bodies draw.
  const Map loop = [](const Tensor& x) {
    const Tensor sum = fold(
        [](const Tensor& s, const Tensor& v) {
          return cond(
              v > 0.0F, [&] { return s + v; }, [&] { return s - v; });
        },
        Tensor(0.0F), x);
    return while_loop([](const Tensor& s) { return s < 100.0F; },
                      [](const Tensor& s) { return s + s + 1.0F; }, sum);
  };
  std::vector<Tensor> want;
  for (int64_t i = 0; i < 4; ++i) want.push_back(loop(rows().at(i)));
  expect_in_all_modes(loop, {}, rows(), stack(want));
  const auto staged = function(loop);
  const Map calls = [&](const Tensor& x) { return staged(x); };
  expect_in_all_modes(calls, {}, rows(), stack(want));
  // A key that is captured, and a sequence that begins inside, are the same for all examples.
  const Tensor key = random::key(3);
  const Map keyed = [&](const Tensor& x) { return x + random::uniform({3}, {.key = key}); };
  expect_in_all_modes(keyed, {}, rows(), rows() + random::uniform({3}, {.key = key}));
  const Map seeded = [](const Tensor& x) {
    const SeedScope own(kSeed);
    return x + random::uniform({3});
  };
  expect_in_all_modes(seeded, {}, rows(), rows() + random::uniform({3}, {.key = key_of(0)}));
}

TEST(VmapDraws, WithKeysThatAreExamples) {
  const Tensor keys = random::split(random::key(11), 4);
  for (const Draw& draw : kDraws) {
    SCOPED_TRACE(draw.name);
    std::vector<Tensor> want;
    for (int64_t i = 0; i < 4; ++i) want.push_back(draw.of(rows().at(i), keys.at(i)));
    EXPECT_TRUE(same_value(vmap(draw.of)(rows(), keys), stack(want)));
  }
  const auto more = [](const Tensor& key) {
    return random::normal({2}, {.key = random::split(random::fold_in(key, 5), 3).at(2)});
  };
  std::vector<Tensor> want;
  for (int64_t i = 0; i < 4; ++i) want.push_back(more(keys.at(i)));
  EXPECT_TRUE(same_value(vmap(more)(keys), stack(want)));
}

// One batched program: as many calls for a hundred examples as for two.
TEST(VmapDraws, AreOneCallForAllExamples) {
  const auto calls = [](const Draw& draw, int64_t n) {
    const Tensor x = ones({n, 3});
    tests::RecordingContext context({&x, 1});
    const Tensor y = vmap([&](const Tensor& a) { return draw.of(a, {}); }, kDifferent)(x);
    return context.finish({&y, 1}).size();
  };
  for (const Draw& draw : kDraws) EXPECT_EQ(calls(draw, 100), calls(draw, 2)) << draw.name;
}

// Where a mask keeps an element, that is multiplied by 2, and so is its cotangent.
TEST(VmapDraws, OfDropoutInDerivatives) {
  const auto masks = [](int64_t n) {
    std::vector<Tensor> out;
    for (int64_t i = 0; i < n; ++i) {
      const Tensor kept =
          random::bernoulli(Tensor(0.5F), {6}, {.key = random::fold_in(key_of(0), i)});
      out.push_back(where(kept, 2.0F, 0.0F));
    }
    return stack(out);
  };
  const Tensor x = reshape(arange(1, {.stop = 25, .dtype = kFloat32}), {4, 6}), want = masks(4);
  const auto dropped = [](const Tensor& a) {
    const PhaseScope training(Phase::kTraining);
    return nn::Dropout(0.5)(a);
  };
  const auto loss = [&](const Tensor& a) { return sum(dropped(a)); };
  const auto recomputed = [&](const Tensor& a) { return sum(recompute_grad(dropped)(a)); };
  const auto staged = function(dropped);
  const auto of_staged = [&](const Tensor& a) { return sum(staged(a)); };
  const auto expect_masks = [&](const Map& f, const char* what) {
    SCOPED_TRACE(what);
    expect_in_all_modes([&](const Tensor& a) { return gradient(f, a); }, kDifferent, x, want);
    const SeedScope seed(kSeed);
    const auto total = [&](const Tensor& all) { return sum(vmap(f, kDifferent)(all)); };
    EXPECT_TRUE(same_value(gradient(total, x), want));
  };
  expect_masks(loss, "plain");
  expect_masks(recomputed, "recomputed");
  expect_masks(of_staged, "staged");
  const auto staged_total =
      function([&](const Tensor& all) { return sum(vmap(loss, kDifferent)(all)); });
  {
    const SeedScope seed(kSeed);
    EXPECT_TRUE(same_value(gradient(staged_total, x), want));
  }
  {
    const SeedScope seed(kSeed);
    const auto [value, moved] =
        jvp([&](const Tensor& all) { return vmap(dropped, kDifferent)(all); }, x, ones({4, 6}));
    EXPECT_TRUE(same_value(value, x * want));
    EXPECT_TRUE(same_value(moved, want));
  }
  // A gradient of captured parameters for each example.
  const SeedScope seed(kSeed);
  const Tensor w = ones({6});
  const Tensor each = vmap(
      [&](const Tensor& a) {
        return gradient([&](const Tensor& p) { return sum(dropped(a * p)); }, w);
      },
      kDifferent)(x);
  EXPECT_TRUE(same_value(each, x * want));
}

// A pullback that runs when the vmap is over follows the option as well.
TEST(VmapDraws, OfPullbacksAfterTheVmap) {
  const auto noisy = custom_gradient([](const Tensor& x) {
    return std::pair(x * 1.0F, [](const Tensor& dy) { return dy * random::uniform({}); });
  });
  const auto slopes = [&](const VmapOptions& options) {
    const SeedScope seed(kSeed);
    return gradient([&](const Tensor& x) { return sum(vmap(noisy, options)(x)); }, ones({4}));
  };
  const Tensor different = slopes(kDifferent), same = slopes(kSame);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(
        same_value(different.at(i), random::uniform({}, {.key = random::fold_in(key_of(0), i)})));
    EXPECT_TRUE(same_value(same.at(i), random::uniform({}, {.key = key_of(0)})));
  }
  expect_error([&] { slopes({}); }, ErrorCode::kFailedPrecondition, {"random.uniform: "});
}

TEST(VmapDraws, NamesWordsThatItDoesNotKnow) {
  const auto f = [](const Tensor& x) { return x; };
  expect_error([&] { vmap(f, {.randomness = "none"}); }, ErrorCode::kInvalidArgument,
               {"vmap: option 'randomness' is 'none', but must be 'error', 'same' or 'different'",
                "vmap_draws_test.cc"});
  const auto number = [](double x) { return x * x; };
  expect_error(
      [&] {
        vmap(number, kSame)(std::vector<double>{1, 2});
      },
      ErrorCode::kInvalidArgument, {"vmap: randomness is 'same'", "vectors of points"});
}

}  // namespace
}  // namespace etude::vmap_draws_test
