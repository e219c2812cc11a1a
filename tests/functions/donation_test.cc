// SPDX-License-Identifier: Apache-2.0
// In-out arguments of staged functions are updated in their own memory, but never while another
// handle, another argument or an error could show the write.
#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;
using Floats = std::vector<float>;

const void* address(const Tensor& x) { return x.data<float>().data(); }

constexpr int64_t kLarge = 5000;  // too large for storage in the header's block

// spec: V45.b
TEST(Donation, UpdatesInPlaceWhatNobodyElseHolds) {
  const auto f = function([](Tensor& x, const Tensor& y) { x += y; });
  for (const int64_t n : {int64_t{3}, kLarge}) {
    Tensor x = ones({n});
    const Tensor y = ones({n});
    const void* before = address(x);
    for (int i = 0; i < 3; ++i) f(x, y);
    EXPECT_EQ(address(x), before);
    EXPECT_TRUE(same_value(x, full({n}, 4.0F)));
  }
}

// spec: V45.c
TEST(Donation, ASecondHandleKeepsItsValue) {
  const auto f = function([](Tensor& x) { x += 1.0F; });
  for (const int64_t n : {int64_t{3}, kLarge}) {
    Tensor x = zeros({n});
    f(x);
    const Tensor copy = x;
    std::vector<Tensor> held = {x};
    f(x);
    EXPECT_TRUE(same_value(copy, ones({n})));
    EXPECT_TRUE(same_value(held[0], ones({n})));
    EXPECT_TRUE(same_value(x, full({n}, 2.0F)));
    Tensor row = zeros({2, n});
    const Tensor view = reshape(row, {2 * n});
    f(row);
    EXPECT_TRUE(same_value(view, zeros({2 * n})));
  }
}

// spec: V45.c
TEST(Donation, AnArgumentThatIsAnotherOneIsReadAsItWas) {
  const auto f = function([](Tensor& x, const Tensor& y) {
    x += 1.0F;
    return x + y;
  });
  for (const int64_t n : {int64_t{3}, kLarge}) {
    Tensor x = zeros({n}), y = full({n}, 5.0F);
    EXPECT_TRUE(same_value(f(x, y), full({n}, 6.0F)));
    EXPECT_TRUE(same_value(f(x, x), full({n}, 3.0F)));
    EXPECT_TRUE(same_value(x, full({n}, 2.0F)));
    const Tensor alias = x;
    EXPECT_TRUE(same_value(f(x, alias), full({n}, 5.0F)));
    EXPECT_TRUE(same_value(alias, full({n}, 2.0F)));
  }
}

// spec: V45.c
TEST(Donation, ACaptureKeepsItsValue) {
  Tensor x = zeros({kLarge});
  const auto f = function([c = x](Tensor& y) {
    y += 1.0F;
    return y + c;
  });
  EXPECT_TRUE(same_value(f(x), ones({kLarge})));
  EXPECT_TRUE(same_value(f(x), full({kLarge}, 2.0F)));
  EXPECT_TRUE(same_value(f(x), full({kLarge}, 3.0F)));
}

TEST(Donation, SwappedAndUnchangedArgumentsAreWhatTheyShouldBe) {
  const auto f = function([](Tensor& a, Tensor& b, [[maybe_unused]] Tensor& c) {
    std::swap(a, b);
    a += 1.0F;
    return a * 2.0F;
  });
  Tensor a = full({kLarge}, 1.0F), b = full({kLarge}, 2.0F), c = full({kLarge}, 3.0F);
  for (int i = 0; i < 3; ++i) {
    const float x = a.to_vector<float>()[0], y = b.to_vector<float>()[0];
    EXPECT_EQ(f(a, b, c).to_vector<float>()[7], 2 * (y + 1));
    EXPECT_EQ(a.to_vector<float>()[0], y + 1);
    EXPECT_EQ(b.to_vector<float>()[0], x);
    EXPECT_EQ(c.to_vector<float>()[0], 3);
  }
}

struct Three {
  Tensor a = ones({kLarge}), b = ones({3}), c = ones({kLarge});
};

