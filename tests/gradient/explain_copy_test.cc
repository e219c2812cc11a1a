// SPDX-License-Identifier: Apache-2.0
// Writes of shared tensors: the counted copies, and the owner that explain_copy() names.
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/etude.h"

namespace etude {
namespace {

// Too large for storage in the header's block, so that each copy is a buffer.
Tensor large(float value = 1) { return Tensor(std::vector<float>(4096, value)); }
int64_t copies(auto&& write) {
  const MemoryScope scope;
  write();
  return scope.stats().deep_copies;
}
void expect_explained(const std::string& fragment) {
  EXPECT_NE(explain_copy().find(fragment), std::string::npos) << explain_copy();
}
std::string line(int number) { return fmt::format("{}:{}", __FILE__, number); }

struct Conv {
  Tensor filter = large(2), bias = large(0);
};
struct Model {
  Conv conv1;
};

// spec: V44.a, V44.b
TEST(ExplainCopy, OfAnUpdateWhileAPullbackLives) {
  Model model;
  const Tensor x = large(3);
  optim::SGD sgd;
  const auto loss = [&](const Model& m) { return sum(m.conv1.filter * x + m.conv1.bias); };
  auto [value, back] = value_with_pullback(loss, model);
  const auto gradients = back(Tensor(1.0F));
  const void* bias = model.conv1.bias.data<float>().data();
  // The derivative of a product by x alone reads the filter; nothing reads the bias.
  const auto square = [&](const Model& m) { return sum(m.conv1.filter * m.conv1.filter); };
  auto [value2, back2] = value_with_pullback(square, model);
  const int made_at = __LINE__ - 2;
  EXPECT_EQ(copies([&] { sgd.update(model, gradients); }), 1);
  EXPECT_EQ(model.conv1.bias.data<float>().data(), bias);
  expect_explained("parameter 'conv1/filter' copied by SGD::update at " + line(__LINE__ - 2) +
                   ": shared with a pullback, which keeps it for the derivative of multiply at " +
                   line(made_at));
  expect_explained("Release that object before the write");
  EXPECT_EQ(back2(Tensor(1.0F)).conv1.filter.to_vector<float>()[0], 4);  // of the old filter
}

// spec: V44.a, V44.b
TEST(ExplainCopy, OfAnUpdateWhileAPersistentTapeLives) {
  Tensor x = large(2);
  GradientTape tape({.persistent = true});
  const int tape_line = __LINE__ - 1;
  tape.watch(x);
  const Tensor y = x * x;
  const int product_line = __LINE__ - 1;
  tape.stop();
  EXPECT_EQ(copies([&] { x += 1.0; }), 1);
  expect_explained("a tensor copied by add at " + line(__LINE__ - 1) +
                   ": shared with a GradientTape made at " + line(tape_line) +
                   ", which keeps it for the derivative of multiply at " + line(product_line));
  EXPECT_EQ(copies([&] { x += 1.0; }), 0);
  EXPECT_EQ(tape.gradient(y, x).has_value(), false);
}

// spec: V40.b
TEST(ExplainCopy, WhatNoDerivativeReadsIsNotKept) {
  Tensor x = large(2);
  const auto back = pullback([](const Tensor& a) { return a + 1; }, x);
  EXPECT_EQ(copies([&] { x += 1.0; }), 0);
  EXPECT_EQ(back(large(5)).to_vector<float>()[7], 5);
  auto doubled = value_with_pullback([](const Tensor& a) { return a * 2; }, x);
  Tensor& y = doubled.first;
  EXPECT_EQ(copies([&] {
              y += 1.0;
              x *= 3.0;
            }),
            0);
  EXPECT_EQ(doubled.second(large(5)).to_vector<float>()[7], 10);
}

// spec: V44.a, V44.b
TEST(ExplainCopy, SmallTensorsToo) {
  Tensor x(std::vector<float>{1, 2});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = x * x;
  EXPECT_EQ(copies([&] { x.at(0) = 5.0; }), 1);
  expect_explained("a tensor copied by an indexed write at " + line(__LINE__ - 1) +
                   ": shared with a GradientTape");
  EXPECT_EQ(tape.gradient(y, x).has_value(), false);
}

// spec: V44.b
TEST(ExplainCopy, OfACopyOfTheHandle) {
  Tensor x = large(2);
  const Tensor other = x;
  EXPECT_EQ(copies([&] { x *= 2.0; }), 1);
  expect_explained("a tensor copied by multiply at " + line(__LINE__ - 1) +
                   ": shared with another tensor");
  EXPECT_EQ(copies([&] { x += x; }), 1);  // the right side must keep its elements
}

// spec: V44.b
TEST(ExplainCopy, NothingIsClaimedOfAHolderThatIsGone) {
  Tensor x = large(2);
  {
    const auto back = pullback([](const Tensor& a) { return a * a; }, x);
    x += 1.0;
  }
  expect_explained("something that is gone by now");
}

// spec: V44.b
TEST(ExplainCopy, AsksPullbacksOfOtherThreads) {
  Tensor x = large(2);
  const auto square = [](const Tensor& a) { return a * a; };
  std::optional<decltype(pullback(square, x))> back;
  std::thread([&] { back.emplace(pullback(square, x)); }).join();
  x += 1.0;
  expect_explained("shared with a pullback, which keeps it for the derivative of multiply");
  std::thread([] { EXPECT_EQ(explain_copy(), ""); }).join();  // no write of that thread
}

}  // namespace
}  // namespace etude
