// SPDX-License-Identifier: Apache-2.0
// Tensors, contexts and the registry on several threads.
#include <mutex>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "etude/autodiff/tape/tape.h"
#include "etude/core/context/context.h"
#include "etude/ops.h"

namespace etude {
namespace {

template <class F>
void on_threads(int n, F body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& t : threads) t.join();
}

// spec: V12, V50
TEST(Threads, CopiesMayBeWrittenOnDifferentThreads) {
  const Tensor shared = full(Shape{3000}, 1.0);
  std::vector<Tensor> copies(8, shared);
  on_threads(8, [&](int i) {
    Tensor& mine = copies[static_cast<std::size_t>(i)];
    for (int k = 0; k < 100; ++k) mine += i;
  });
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(copies[static_cast<std::size_t>(i)].data<float>()[2999],
              1.0f + 100.0f * static_cast<float>(i));
  EXPECT_EQ(shared.data<float>()[0], 1);
}

// A tensor, and the number that all its elements must have.
struct Cell {
  std::mutex mutex;
  Tensor value;
  float model = 0;
};

bool holds(const Tensor& x, float wanted) {
  for (const float v : x.data<float>()) {
    if (v != wanted) return false;
  }
  return true;
}

// spec: V51
TEST(Threads, CopiesWritesAndDestructionsNeverMix) {
  constexpr int kCells = 64, kThreads = 8;
  const int steps = std::getenv("CI") != nullptr ? 125000 : 12500;
  std::vector<Cell> cells(kCells);
  for (Cell& cell : cells) cell.value = full(Shape{33}, 0.0);
  std::atomic<int> faults{0};
  on_threads(kThreads, [&](int t) {
    std::minstd_rand random(static_cast<unsigned>(t) + 1);
    Tensor mine = full(Shape{33}, 0.0);
    float model = 0;
    for (int k = 0; k < steps; ++k) {
      Cell& cell = cells[random() % kCells];
      switch (random() % 4) {
        case 0: {  // take a copy
          const std::lock_guard lock(cell.mutex);
          mine = cell.value;
          model = cell.model;
          break;
        }
        case 1: {  // hand one over
          const std::lock_guard lock(cell.mutex);
          cell.value = mine;
          cell.model = model;
          break;
        }
        case 2:  // write the own one, without a lock
          mine += 1;
          model += 1;
          break;
        default:
          if (!holds(mine, model)) ++faults;
      }
    }
  });
  EXPECT_EQ(faults, 0);
  for (const Cell& cell : cells) EXPECT_TRUE(holds(cell.value, cell.model));
}

// spec: IM-13.a, V53.a
TEST(Threads, AFreshThreadHasNoContext) {
  Tape tape;
  const TapeContext context(tape);
  const Tensor x(2.0);
  tape.watch(x);
  EXPECT_FALSE(ContextStack::is_eager());
  Tensor y;
  std::thread([&] {
    EXPECT_TRUE(ContextStack::is_eager());
    y = x * x;
  }).join();
  EXPECT_EQ(tape.size(), 0u);
  EXPECT_EQ(y.item<float>(), 4);
}

// spec: CG-17.a
TEST(Threads, OwnTapesShareTheRegistry) {
  std::vector<float> found(8);
  on_threads(8, [&](int i) {
    for (int k = 0; k < 200; ++k) {
      Tape tape;
      const TapeContext context(tape);
      const Tensor x(static_cast<double>(i));
      tape.watch(x);
      const Tensor y = x * x + x;
      found[static_cast<std::size_t>(i)] =
          tape.gradient(std::span(&y, 1), std::span(&x, 1))[0].item<float>();
    }
  });
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(found[static_cast<std::size_t>(i)], 2.0f * static_cast<float>(i) + 1);
}

}  // namespace
}  // namespace etude
