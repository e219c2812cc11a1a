// SPDX-License-Identifier: Apache-2.0
// Every layer gives the bits of its eager call, and its gradients, where it is an argument of a
// staged function and where it runs lazily; layers with other options are other functions.
#include <gtest/gtest.h>

#include "etude/core/ambient.h"
#include "etude/nn/activations.h"
#include "etude/nn/convolution.h"
#include "etude/nn/layers.h"
#include "etude/nn/norm.h"
#include "etude/nn/sequential.h"
#include "etude/ops.h"
#include "etude/ops/random.h"
#include "etude/runtime/function.h"
#include "etude/runtime/gradient.h"
#include "etude/runtime/lazy.h"
#include "tests/same_numbers.h"

namespace etude {
namespace {

using etude::testing::same_numbers;

// The result, and how its square moves the input and the parameters.
template <class Layer>
std::vector<Tensor> outcome(const Layer& layer, const Tensor& x) {
  std::vector<Tensor> out = {layer(x)};
  out.push_back(gradient([&](const Tensor& v) { return sum(square(layer(v))); }, x));
  if constexpr (HasLeaf<Layer, Tensor>::value) {
    const auto moved = gradient([&](const Layer& l) { return sum(square(l(x))); }, layer);
    for_each_leaf<Tensor>(moved, [&](const Tensor& g) {
      if (g.has_value()) out.push_back(g);
    });
  }
  return out;
}

void expect_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_numbers(a[i], b[i])) << what << i;
}

// `other` has other options than `layer`.
template <class Layer>
void check(const char* name, const Layer& layer, const Layer& other, const Tensor& x) {
  SCOPED_TRACE(name);
  for (const Phase phase : {Phase::kInference, Phase::kTraining}) {
    const PhaseScope scope(phase);
    set_seed(3);
    const std::vector<Tensor> eager = outcome(layer, x), otherwise = outcome(other, x);
    const auto staged = function([](const Layer& l, const Tensor& v) { return outcome(l, v); });
    set_seed(3);
    expect_same(eager, staged(layer, x), "staged, result ");
    expect_same(otherwise, staged(other, x), "staged with other options, result ");
    set_seed(3);
    std::vector<Tensor> lazy;
    {
      const LazyScope recorded;
      lazy = outcome(layer, x);
    }
    expect_same(eager, lazy, "lazy, result ");
  }
}

TEST(LayerModes, StagedAndLazyLayersGiveTheBitsOfEagerOnes) {
  set_seed(2);
  const Tensor images = random::normal({2, 6, 6, 3}), rows = random::normal({4, 6});
  using namespace nn;
  check("Dense", Dense(6, 3, {.activation = relu}), Dense(6, 3, {.activation = tanh}), rows);
  check("Conv2D", Conv2D(3, 3, 4, {.padding = "same"}), Conv2D(3, 3, 4, {.strides = 2}), images);
  check("MaxPool2D", MaxPool2D(2), MaxPool2D(3), images);
  check("AvgPool2D", AvgPool2D(2), AvgPool2D(3), images);
  check("BatchNorm", BatchNorm(3), BatchNorm(3, {.epsilon = .1}), images);
  check("Flatten", Flatten(), Flatten(), images);
  check("Reshape", Reshape({36, 3}), Reshape({3, 36}), images);
  check("Dropout", Dropout(.5), Dropout(.25), rows);
  check("Function", nn::Function(relu), nn::Function(gelu), rows);
  check("Sequential", Sequential(Flatten(), Dropout(.5), Dense(108, 2)),
        Sequential(Flatten(), Dropout(.1), Dense(108, 2)), images);
}

}  // namespace
}  // namespace etude
