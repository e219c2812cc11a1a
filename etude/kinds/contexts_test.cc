// SPDX-License-Identifier: Apache-2.0
// Objects by name in traces, lazy scopes, derivatives and batches, and on several threads.
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/core/context/ambient.h"
#include "etude/kinds/kinds.h"
#include "etude/lazy/lazy.h"
#include "etude/nn/layers/layers.h"
#include "etude/ops.h"
#include "etude/stage/function.h"

namespace etude::kinds {
namespace {

Made tanh_layer() {
  return make("nn.Dense", {3, 2}, {{"activation", "tanh"}, {"weight_init", "ones"}});
}
Tensor small_rows() {
  return Tensor(std::vector<float>{0.1F, -0.2F, 0.3F, 0.4F}, Shape({4, 1})) * ones({1, 3});
}

TEST(KindContexts, ALayerIsCalledInEachMode) {
  const Made layer = tanh_layer();
  const nn::Dense typed = layer.as<nn::Dense>();
  const Tensor x = small_rows(), expected = typed(x);
  const auto staged = function([&](const Tensor& t) { return layer(t); });
  EXPECT_TRUE(same_value(staged(x), expected));
  {
    const LazyScope lazy;
    EXPECT_TRUE(same_value(layer(x), expected));
  }
  const Tensor named_slope = gradient([&](const Tensor& t) { return sum(layer(t)); }, x);
  EXPECT_TRUE(same_value(named_slope, gradient([&](const Tensor& t) { return sum(typed(t)); }, x)));
  const auto batched = vmap([&](const Tensor& row) { return layer(row); });
  EXPECT_EQ(batched(x).shape(), expected.shape());
}

// Made while a function is traced, as a model made in C++ there: its weights are nodes of the
// graph.
TEST(KindContexts, ALayerIsMadeInsideOfATrace) {
  const auto staged = function([](const Tensor& t) { return tanh_layer()(t); });
  const Tensor x = small_rows();
  EXPECT_TRUE(same_value(staged(x), tanh_layer()(x)));
  EXPECT_TRUE(same_value(staged(x), tanh_layer()(x)));
}

TEST(KindContexts, ThreadsShareTheTable) {
  const std::string expected = to_json(tanh_layer().description());
  std::vector<std::string> got(4);
  std::vector<std::thread> threads;
  for (std::string& text : got) {
    threads.emplace_back([&text, &expected] {
      for (int i = 0; i < 20; ++i) text = to_json(make(from_json(expected)).description());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : got) EXPECT_EQ(text, expected);
}

}  // namespace
}  // namespace etude::kinds
