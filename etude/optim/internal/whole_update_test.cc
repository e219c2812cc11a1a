// SPDX-License-Identifier: Apache-2.0
// An update without memory changes neither the model nor the optimiser, whatever the rule and the
// transforms. tests/failures fails each allocation; here the limit of the library refuses tensors.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/buffer.h"
#include "etude/core/context/ambient.h"
#include "etude/diff/differentiable.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "etude/optim/adam_rules.h"
#include "etude/optim/adaptive_rules.h"
#include "etude/optim/descent_rules.h"
#include "etude/optim/sgd.h"
#include "etude/optim/tensor_rules.h"
#include "etude/optim/transforms.h"
#include "tests/expect_error.h"

namespace etude::optim::whole_update_test {

// A direction: v has the length 1.
struct Sphere {
  Tensor v;
};

}  // namespace etude::optim::whole_update_test

template <>
struct etude::DifferentiableTraits<etude::optim::whole_update_test::Sphere> {
  using Sphere = etude::optim::whole_update_test::Sphere;
  using Tangent = Tensor;
  static Tensor zero(const Sphere& x) { return zeros_like(x.v); }
  static void move(Sphere& x, const Tensor& by) {
    x.v = x.v + by;  // a failure between the two leaves it half moved
    x.v = x.v / sqrt(sum(square(x.v)));
  }
};

