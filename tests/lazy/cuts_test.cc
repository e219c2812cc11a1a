// SPDX-License-Identifier: Apache-2.0
// Cuts, the programs that they make, and how these are found again.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/lazy_options.h"
#include "tests/warnings.h"

namespace etude {
namespace {

// The tests of this program count compiles, so a segment waits for its program here. The tests in
// threads_test.cc do not wait.
class ProgramsAtOnce : public ::testing::Environment {
 public:
  void SetUp() override {
    LazyOptions options = lazy_options();
    options.background = false;
    set_lazy_options(options);
  }
};
const ::testing::Environment* const kProgramsAtOnce =
    ::testing::AddGlobalTestEnvironment(new ProgramsAtOnce);

// spec: Z6
TEST(LazyCuts, ABarrierRunsAllThatIsPending) {
  lazy_barrier();  // eagerly nothing
  const LazyMetrics metrics;
  const LazyScope lazy;
  const Tensor x = ones({4}) + 1.0F, y = ones({4}) * 3.0F;
  EXPECT_GT(pending_nodes(), 0);
  lazy_barrier({.wait = true});
  EXPECT_EQ(pending_nodes(), 0);
  EXPECT_FALSE(is_pending(x));
  EXPECT_FALSE(is_pending(y));
  EXPECT_EQ(metrics.counts().barrier_cuts, 1);
  {
    const StepScope step;
    const Tensor z = x * y;
    EXPECT_TRUE(is_pending(z));
  }
  EXPECT_EQ(metrics.counts().barrier_cuts, 1);  // z had no owner
  const Tensor z = x * y;
  { const StepScope step; }
  EXPECT_EQ(metrics.counts().barrier_cuts, 2);
  EXPECT_FALSE(is_pending(z));
}

// A training step of a linear model.
Tensor step(Tensor& w, const Tensor& x, const Tensor& y, const Tensor& rate) {
  auto [loss, grad] = value_with_gradient(
      [&](const Tensor& v) {
        const Tensor e = matmul(x, v) - y;
        return mean(e * e);
      },
      w);
  w -= rate * grad;
  return loss;
}

// spec: Z12.b, Z42.a
TEST(LazyCuts, EqualStepsShareAProgram) {
  const SeedScope seed(1);
  const Tensor x = random::normal({16, 8}), y = random::normal({16, 1});
  Tensor eager = zeros({8, 1}), w = eager;
  std::vector<float> want;
  for (int i = 0; i < 100; ++i) want.push_back(step(eager, x, y, Tensor(0.05F)).item<float>());
  const LazyMetrics metrics;
  {
    const LazyScope lazy;
    for (int i = 0; i < 100; ++i) {
      const StepScope at_its_end;
      const Tensor loss = step(w, x, y, Tensor(0.05F));
      if (i % 10 == 0) {
        EXPECT_EQ(loss.item<float>(), want[static_cast<std::size_t>(i)]);
      }
    }
    EXPECT_TRUE(same_value(w, eager));
  }
  const LazyCounts c = metrics.counts();
  EXPECT_LE(c.compiles, 5) << metrics.to_string();
  EXPECT_EQ(c.hits + c.misses, c.executes);
  EXPECT_EQ(c.fallbacks, 0);
}

// spec: Z7.a
TEST(LazyCuts, AHundredStepsAreTwoPrograms) {
  const Tensor x = ones({8, 8});
  const LazyMetrics metrics;
  {
    const LazyScope lazy;
    Tensor w = x;
    for (int i = 0; i < 100; ++i) {
      w = tanh(w * 0.9F + x);
      lazy_barrier();
    }
  }
  EXPECT_LE(metrics.counts().compiles, 2) << metrics.to_string();
  EXPECT_EQ(metrics.counts().executes, 100);
  EXPECT_GE(metrics.counts().hits, 98);
}

// spec: Z7.b
TEST(LazyCuts, CollisionsGiveNoWrongValues) {
  const ChangedLazyOptions options([](LazyOptions& o) { o.force_collisions = true; });
  const LazyMetrics metrics;
  const LazyScope lazy;
  for (int round = 0; round < 3; ++round) {
    const Tensor x = ones({4});
    EXPECT_EQ((x + x).to_vector<float>()[0], 2.0F);
    EXPECT_EQ((x - x).to_vector<float>()[0], 0.0F);
    EXPECT_EQ((x * x).to_vector<float>()[0], 1.0F);
  }
  EXPECT_GT(metrics.counts().collisions, 0);
  EXPECT_LE(metrics.counts().compiles, 4);
}

// spec: Z8
TEST(LazyCuts, NumbersOfTheHostCompileNothing) {
  forget_lazy_programs();
  const LazyScope lazy;
  Tensor w = ones({4});
  const LazyMetrics metrics;
  for (int i = 0; i < 100; ++i) {
    w = w * (0.3F + 0.001F * static_cast<float>(i)) + static_cast<float>(i + 7);
    lazy_barrier();
  }
  EXPECT_LE(metrics.counts().compiles, 2) << metrics.to_string();
  EXPECT_EQ(metrics.counts().promotions, 0);
}

// spec: Z9
TEST(LazyCuts, AConstantThatChangesBecomesAnInputOnce) {
  forget_lazy_programs();
  const LazyScope lazy;
  const Tensor x = Tensor({1.0, 2.0});
  const auto run = [&](float number) { return (x * number).to_vector<float>()[1]; };
  EXPECT_EQ(run(2), 4.0F);
  const LazyMetrics metrics;
  EXPECT_EQ(run(3), 6.0F);
  EXPECT_EQ(metrics.counts().promotions, 1);
  EXPECT_EQ(metrics.counts().compiles, 1);
  for (const float number : {4.0F, 5.0F, 6.0F, 2.0F, 1.0F}) EXPECT_EQ(run(number), 2 * number);
  EXPECT_EQ(metrics.counts().promotions, 1);
  EXPECT_EQ(metrics.counts().compiles, 1);
}

// spec: Z13.a
TEST(LazyCuts, ALoopWithoutABarrierIsCutWhereItRepeats) {
  forget_lazy_programs();
  const LazyMetrics metrics;
  const MemoryScope memory;
  for (int loop = 0; loop < 20; ++loop) {
    const LazyScope lazy;
    Tensor x = ones({16});
    for (int i = 0; i < 4000; ++i) x = tanh(x * 0.9F) + exp(x) * 0.01F - x;  // 6 calls
    EXPECT_LE(pending_nodes(), 4096);
    lazy_barrier();
  }
  EXPECT_GE(metrics.counts().automatic_cuts, 20 * 5);
  EXPECT_LE(metrics.counts().compiles, 3) << metrics.to_string();
  EXPECT_LT(memory.stats().peak_bytes, 16 << 20);
}

// spec: Z13.b
TEST(LazyCuts, ATraceThatHoldsMuchIsCut) {
  const ChangedLazyOptions options([](LazyOptions& o) { o.live_bytes = 1 << 20; });
  const LazyMetrics metrics;
  const LazyScope lazy;
  Tensor x = ones({100, 100});
  for (int i = 0; i < 1000; ++i) x = x * 0.5F + x;
  EXPECT_GE(metrics.counts().automatic_cuts, 20);
}

struct Net {
  nn::Dense hidden{40, 50, {.activation = nn::relu}};
  nn::Dense output{50, 30};
  Tensor operator()(const Tensor& x) const { return output(hidden(x)); }
};

// spec: Z17
TEST(LazyCuts, ParametersAreUpdatedInTheirMemory) {
  const SeedScope seed(1);
  Net net, eager = net;
  optim::SGD optimizer({.lr = 0.1}), eager_optimizer({.lr = 0.1});
  const Tensor x = random::normal({5, 40}), labels = Tensor({0, 1, 2, 0, 1});
  const auto update = [&](Net& m, optim::SGD& o) {
    const auto grads =
        gradient([&](const Net& n) { return nn::softmax_cross_entropy(n(x), labels); }, m);
    o.update(m, grads);
  };
  const LazyScope lazy;
  const auto step = [&] {
    const LazyMetrics metrics;
    update(net, optimizer);
    lazy_barrier();
    return metrics.counts();
  };
  step();
  step();
  const LazyCounts third = step();
  EXPECT_EQ(third.donations, 4);
  EXPECT_EQ(third.executes, 1);
  EXPECT_EQ(third.compiles, 0);
  const Tensor kept = net.output.weight, before = kept + 0.0F;
  EXPECT_EQ(step().donations, 3);
  EXPECT_EQ(step().donations, 4);
  EXPECT_TRUE(same_value(kept, before));
  for (int i = 0; i < 5; ++i) update(eager, eager_optimizer);
  EXPECT_TRUE(same_value(net.hidden.weight, eager.hidden.weight));
}

// spec: Z17, V24.d
TEST(LazyCuts, WhichInputsDieIsPartOfTheProgram) {
  forget_lazy_programs();
  const LazyMetrics metrics;
  const LazyScope lazy;
  const auto run = [](bool keep) {
    Tensor t = full({64, 64}, 1.0F);
    lazy_barrier();
    const Tensor held = keep ? t : Tensor();
    t = t + 2.0F;
    const Tensor more = t + 1.0F;
    lazy_barrier();
    return std::pair(t.to_vector<float>()[0], more.to_vector<float>()[0]);
  };
  EXPECT_EQ(run(true), std::pair(3.0F, 4.0F));
  EXPECT_EQ(run(false), std::pair(3.0F, 4.0F));
  EXPECT_EQ(metrics.counts().compiles, 3) << metrics.to_string();
}

// spec: Z54
TEST(LazyCuts, ALineThatCompilesTooOftenCompilesNoMore) {
  const ChangedLazyOptions options([](LazyOptions& o) { o.max_compiles = 5; });
  const tests::Warnings heard;
  const LazyMetrics metrics;
  {
    const LazyScope lazy;
    for (int i = 1; i <= 20; ++i) {
      Tensor x = Tensor({0.5});
      for (int k = 0; k < i; ++k) x = x * 0.5F;  // each time another number of calls
      EXPECT_EQ(x.item<float>(), std::ldexp(0.5F, -i));
    }
  }
  EXPECT_EQ(metrics.counts().compiles, 5);
  EXPECT_EQ(metrics.counts().over_limit, 15);
  EXPECT_EQ(metrics.counts().fallbacks, 0);
  ASSERT_EQ(heard.told.size(), 1u);
  EXPECT_NE(heard.told[0].find("cuts_test.cc:"), std::string::npos) << heard.told[0];
  EXPECT_NE(heard.told[0].find("were compiled 5 times"), std::string::npos) << heard.told[0];
  EXPECT_NE(heard.told[0].find("but it has 5 nodes, was 4"), std::string::npos) << heard.told[0];
  EXPECT_NE(heard.told[0].find("LazyOptions::max_compiles"), std::string::npos) << heard.told[0];
}

// spec: Z40
TEST(LazyCuts, TheEndOfAScopeRunsWhatIsHeld) {
  const LazyMetrics metrics;
  Tensor x;
  {
    const LazyScope lazy;
    {
      const LazyScope inner;
      x = ones({3}) + 1.0F;
    }
    EXPECT_TRUE(is_pending(x));
    static_cast<void>(x * 2.0F);
  }
  EXPECT_FALSE(is_pending(x));
  EXPECT_FALSE(is_lazy());
  EXPECT_EQ(metrics.counts().scope_cuts, 1);
  try {
    const LazyScope lazy;
    const Tensor gone = x * 5.0F;
    x = x * 3.0F;
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(x.to_vector<float>()[2], 6.0F);
}

// spec: Z14.a, Z14.b, Z57
TEST(LazyCuts, ProgramsAreListedAndExplained) {
  forget_lazy_programs();
  const LazyMetrics metrics;
  const LazyScope lazy;
  const auto run = [](int64_t n) { return sum(ones({n}) * 2.0F).item<float>(); };
  EXPECT_EQ(run(3), 6.0F);
  EXPECT_EQ(run(4), 8.0F);
  EXPECT_EQ(run(3), 6.0F);
  const std::vector<LazyProgram> programs = LazyMetrics::programs();
  ASSERT_EQ(programs.size(), 2u);
  EXPECT_EQ(programs[0].uses, 2);
  EXPECT_EQ(programs[0].nodes, 3u);
  EXPECT_NE(programs[1].where.find("cuts_test.cc"), std::string::npos);
  ASSERT_EQ(metrics.compiles().size(), 2u);
  const std::string why = metrics.compiles()[1];
  EXPECT_NE(why.find("but node 0 is float32[4] 'full'"), std::string::npos) << why;
  EXPECT_NE(why.find("was float32[3]"), std::string::npos) << why;
  EXPECT_NE(LazyMetrics::explain(programs[0].number, programs[1].number).find("shape=[3]"),
            std::string::npos);
  EXPECT_EQ(metrics.segments().size(), 3u);
  EXPECT_EQ(metrics.execute_times().count, 3);
  EXPECT_NE(metrics.to_string().find("2 compiled, 1 hits"), std::string::npos)
      << metrics.to_string();
}

}  // namespace
}  // namespace etude