// A step that fails before, between or after the writes changes nothing.
// spec: IM-12.b
TEST(Donation, AFaultAnywhereLeavesArgumentsAsTheyWere) {
  for (int at = 0; at < 4; ++at) {
    const auto f = function([at](Three& m, const Tensor& i) {
      Tensor sum(0.0F);
      const auto look = [&](int here) {
        if (here == at) sum = sum + take(ones({4}), i);
      };
      look(0);
      m.a = m.a * 2.0F + 1.0F;
      look(1);
      m.b -= 3.0F;
      look(2);
      m.c = m.c * m.c + m.a;
      look(3);
      return sum;
    });
    Three m, same;
    f(m, Tensor(1));
    const Three good = {m.a * 1.0F, m.b * 1.0F, m.c * 1.0F};
    const void* const before = address(m.a);
    expect_error([&] { f(m, Tensor(9)); }, ErrorCode::kOutOfRange, {"take", "donation_test.cc"});
    EXPECT_TRUE(same_value(m.a, good.a)) << at;
    EXPECT_TRUE(same_value(m.b, good.b)) << at;
    EXPECT_TRUE(same_value(m.c, good.c)) << at;
    EXPECT_EQ(address(m.a), before);
  }
}

struct Net {
  nn::Dense hidden{20, 90, {.activation = nn::relu}};
  nn::Dense output{90, 2};
  Tensor operator()(const Tensor& x) const { return output(hidden(x)); }
};

// spec: V23.b, V45.b, V45.c
TEST(Donation, AModelAndItsOptimiserAreOnce) {
  const auto step = function([](Net& net, optim::Adam& adam, const Tensor& x) {
    adam.update(net, gradient([&](const Net& n) { return mean(square(n(x))); }, net));
  });
  Net net;
  optim::Adam adam;
  const Tensor x = ones({4, 20});
  for (int i = 0; i < 2; ++i) step(net, adam, x);  // makes the state, then the graph with it
  const void* weight = address(net.hidden.weight);
  const void* mean = address(adam.state().at("mean/hidden/weight"));
  const Net kept = net;
  step(net, adam, x);
  EXPECT_NE(address(net.hidden.weight), weight);
  EXPECT_EQ(address(kept.hidden.weight), weight);
  EXPECT_EQ(address(adam.state().at("mean/hidden/weight")), mean);
  weight = address(net.hidden.weight);
  const MemoryScope scope;
  for (int i = 0; i < 3; ++i) step(net, adam, x);
  EXPECT_EQ(address(net.hidden.weight), weight);
  EXPECT_EQ(scope.stats().deep_copies, 0);
}

// Ids that a tape knows end with the value that they were for.
TEST(Donation, APullbackOfTheOldValueStaysRight) {
  const auto f = function([](Tensor& x) { x = x * 2.0F; });
  Tensor x = full({kLarge}, 3.0F);
  auto [y, back] = value_with_pullback([](const Tensor& t) { return sum(t * t); }, x);
  f(x);
  f(x);
  EXPECT_EQ(back(Tensor(1.0F)).to_vector<float>()[0], 6.0F);
  EXPECT_EQ(x.to_vector<float>()[0], 12.0F);
  EXPECT_EQ(gradient([](const Tensor& t) { return sum(t * t); }, x).to_vector<float>()[0], 24.0F);
}

// spec: V45.a
TEST(Donation, ArgumentsByValueStayAsTheyWere) {
  const auto f = function([](Tensor x, Three m) {
    x += 1.0F;
    m.a.at(0) = 9.0F;
    m.b *= 2.0F;
    return std::tuple(x, m.a, m.b);
  });
  const Tensor x = ones({kLarge});
  const Three m, same;
  const auto [y, a, b] = f(x, m);
  EXPECT_TRUE(same_value(y, full({kLarge}, 2.0F)));
  EXPECT_EQ(a.to_vector<float>()[0], 9);
  EXPECT_TRUE(same_value(b, same.b * 2.0F));
  EXPECT_TRUE(same_value(x, ones({kLarge})));
  EXPECT_TRUE(same_value(m.a, same.a));
  EXPECT_TRUE(same_value(m.b, same.b));
}

// spec: V9.b
TEST(Donation, OneTensorForTwoInOutParametersIsRefused) {
  const auto f = function(
      [](Tensor& a, Tensor& b) {
        a += 1.0F;
        b *= 2.0F;
      },
      {.name = "both", .arg_names = {"first", "second"}});
  Tensor x = ones({3});
  expect_error([&] { f(x, x); }, ErrorCode::kInvalidArgument,
               {"first and second are the same object"});
  EXPECT_TRUE(same_value(x, ones({3})));
}

}  // namespace
}  // namespace etude
