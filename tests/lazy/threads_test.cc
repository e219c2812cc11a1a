// SPDX-License-Identifier: Apache-2.0
// Lazy programs on several threads, pending values that move between them, and programs that are
// compiled in the background.
#include <cmath>
#include <latch>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etude/core/op/tier.h"
#include "etude/etude.h"
#include "etude/plan/background.h"
#include "tests/lazy_options.h"

namespace etude {
namespace {

Tensor program(int seed) {
  Tensor x = full({32}, 0.1F * static_cast<float>(seed));
  for (int i = 0; i < 50; ++i) {
    x = tanh(x * 0.9F + static_cast<float>(i)) - x;
    if (i % 7 == seed % 7) lazy_barrier();
    if (i % 11 == 0) {
      EXPECT_EQ(x.to_vector<float>().size(), 32u);
    }
  }
  return x;
}

// spec: Z60, V53.b
TEST(LazyThreads, EachHasItsOwnTrace) {
  std::vector<Tensor> want, found(8);
  for (int i = 0; i < 8; ++i) want.push_back(program(i));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&found, i] {
      const LazyScope lazy;
      found[static_cast<std::size_t>(i)] = program(i);
    });
  }
  for (std::thread& t : threads) t.join();
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_value(found[i], want[i]));
}

// spec: Z41
TEST(LazyThreads, AnotherThreadMayLook) {
  const LazyMetrics metrics;
  const LazyScope lazy;
  const Tensor x = ones({8}) * 2.0F, y = x + 1.0F;
  std::thread([&] {
    EXPECT_FALSE(is_lazy());
    EXPECT_EQ((y * 2.0F).to_vector<float>()[0], 6.0F);  // eagerly, on a pending operand
  }).join();
  EXPECT_EQ(metrics.counts().observed_elsewhere, 1);
  EXPECT_FALSE(is_pending(x));
  std::thread([&] {
    const LazyScope other;
    const Tensor z = x + ones({8}) * y;
    EXPECT_EQ(z.to_vector<float>()[0], 5.0F);
  }).join();
}

// spec: Z41
TEST(LazyThreads, AValueOutlivesItsThread) {
  Tensor x;
  std::thread([&] {
    static thread_local const LazyScope lazy;  // ends with the thread
    x = ones({4}) + 1.0F;
    EXPECT_TRUE(is_pending(x));
  }).join();
  EXPECT_EQ(x.to_vector<float>()[3], 2.0F);
}

// spec: Z41, Z60
TEST(LazyThreads, ManyLookAtOneTrace) {
  const LazyScope lazy;
  for (int round = 0; round < 50; ++round) {
    std::vector<Tensor> values;
    Tensor x = ones({16});
    for (int i = 0; i < 20; ++i) values.push_back(x = x * 0.5F + 1.0F);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([copies = values, t] {
        for (std::size_t i = static_cast<std::size_t>(t); i < copies.size(); i += 3) {
          EXPECT_EQ(copies[i].to_vector<float>().size(), 16u);
        }
      });
    }
    // Meanwhile the owner goes on: records, drops, looks.
    for (int i = 0; i < 20; ++i) {
      const Tensor y = values[static_cast<std::size_t>(i)] * x;
      if (i % 5 == 0) {
        EXPECT_GT(sum(y).item<float>(), 0.0F);
      }
      values[static_cast<std::size_t>(i)] = Tensor();
    }
    for (std::thread& t : threads) t.join();
  }
}

// A compiler that is busy until go_on().
class SlowCompiler {
 public:
  SlowCompiler() {
    is_there_ = internal::run_in_background([this] {
      begun_.count_down();
      gate_.wait();
      over_.count_down();
    });
    if (is_there_) begun_.wait();
  }
  ~SlowCompiler() { go_on(); }
  void go_on() {
    if (!is_there_) return;
    is_there_ = false;
    gate_.count_down();
    over_.wait();
  }

