// SPDX-License-Identifier: Apache-2.0
// Lazy programs on several threads, and pending values that move between them.
#include <thread>

#include <gtest/gtest.h>

#include "etude/etude.h"

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

// spec: Z60
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

}  // namespace
}  // namespace etude
