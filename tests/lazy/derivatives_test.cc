// SPDX-License-Identifier: Apache-2.0
// Derivatives over the lazy context: recorded as all else, and with the bits of eager ones.
#include <utility>
#include <variant>

#include <gtest/gtest.h>

#include "etude/etude.h"

namespace etude::derivatives_test {
namespace {

struct Net {
  nn::Dense hidden{4, 8, {.activation = nn::relu}};
  nn::Dense output{8, 3};
  Tensor operator()(const Tensor& x) const { return output(hidden(x)); }
};

// spec: Z19.a
TEST(LazyDerivatives, TheGradientOfThreeCallsIsOneRun) {
  const auto f = [](const Tensor& x) { return sum(tanh(x * x)); };
  const Tensor x = Tensor({0.5, -1.0, 2.0});
  const Tensor want = gradient(f, x);
  const LazyMetrics metrics;
  const LazyScope lazy;
  const Tensor found = gradient(f, x);
  EXPECT_EQ(metrics.counts().executes, 0);
  EXPECT_TRUE(same_value(found, want));
  EXPECT_EQ(metrics.counts().executes, 1);
  EXPECT_EQ(metrics.counts().observations, 1);
}

// spec: Z34.c, D27.f
TEST(LazyDerivatives, TapesJvpAndVmapLieOverIt) {
  const auto f = [](const Tensor& x) { return sum(exp(x * 0.5F) * x); };
  const Tensor x = Tensor({0.5, -1.0, 2.0}), v = Tensor({1.0, 2.0, 3.0});
  const auto all = [&] {
    std::vector<Tensor> out;
    out.push_back(gradient([&](const Tensor& y) { return sum(gradient(f, y) * v); }, x));
    out.push_back(jvp(f, std::tuple(x), std::tuple(v)).second);
    out.push_back(vmap([&](const Tensor& y) { return tanh(y) * x; })(stack({x, v})));
    GradientTape tape;
    tape.watch(x);
    const Tensor y = f(x);
    out.push_back(tape.gradient(y, x));
    return out;
  };
  const std::vector<Tensor> want = all();
  const LazyScope lazy;
  const std::vector<Tensor> found = all();
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(is_pending(found[i])) << i;
    EXPECT_TRUE(same_value(found[i], want[i])) << i;
  }
}

// spec: Z34.c
TEST(LazyDerivatives, ATapeFromOutsideFollowsLazyCalls) {
  const Tensor x = Tensor({1.0, 2.0});
  GradientTape tape;
  tape.watch(x);
  Tensor y;
  {
    const LazyScope lazy;
    y = sum(x * x * x);
  }
  EXPECT_EQ(tape.gradient(y, x).to_vector<float>(), (std::vector<float>{3, 12}));
}

// spec: Z19.b
TEST(LazyDerivatives, LayersReadNothingBack) {
  const SeedScope seed(1);
  const Net net;
  const Tensor x = random::normal({5, 4}), labels = Tensor({0, 1, 2, 0, 1});
  const auto loss = [&](const Net& m) { return nn::softmax_cross_entropy(m(x), labels); };
  const auto [value, grads] = value_with_gradient(loss, net);
  const LazyMetrics metrics;
  const LazyScope lazy;
  const auto [found, found_grads] = value_with_gradient(loss, net);
  EXPECT_EQ(metrics.counts().observations, 0);
  lazy_barrier();
  EXPECT_EQ(metrics.counts().executes, 1);
  EXPECT_TRUE(same_value(found, value));
  Net moved = net, lazily_moved = net;
  optim::SGD({.lr = 0.5}).update(moved, grads);
  optim::SGD({.lr = 0.5}).update(lazily_moved, found_grads);
  EXPECT_TRUE(same_value(moved.hidden.weight, lazily_moved.hidden.weight));
  EXPECT_TRUE(same_value(moved.output.bias, lazily_moved.output.bias));
}

// spec: D45.c
TEST(LazyDerivatives, ARuleMendsNumerics) {
  const auto log1pexp = custom_gradient([](const Tensor& x) {
    const Tensor e = exp(x);
    return std::pair{log(1.0F + e),
                     [e](const Tensor& dy) { return dy * (1.0F - 1.0F / (1.0F + e)); }};
  });
  const LazyScope lazy;
  const Tensor slope = gradient(log1pexp, Tensor(100.0F) * 1.0F);
  EXPECT_TRUE(is_pending(slope));
  EXPECT_EQ(slope.item<float>(), 1);
}

// spec: D68.b
TEST(LazyDerivatives, VariantsAsArguments) {
  using Held = std::variant<Tensor, std::pair<Tensor, Tensor>>;
  const auto f = [](const Held& held, const Tensor& x) {
    if (held.index() == 0) return x * std::get<0>(held);
    return x * std::get<1>(held).first * std::get<1>(held).second;
  };
  const LazyScope lazy;
  const auto [one, by_one] = gradient(f, Held(Tensor(10.0F)), Tensor(2.0F));
  EXPECT_EQ(std::get<0>(one).item<float>(), 2);
  EXPECT_EQ(by_one.item<float>(), 10);
  const auto [two, by_two] = gradient(f, Held(std::pair(Tensor(4.0F), Tensor(5.0F))), Tensor(2.0F));
  EXPECT_EQ(std::get<1>(two).first.item<float>(), 10);
  EXPECT_EQ(std::get<1>(two).second.item<float>(), 8);
  EXPECT_EQ(by_two.item<float>(), 20);
}

}  // namespace
}  // namespace etude::derivatives_test