 private:
  bool is_there_;
  std::latch begun_{1}, gate_{1}, over_{1};
};

// If the tier is fixed to machine code, code and programs are needed at once.
bool has_fixed_tier() { return internal::fixed_tier() > internal::Tier::kNone; }

Tensor train_step(Tensor& w, const Tensor& x, float rate) {
  const auto [loss, grad] =
      value_with_gradient([&](const Tensor& v) { return mean(square(tanh(matmul(x, v)))); }, w);
  w -= grad * rate;
  return loss;
}

// spec: Z53.a
TEST(LazyBehind, NothingWaitsForTheCompiler) {
  if (has_fixed_tier()) GTEST_SKIP() << "ETUDE_TIER is 1 or 2";
  forget_lazy_programs();
  const Tensor x = full({8, 8}, 0.25F);
  Tensor eager = full({8, 8}, 0.5F), w = eager;
  lazy_barrier();
  SlowCompiler compiler;
  const LazyMetrics metrics;
  const LazyScope lazy;
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      const Tensor loss = train_step(w, x, 0.125F);
      lazy_barrier();
      Tensor want;
      std::thread([&] { want = train_step(eager, x, 0.125F); }).join();  // a thread is eager
      EXPECT_TRUE(same_value(loss, want));
      EXPECT_TRUE(same_value(w, eager));
    }
  };
  run(5);
  // The first step donates nothing, since `eager` shares the elements: two programs.
  LazyCounts c = metrics.counts();
  EXPECT_EQ(c.executes, 5);
  EXPECT_EQ(c.unready, 5);
  EXPECT_EQ(c.compiles, 0);
  EXPECT_EQ(c.fallbacks, 0);
  EXPECT_TRUE(LazyMetrics::programs().empty());
  compiler.go_on();
  wait_for_compile();
  EXPECT_EQ(metrics.counts().compiles, 2) << metrics.to_string();
  run(5);
  c = metrics.counts();
  EXPECT_EQ(c.executes, 10);
  EXPECT_EQ(c.unready, 5);
  EXPECT_EQ(c.hits + c.misses, c.executes);
  EXPECT_EQ(c.compiles, 2);
  EXPECT_EQ(LazyMetrics::programs().back().uses, 5);
  EXPECT_NE(metrics.to_string().find("before their program was ready: 5"), std::string::npos);
}

// spec: Z53.a, Z11
TEST(LazyBehind, FurtherSizesAndConstantsThatChange) {
  if (has_fixed_tier()) GTEST_SKIP() << "ETUDE_TIER is 1 or 2";
  forget_lazy_programs();
  const LazyScope lazy;
  const auto run = [](int64_t n, float factor) {
    return sum(tanh(ones({n, 3}) * 0.0F) + factor).item<float>() ==
           static_cast<float>(3 * n) * factor;
  };
  const LazyMetrics metrics;
  {
    SlowCompiler compiler;
    for (const int64_t n : {5, 7, 5, 9}) EXPECT_TRUE(run(n, 2.0F)) << n;
    EXPECT_TRUE(run(5, 3.0F));  // replaces the requested program
  }
  wait_for_compile();
  EXPECT_EQ(metrics.counts().promotions, 1);
  EXPECT_EQ(metrics.counts().unready, 5);
  EXPECT_EQ(metrics.counts().symbolic_hits, 1) << metrics.to_string();
  for (const int64_t n : {5, 7, 9}) EXPECT_TRUE(run(n, 2.0F)) << n;
  EXPECT_EQ(metrics.counts().unready, 5);
}