namespace etude::optim::whole_update_test {
namespace {

constexpr int64_t kSize = 10'000;  // 40 KB, so that the limit of memory refuses it

Tensor ramp(const Shape& shape, double scale) {
  return reshape(sin(astype(arange(shape.count()), kFloat32)) * scale, shape.to_vector());
}

struct Vectors {
  Tensor first = ramp({kSize}, 1), second = ramp({kSize}, 2), third = ramp({kSize}, 3);
};
struct Matrices {
  Tensor first = ramp({100, 100}, 1), second = ramp({100, 100}, 2), vector = ramp({kSize}, 3);
};
struct Sphere3 {
  Tensor before = ramp({kSize}, 1);
  Sphere sphere{ramp({kSize}, .01)};
  Tensor after = ramp({kSize}, 2);
};
Vectors slopes_of(const Vectors&) { return {ramp({kSize}, .1), ramp({kSize}, .2), {}}; }

using Bits = std::vector<std::vector<double>>;
void add_bits(Bits& to, const Tensor& x) {
  to.push_back(x.has_value() ? x.to_vector<double>() : std::vector<double>());
}
template <class Model>
Bits bits_of(const Model& model, const internal::RuleOptimizer& optimizer) {
  Bits out;
  for_each_leaf<Tensor>(model, [&](const Tensor& x) { add_bits(out, x); });
  for (const auto& [name, x] : optimizer.state()) add_bits(out, x);
  out.push_back({static_cast<double>(ambient().generator.position)});
  return out;
}

// Updates under limits of memory from none to enough. Copies share all tensors, so a step needs
// memory for each.
template <class Model, class Slopes, class Optimizer>
void expect_whole(Optimizer optimizer, std::vector<Transform> transforms, const Slopes& slopes,
                  int warm_up = 2) {
  Model model;
  optimizer.add(std::move(transforms));
  for (int i = 0; i < warm_up; ++i) optimizer.update(model, slopes);
  const Model twin = model;
  Model shared = model;
  Optimizer other = optimizer;
  const Generator generator = ambient().generator;
  other.update(shared, slopes);
  const Bits right = bits_of(shared, other);
  const Optimizer holder = optimizer;
  ambient().generator = generator;
  const Bits start = bits_of(model, optimizer);
  int failures = 0;
  for (int64_t more = 0;; more += 30'000) {
    set_memory_limit(memory_stats().live_bytes + more);
    std::string failure;
    try {
      optimizer.update(model, slopes);
    } catch (const Error& error) {
      failure = error.what();
      EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << failure;
    }
    set_memory_limit(0);
    if (failure.empty()) break;
    ++failures;
    ASSERT_TRUE(bits_of(model, optimizer) == start) << more << ": " << failure;
    ASSERT_LT(failures, 1000) << failure;
  }
  EXPECT_GE(failures, 3);  // at each of the tensors
  EXPECT_TRUE(bits_of(model, optimizer) == right);
}

template <class Optimizer>
void expect_whole(Optimizer optimizer, std::vector<Transform> transforms = {}) {
  expect_whole<Vectors>(std::move(optimizer), std::move(transforms), slopes_of({}));
}

TEST(WholeUpdate, AllRulesOfElements) {
  expect_whole(SGD({.weight_decay = .01}));
  expect_whole(SGD({.momentum = .9, .nesterov = true}));
  expect_whole(Adam());
  expect_whole(AdamW({.amsgrad = true}));
  expect_whole(AdaMax());
  expect_whole(RAdam());
  expect_whole(NAdam());
  expect_whole(AdaBelief());
  expect_whole(Yogi());
  expect_whole(ScheduleFreeAdamW());
  expect_whole(Lion());
  expect_whole(Rprop());
  expect_whole(ASGD());
  expect_whole(ScheduleFreeSGD());
  expect_whole(RMSProp({.momentum = .9, .centered = true}));
  expect_whole(AdaGrad());
  expect_whole(AdaDelta());
  expect_whole(FTRL());
  expect_whole(LARS());
  expect_whole(Muon());
  expect_whole(Shampoo());
}

TEST(WholeUpdate, AllTransforms) {
  expect_whole(Adam(), {clip_by_value(.1), centralize(), add_noise(.1)});
  expect_whole(Adam(), {clip_by_norm(.1), clip_by_global_norm(.1)});
  expect_whole(SGD(), {accumulate(3)});  // the third call updates
  expect_whole(SGD(), {accumulate(2)});  // the third call adds to the sums
  expect_whole(Adam(), {loss_scaling({.initial = 4})});
  expect_whole(Adam(), {ema(.9)});
  expect_whole(Adam(), {swa(1)});
  expect_whole(Adam(), {lookahead(3)});  // the third call sets the weights
  expect_whole(AdamW(), {accumulate(1), clip_by_norm(1), freeze("second"), lookahead(1), ema(.5)});
}

// The first update makes the state.
TEST(WholeUpdate, TheFirstUpdate) {
  expect_whole<Vectors>(Adam(), {ema(.9), accumulate(1)}, slopes_of({}), 0);
  expect_whole<Vectors>(ASGD(), {lookahead(1)}, slopes_of({}), 0);
  Adam adam;
  Vectors model;
  set_memory_limit(memory_stats().live_bytes + 50'000);
  EXPECT_THROW(adam.update(model, slopes_of({})), Error);
  set_memory_limit(0);
  EXPECT_EQ(adam.state().size(), 1U);  // the number of updates
}

TEST(WholeUpdate, PartsWithTangentsOfTheirOwn) {
  tangent_t<Sphere3> slopes = zero_tangent(Sphere3());
  slopes[&Sphere3::before] = ramp({kSize}, .1);
  slopes[&Sphere3::sphere] = ramp({kSize}, .2);
  slopes[&Sphere3::after] = ramp({kSize}, .3);
  expect_whole<Sphere3>(SGD({.momentum = .9}), {}, slopes);
  expect_whole<Sphere3>(AdamW(), {accumulate(3)}, slopes);
}

// Steps that make tensors of the size of their parameter move the parameters one by one.
template <class Optimizer>
void expect_told(Optimizer optimizer) {
  Matrices model;
  const Matrices slopes{ramp({100, 100}, .1), ramp({100, 100}, .2), ramp({kSize}, .3)};
  optimizer.update(model, slopes);
  const Matrices twin = model;
  const Optimizer kept = optimizer;
  bool is_told = false;
  for (int64_t more = 0; !is_told; more += 20'000) {
    Matrices trial = twin;
    Optimizer at = kept;
    set_memory_limit(memory_stats().live_bytes + more);
    std::string failure;
    try {
      at.update(trial, slopes);
    } catch (const Error& error) {
      failure = error.what();
    }
    set_memory_limit(0);
    ASSERT_FALSE(failure.empty()) << "no limit lies between two parameters";
    const bool has_moved = !same_value(trial.first, twin.first);
    is_told =
        tests::contains(failure, "1 of 3 parameters have moved, the last of them 'first', but");
    EXPECT_EQ(has_moved, tests::contains(failure, "have moved")) << failure;
    EXPECT_EQ(at.updates(), kept.updates());
    EXPECT_EQ(has_moved, tests::contains(failure, "::update: ")) << failure;
    EXPECT_TRUE(same_value(trial.vector, twin.vector)) << failure;
    EXPECT_TRUE(has_moved || bits_of(trial, at) == bits_of(twin, kept)) << failure;
  }
}

TEST(WholeUpdate, LargeStepsAreCompleteOneByOne) {
  expect_told(LAMB());
  expect_told(Adafactor());
  expect_told(Muon());
}

// With one large step nothing has moved when it fails.
TEST(WholeUpdate, OneLargeStepIsWhole) {
  struct One {
    Tensor matrix = ramp({100, 100}, 1), vector = ramp({kSize}, 2);
  };
  const One slopes{ramp({100, 100}, .1), ramp({kSize}, .2)};
  expect_whole<One>(Muon(), {}, slopes);
  expect_whole<One>(Shampoo(), {}, slopes);
}

}  // namespace
}  // namespace etude::optim::whole_update_test
