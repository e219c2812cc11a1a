// SPDX-License-Identifier: Apache-2.0
// The memory of models and their training, in bytes and copies.
#include <atomic>
#include <fstream>
#include <optional>
#include <thread>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include "etude/autodiff/gradient.h"
#include "etude/core/buffer.h"
#include "etude/lazy/lazy.h"
#include "etude/nn/layers/layers.h"
#include "etude/ops.h"
#include "etude/ops/random.h"
#include "etude/optim/adam.h"
#include "etude/optim/sgd.h"
#include "etude/stage/function.h"
#include "tests/live_memory.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEMORY_TEST_SANITIZED 1
#endif

#ifndef MEMORY_TEST_SANITIZED
namespace {
std::atomic<int> locks_taken{0};
thread_local bool counts_locks = false;
}  // namespace

// Replaces the function of the C library, which std::mutex calls in all libraries.
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t*);
  static const auto next = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (counts_locks) ++locks_taken;
  return next(mutex);
}
#endif

namespace etude {
namespace {

constexpr int64_t kWide = 1024;
constexpr int64_t kLayerBytes = kWide * kWide * 4;

struct Mlp {
  nn::Dense a{kWide, kWide, {.activation = nn::relu, .bias = false}};
  nn::Dense b{kWide, kWide, {.activation = nn::relu, .bias = false}};
  nn::Dense c{kWide, kWide, {.activation = nn::relu, .bias = false}};
  nn::Dense d{kWide, kWide, {.bias = false}};
  Tensor operator()(const Tensor& x) const { return d(c(b(a(x)))); }
};
constexpr int64_t kModelBytes = 4 * kLayerBytes;

int64_t resident_bytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

struct Peak {
  int64_t counted = 0;   // by the counters: the model, the optimiser and the step
  int64_t resident = 0;  // by the system, after the steps
};

enum class StepMode { kEager, kStaged, kLazy };

// The most that training steps hold, from before the model is made.
template <class Optimizer>
Peak peak_of_training(Optimizer optimizer, int64_t batch, StepMode mode = StepMode::kEager) {
  trim_memory();
  const int64_t before = tests::live_bytes(), resident = resident_bytes();
  Mlp model;
  const Tensor x = full(Shape{batch, kWide}, 0.01);
  const auto update = [](Mlp& m, Optimizer& o, const Tensor& inputs) {
    const auto [loss, grads] =
        value_with_gradient([&](const Mlp& net) { return mean(square(net(inputs))); }, m);
    o.update(m, grads);
  };
  const auto staged = function(update);
  std::optional<LazyScope> lazy;
  if (mode == StepMode::kLazy) lazy.emplace();
  const auto step = [&] {
    mode == StepMode::kStaged ? staged(model, optimizer, x) : update(model, optimizer, x);
    if (lazy) lazy_barrier({.wait = true});
  };
  for (int i = 0; i < (mode == StepMode::kEager ? 1 : 3); ++i)
    step();  // makes the state, and graphs
  reset_peak_memory();
  for (int i = 0; i < 3; ++i) step();
  return {memory_stats().peak_bytes - before, resident_bytes() - resident};
}

// spec: V25.a, V25.b, V23.d
TEST(Memory, OfATrainingStep) {
  constexpr int64_t kBatch = 4;
  constexpr int64_t kActivations = 4 * 4 * kBatch * kWide * 4;  // four of each of the four layers
  [[maybe_unused]] constexpr int64_t kCode =
      8 << 20;                             // pages of libraries, stacks, primitives of oneDNN
  peak_of_training(optim::SGD(), kBatch);  // makes the objects of the process
  const Peak sgd = peak_of_training(optim::SGD({.lr = 0.01}), kBatch);
  EXPECT_LE(sgd.counted, 1.05 * 2 * kModelBytes + kActivations);
  EXPECT_GE(sgd.counted, 2 * kModelBytes) << "the model and its gradient at least";
  const Peak adam = peak_of_training(optim::Adam({.lr = 0.01}), kBatch);
  EXPECT_LE(adam.counted, 1.05 * 4 * kModelBytes + kActivations);
  EXPECT_GE(adam.counted, 4 * kModelBytes) << "two moments besides";
#ifndef MEMORY_TEST_SANITIZED
  EXPECT_LE(sgd.resident, 1.05 * 2 * kModelBytes + kActivations + kCode);
  EXPECT_LE(adam.resident, 1.05 * 4 * kModelBytes + kActivations + kCode);
#endif
}

// spec: V25.c, V25.d
TEST(Memory, OfATrainingStepInGraphsAndLazily) {
  constexpr int64_t kBatch = 4;
  constexpr int64_t kActivations = 4 * 4 * kBatch * kWide * 4;
  for (const StepMode mode : {StepMode::kStaged, StepMode::kLazy}) {
    const Peak sgd = peak_of_training(optim::SGD({.lr = 0.01}), kBatch, mode);
    EXPECT_LE(sgd.counted, 1.05 * 2 * kModelBytes + kActivations);
    EXPECT_GE(sgd.counted, kModelBytes);
  }
  const Peak adam = peak_of_training(optim::Adam({.lr = 0.01}), kBatch, StepMode::kLazy);
  EXPECT_LE(adam.counted, 1.05 * 4 * kModelBytes + kActivations);
  EXPECT_GE(adam.counted, 3 * kModelBytes) << "the model and two moments";
}

// spec: V27
TEST(Memory, AccumulatedGradientsStayInPlace) {
  const Mlp model;
  const Tensor x = full(Shape{2, kWide}, 0.01), seed = full(Shape{2, kWide}, 1.0);
  const auto pull = pullback([&](const Mlp& m) { return m(x); }, model);
  auto grads = pull(seed);
  const Tensor first = grads[&Mlp::a][&nn::Dense::weight];
  const std::vector<float> once = first.to_vector<float>();
  grads += pull(seed);  // `first` shares one of the four leaves: that one is copied
  const void* a = TensorAccess::data(grads[&Mlp::a][&nn::Dense::weight]);
  const void* d = TensorAccess::data(grads[&Mlp::d][&nn::Dense::weight]);
  const auto more = pull(seed);
  const MemoryScope scope;
  for (int i = 0; i < 3; ++i) grads += more;
  EXPECT_EQ(scope.stats().deep_copies, 0);
  EXPECT_LT(scope.stats().peak_bytes, kLayerBytes / 16);
  EXPECT_EQ(TensorAccess::data(grads[&Mlp::a][&nn::Dense::weight]), a);
  EXPECT_EQ(TensorAccess::data(grads[&Mlp::d][&nn::Dense::weight]), d);
  const MemoryScope whole;
  grads += pull(seed);
  EXPECT_LT(whole.stats().peak_bytes, 1.05 * kModelBytes) << "one gradient at a time";
  const std::vector<float> sums = grads[&Mlp::a][&nn::Dense::weight].to_vector<float>();
  for (std::size_t i = 0; i < sums.size(); i += 997) EXPECT_NEAR(sums[i], 6 * once[i], 1e-4);
}

// spec: V33
TEST(Memory, CopiesOfAModelShareWhatIsNotChanged) {
  const int64_t before = tests::live_bytes();
  const Mlp model;
  const float old = model.c.weight.data<float>()[0];
  std::vector<Mlp> copies(10, model);
  EXPECT_LT(tests::live_bytes() - before, 1.01 * kModelBytes);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    copies[i].c.weight += static_cast<double>(i + 1);
  }
  const int64_t held = tests::live_bytes() - before;
  EXPECT_GE(held, kModelBytes + 10 * kLayerBytes);
  EXPECT_LT(held, 1.01 * (kModelBytes + 10 * kLayerBytes));
  EXPECT_EQ(model.c.weight.data<float>()[0], old);
  EXPECT_EQ(copies[9].c.weight.data<float>()[0], old + 10);
  EXPECT_TRUE(shares_storage(copies[3].a.weight, model.a.weight));
}

Mlp scaled_once(Mlp model) {
  model.a.weight *= 2.0;
  return model;
}
Mlp shifted(Mlp model) {
  model.b.weight += 1.0;
  return model;
}
Mlp clipped(Mlp model) {
  model.c.weight.at(slice(0, 2)) = 0.0;
  return model;
}

// spec: V36
TEST(Memory, ATemporaryModelIsNeverCopied) {
  const int64_t before = tests::live_bytes();
  const MemoryScope scope;
  const Mlp model = clipped(shifted(scaled_once(Mlp())));
  EXPECT_EQ(scope.stats().deep_copies, 0);
  EXPECT_LT(tests::live_bytes() - before, 1.01 * kModelBytes);
  const MemoryScope moved;
  Mlp other = Mlp(model);
  other.d.weight.reset();
  const Mlp last = clipped(shifted(scaled_once(std::move(other))));
  EXPECT_EQ(moved.stats().peak_bytes / kLayerBytes, 3) << "layers that `model` still holds";
}

// The most that f and its gradient hold beyond its operand.
template <class F>
int64_t peak_of_gradient(const F& f, const Tensor& x) {
  gradient(f, x);
  const MemoryScope scope;
  gradient(f, x);
  return scope.stats().peak_bytes;
}

// spec: V42
TEST(Memory, GradientsOfInPlaceChains) {
  const Tensor x = full(Shape{1 << 16}, 1.5);
  const auto linear_in_place = [](const Tensor& t) {
    Tensor y = t * 1.0;
    for (int i = 0; i < 8; ++i) {
      y *= 1.5;
      y += t;
      y -= 0.5;
    }
    return sum(y);
  };
  const auto linear = [](const Tensor& t) {
    Tensor y = t * 1.0;
    for (int i = 0; i < 8; ++i) y = (y * 1.5 + t) - 0.5;
    return sum(y);
  };
  const auto squares_in_place = [](const Tensor& t) {
    Tensor y = t * 0.5;
    for (int i = 0; i < 8; ++i) {
      y *= t;
      y /= t + 1.0;
    }
    return sum(y);
  };
  const auto squares = [](const Tensor& t) {
    Tensor y = t * 0.5;
    for (int i = 0; i < 8; ++i) y = y * t / (t + 1.0);
    return sum(y);
  };
  EXPECT_TRUE(same_value(gradient(linear_in_place, x), gradient(linear, x)));
  EXPECT_TRUE(same_value(gradient(squares_in_place, x), gradient(squares, x)));
  EXPECT_LE(peak_of_gradient(linear_in_place, x), peak_of_gradient(linear, x));
  EXPECT_LE(peak_of_gradient(squares_in_place, x), peak_of_gradient(squares, x));
  // Nothing of a linear chain is kept: the value, the gradient and one more.
  EXPECT_LE(peak_of_gradient(linear_in_place, x), 4 * x.nbytes());
}

struct Classifier {
  nn::Dense first{16, 32, {.activation = nn::relu}};
  nn::Dense last{32, 4};
  Tensor operator()(const Tensor& x) const { return nn::softmax(last(first(x))); }
};

// spec: V54
TEST(Memory, ThreadsShareOneModel) {
  const Classifier model;
  const Tensor x = random::normal({8, 16});
  const Tensor want = model(x);
  const MemoryScope scope;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
#ifndef MEMORY_TEST_SANITIZED
        counts_locks = i > 0;  // the first call fills caches of this thread
#endif
        if (!same_value(model(x), want)) ++wrong;
      }
#ifndef MEMORY_TEST_SANITIZED
      counts_locks = false;
#endif
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(scope.stats().deep_copies, 0);
  EXPECT_LT(scope.stats().peak_bytes, 8 * 8 * 1024) << "activations only";
#ifndef MEMORY_TEST_SANITIZED
  EXPECT_EQ(locks_taken, 0);
#endif
}

}  // namespace
}  // namespace etude