// spec: Z63
TEST(LazyBehind, CallByCallAStepHoldsWhatItHoldsEagerly) {
  if (has_fixed_tier()) GTEST_SKIP() << "ETUDE_TIER is 1 or 2";
  forget_lazy_programs();
  const auto peak = [](bool lazily) {
    std::vector<Tensor> w(6, full({128, 128}, 0.01F));
    const Tensor x = full({1024, 128}, 0.5F);
    const auto loss_of = [&](const std::vector<Tensor>& v) {
      Tensor y = x;
      for (const Tensor& each : v) y = tanh(matmul(y, each)) * 0.5F;
      return mean(square(y));
    };
    std::optional<LazyScope> lazy;
    if (lazily) lazy.emplace();
    int64_t most = 0;
    for (int i = 0; i < 3; ++i) {
      const int64_t before = memory_stats().live_bytes;
      reset_peak_memory();
      const auto grads = gradient(loss_of, w);
      for (std::size_t k = 0; k < w.size(); ++k) w[k] -= grads[k] * 0.1F;
      lazy_barrier();
      most = memory_stats().peak_bytes - before;
    }
    return most;
  };
  const int64_t eager = peak(false);
  SlowCompiler compiler;
  const LazyMetrics metrics;
  EXPECT_LE(peak(true), eager + 4096);  // headers of the tensors that wait
  EXPECT_EQ(metrics.counts().unready, metrics.counts().executes);
}

// spec: Z53.a
TEST(LazyBehind, MoreThanCanWaitIsNotAskedFor) {
  if (has_fixed_tier()) GTEST_SKIP() << "ETUDE_TIER is 1 or 2";
  const ChangedLazyOptions options([](LazyOptions& o) { o.max_compiles = 0; });
  const auto run = [](int n) {
    const LazyScope lazy;
    Tensor x = ones({4}, {.dtype = kFloat64});
    for (int i = 0; i < n; ++i) x = x + x;
    return x.to_vector<double>()[3] == std::ldexp(1.0, n);
  };
  const LazyMetrics metrics;
  {
    SlowCompiler compiler;
    for (int n = 1; n <= 100; ++n) EXPECT_TRUE(run(n)) << n;
  }
  wait_for_compile();
  EXPECT_EQ(metrics.counts().unready, 100);
  EXPECT_EQ(metrics.counts().compiles, 64);
}

// spec: Z54
TEST(LazyBehind, ALineThatCompilesTooOften) {
  if (has_fixed_tier()) GTEST_SKIP() << "ETUDE_TIER is 1 or 2";
  const ChangedLazyOptions options([](LazyOptions& o) { o.max_compiles = 2; });
  const WarningHandler handler = set_warning_handler([](std::string_view) {});
  const LazyMetrics metrics;
  {
    const LazyScope lazy;
    for (int i = 1; i <= 6; ++i) {
      Tensor x = Tensor({0.5});
      for (int k = 0; k < i; ++k) x = x + x;
      EXPECT_EQ(x.item<float>(), static_cast<float>(1 << i) * 0.5F);
      wait_for_compile();
    }
  }
  EXPECT_EQ(metrics.counts().compiles, 2);
  EXPECT_EQ(metrics.counts().over_limit, 4);
  set_warning_handler(handler);
}

// The thread that makes programs is not there in the child, which has one of its own.
TEST(LazyBehind, AChildOfForkMakesItsOwn) {
#ifdef ETUDE_TSAN
  GTEST_SKIP() << "the thread sanitizer starts no threads in a child of fork";
#endif
  forget_lazy_programs();
  const auto run = [](int n) {
    const LazyScope lazy;
    Tensor x = ones({4});
    for (int i = 0; i < n; ++i) x = x + x;
    return x.to_vector<float>()[3] == static_cast<float>(1 << n);
  };
  for (int n = 1; n < 12; ++n) EXPECT_TRUE(run(n));  // some are waiting
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const LazyMetrics metrics;
    for (int n = 1; n < 20; ++n) {
      if (!run(n)) _exit(1);
    }
    wait_for_compile();
    for (int n = 1; n < 20; ++n) {
      if (!run(n)) _exit(2);
    }
    _exit(LazyMetrics::programs().size() == 19 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  wait_for_compile();
  EXPECT_TRUE(run(5));
}

}  // namespace
}  // namespace etude
