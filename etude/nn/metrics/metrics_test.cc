// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/metrics/metrics.h"

#include <gtest/gtest.h>

#include "etude/base/error.h"

namespace etude::nn {
namespace {

// spec: M1
TEST(Mean, WeighsUpdatesAndMerges) {
  Mean a, b;
  a.update(1, 3);
  b.update(5, 1);
  a.merge(b);
  EXPECT_EQ(a.result(), 2);
  a.reset();
  EXPECT_EQ(a.result(), 0);
}

// spec: V57.c
TEST(Mean, IsAValue) {
  Mean a;
  a.update(1, 1);
  Mean b = a;
  b.update(4, 2);
  EXPECT_EQ(a.result(), 1);
  EXPECT_EQ(b.result(), 3);
  Confusion counted;
  counted.update(Tensor({{1.0, 0.0}}), Tensor({0}));
  Confusion more = counted;
  more.update(Tensor({{1.0, 0.0}}), Tensor({1}));
  EXPECT_EQ(counted.samples(), 1);
  EXPECT_EQ(more.samples(), 2);
}

// spec: M2
TEST(Accuracy, IntegerOneHotAndBinaryTargets) {
  const Tensor scores({{.1, .9}, {.8, .2}, {.3, .7}, {.6, .4}});
  EXPECT_EQ(accuracy(scores, Tensor({1, 0, 0, 0})), .75);
  EXPECT_EQ(accuracy(scores, Tensor({{0, 1}, {1, 0}, {1, 0}, {0, 1}})), .5);
  EXPECT_EQ(accuracy(Tensor({.9, .2, .6}), Tensor({1, 0, 0})), 2.0 / 3);
}

// spec: M5
TEST(Confusion, CountsAndRates) {
  Confusion confusion;
  confusion.update(Tensor({{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}}), Tensor({0, 0}));
  confusion.update(Tensor({{0.0, 1.0, 0.0}, {0.0, 0.0, 1.0}}), Tensor({1, 2}));
  EXPECT_EQ(confusion.samples(), 4);
  EXPECT_EQ(confusion.accuracy(), .75);
  EXPECT_EQ(confusion.count(0, 1), 1);
  EXPECT_EQ(confusion.recall(0), .5);
  EXPECT_EQ(confusion.precision(1), .5);
  EXPECT_EQ(confusion.precision(0), 1);
  EXPECT_NEAR(confusion.f1(0), 2.0 / 3, 1e-12);
  Confusion other = confusion;
  other.merge(confusion);
  EXPECT_EQ(other.samples(), 8);
  EXPECT_EQ(confusion.samples(), 4);
  const std::string_view names[] = {"cat", "dog", "cow"};
  const std::string table = confusion.to_string(names);
  EXPECT_NE(table.find("cat"), std::string::npos);
  EXPECT_NE(table.find("0.500"), std::string::npos);
}

TEST(Confusion, MistakesAreNamed) {
  Confusion confusion;
  const auto message = [](auto fn) -> std::string {
    try {
      fn();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const Tensor scores({{1.0, 0.0}});
  Confusion outside;
  outside.update(scores, Tensor({2}));
  EXPECT_NE(message([&] { outside.accuracy(); }).find("1 labels are outside [0, 2)"),
            std::string::npos);
  EXPECT_NE(message([&] {
              confusion.update(scores, Tensor({0, 1}));
            }).find("1 predictions, but 2 labels"),
            std::string::npos);
  confusion.update(scores, Tensor({0}));
  EXPECT_NE(message([&] {
              confusion.update(Tensor({{1.0, 0.0, 0.0}}), Tensor({0}));
            }).find("3 classes, but 2 before"),
            std::string::npos);
}

}  // namespace
}  // namespace etude::nn
