// SPDX-License-Identifier: Apache-2.0
// Staged functions at many sizes: when two graphs become one for all sizes, and when they do not.
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::contains;

// spec: TC-14.a
TEST(Relax, TwoSizesMakeAGraphForAll) {
  int runs = 0;
  const auto body = [&](const Tensor& x) {
    ++runs;
    return mean(x * 2.0F, {.axis = {0}}) + sum(x);
  };
  const auto f = function(body);
  for (const int64_t n : {2, 3, 4, 5, 9, 2, 3, 1000}) {
    const Tensor x = random::normal({n, 2});
    const int before = runs;
    const Tensor y = f(x);
    EXPECT_LE(runs - before, n > 3 ? 0 : 1);
    EXPECT_TRUE(same_value(y, body(x))) << n;
  }
  EXPECT_EQ(f.trace_count(), 2u);
  EXPECT_TRUE(contains(f.explain(), "trace 2 (arg0: float32[n,2])")) << f.explain();
}

// spec: TC-14.b
TEST(Relax, IsSwitchedOff) {
  const auto f = function([](const Tensor& x) { return x + 1.0F; }, {.relax_shapes = false});
  for (const int64_t n : {2, 3, 4, 5}) f(ones({n}));
  EXPECT_EQ(f.trace_count(), 4u);
}

TEST(Relax, SizesThatBroadcastHaveTheirOwnTraces) {
  const auto f = function([](const Tensor& x) { return x + Tensor({1.0, 2.0, 3.0}); });
  EXPECT_EQ(f(ones({1})).shape(), Shape({3}));
  EXPECT_EQ(f(ones({3})).shape(), Shape({3}));
  EXPECT_EQ(f.trace_count(), 2u);  // at other sizes it fails
}

// spec: TC-14.a
TEST(Relax, FirstSizesOfZeroAndOneMakeAGraphForAll) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{0, 1, 2, 3}, {1, 0, 7, 1, 0}, {1, 32, 7, 0, 1}, {6, 1, 0, 2, 3}}) {
    const auto f = function([](const Tensor& x) { return sum(x * 2.0F, {.axis = {0}}); });
    for (const int64_t n : sizes) {
      EXPECT_TRUE(same_value(f(ones({n, 3})), full({3}, static_cast<float>(2 * n)))) << n;
    }
    EXPECT_EQ(f.trace_count(), 2u) << f.explain();
    EXPECT_TRUE(contains(f.explain(), "trace 2 (arg0: float32[n,3]), ")) << f.explain();
    EXPECT_TRUE(contains(f.explain(), ": arg0 is float32[" + std::to_string(sizes[1]) +
                                          ",3], was float32[" + std::to_string(sizes[0]) +
                                          ",3] in trace 1"))
        << f.explain();
  }
}

// spec: TC-14.d
TEST(Relax, MadeUpSizesThatFailOrDecideLeaveExactTraces) {
  const auto small = function([](const Tensor& x) {
    if (x.shape()[0] > 5) throw std::runtime_error("too large");
    return x + 1.0F;
  });
  for (const int64_t n : {1, 2, 3}) EXPECT_TRUE(same_value(small(ones({n})), full({n}, 2.0F)));
  EXPECT_EQ(small.trace_count(), 3u) << small.explain();
  EXPECT_THROW(small(ones({6})), std::runtime_error);
  EXPECT_EQ(small.trace_count(), 3u);

  const Tensor table = ones({6, 1}, {.dtype = kFloat64});
  int runs = 0;
  const auto outside = function([&](const Tensor& x) {  // another capture at each run
    ++runs;
    return x * (table + static_cast<double>(runs));
  });
  for (const int64_t n : {1, 2}) outside(ones({n}, {.dtype = kFloat64}));
  EXPECT_EQ(outside.trace_count(), 2u);
}

// spec: TC-14.a
TEST(Relax, MadeUpSizesAreOneWhereTheCallHasOne) {
  const auto loss = [](const Tensor& x, const std::optional<Tensor>& weight, const Tensor& y) {
    const Tensor error = sum(x, {.axis = {1}}) - y;
    return mean(weight ? error * *weight : error);
  };
  const auto f = function(loss, {.arg_names = {"x", "weight", "y"}});
  for (const int64_t n : {1, 32, 5, 0, 1}) {
    const Tensor x = random::normal({n, 3}), y = random::normal({n});
    EXPECT_TRUE(same_value(f(x, std::optional<Tensor>(), y), loss(x, std::nullopt, y))) << n;
  }
  EXPECT_EQ(f.trace_count(), 2u) << f.explain();
  EXPECT_TRUE(contains(f.explain(), "trace 2 (x: float32[n,3], ")) << f.explain();
}

// spec: TC-14.c
TEST(Relax, OnlyAxesThatDiffer) {
  const auto f = function([](const Tensor& x) { return x + x; });
  f(ones({5, 2}));
  f(ones({6, 2}));
  f(ones({7, 2}));
  EXPECT_EQ(f.trace_count(), 2u);
  f(ones({7, 3}));
  EXPECT_EQ(f.trace_count(), 3u);
  f(ones({8, 4}));
  f(ones({8}));                  // ranks never merge
  f(astype(ones({9}), kInt32));  // nor dtypes
  EXPECT_EQ(f.trace_count(), 5u);
  const auto g = function([](const Tensor& x, int k) { return x * static_cast<float>(k); });
  g(ones({2}), 1);
  g(ones({3}), 2);
  g(ones({4}), 3);
  EXPECT_EQ(g.trace_count(), 3u);  // nor host values
}

// spec: TC-14.d
TEST(Relax, HostCodeThatLooksAtASizePinsItsAxis) {
  const auto f = function([](const Tensor& x) { return x.shape()[0] > 4 ? x * 2.0F : x * 3.0F; },
                          {.arg_names = {"x"}});
  for (const int64_t n : {2, 3, 4, 5, 6}) {
    EXPECT_EQ(f(ones({n, 2})).to_vector<float>()[0], n > 4 ? 2.0F : 3.0F) << n;
  }
  EXPECT_EQ(f.trace_count(), 5u);
  EXPECT_TRUE(contains(f.explain(), "host code looks at a size, which is 2 and 3  # "))
      << f.explain();
  EXPECT_TRUE(contains(f.explain(), "generalise_test.cc:")) << f.explain();
  // The other axis is free.
  f(ones({6, 3}));
  f(ones({6, 4}));
  EXPECT_EQ(f.trace_count(), 6u);
}

// spec: TC-14.d
TEST(Relax, ALookAtAnotherAxisPinsNothing) {
  const auto f = function([](const Tensor& x) {
    return x * static_cast<float>(x.shape()[1]) + static_cast<float>(x.rank());
  });
  for (const int64_t n : {2, 3, 4}) EXPECT_EQ(f(ones({n, 5})).to_vector<float>()[0], 7.0F);
  EXPECT_EQ(f.trace_count(), 2u);
}

TEST(Relax, EachWayToASizeIsNoted) {
  const auto expect_pinned = [](const char* what, auto body) {
    const auto f = function(body);
    for (const int64_t n : {2, 3, 4}) {
      const Tensor x = random::normal({n, 3});
      EXPECT_TRUE(same_value(f(x), body(x))) << what;
    }
    EXPECT_EQ(f.trace_count(), 3u) << what;
  };
  expect_pinned("size", [](const Tensor& x) { return x * static_cast<float>(x.size()); });
  expect_pinned("nbytes", [](const Tensor& x) { return x * static_cast<float>(x.nbytes()); });
  expect_pinned("type",
                [](const Tensor& x) { return x * static_cast<float>(x.type()->shape()[0]); });
  expect_pinned("a copy", [](const Tensor& x) {
    const Shape copy = x.shape();
    return x * static_cast<float>(copy[0]);
  });
  expect_pinned("all sizes", [](const Tensor& x) {
    float most = 0;
    for (const int64_t size : x.shape()) most += static_cast<float>(size);
    return x * most;
  });
  expect_pinned("equality", [](const Tensor& x) { return x.shape() == Shape({3, 3}) ? x : -x; });
  expect_pinned("a shape for an op", [](const Tensor& x) { return zeros(x.shape()) + x; });
  expect_pinned("a derived value", [](const Tensor& x) {
    return sum(x) * static_cast<float>(concat({x, x}).shape()[0]);
  });
  expect_pinned("an inner function", [](const Tensor& x) {
    const auto inner =
        function([](const Tensor& y) { return y * static_cast<float>(y.shape()[0]); });
    return inner(x);
  });
}

// The library computes by another order where that is cheaper, which rounds differently.
TEST(Relax, SizesThatDecideAnOrderAreKept) {
  const Tensor b = random::normal({8, 8}), c = random::normal({8, 8});
  const auto product = [&](const Tensor& a) { return einsum("ab,bc,cd->ad", {a, b, c}); };
  const auto f = function(product);
  const auto slopes = [&](const Tensor& x) {
    return jacobian([&](const Tensor& v) { return sum(v * v, {.axis = {0}}); }, x);
  };
  const auto g = function(slopes);
  for (const int64_t n : {4, 6, 100}) {
    const Tensor a = random::normal({n, 8});
    EXPECT_TRUE(same_value(f(a), product(a))) << n;
    const Tensor x = random::normal({n, 8});
    EXPECT_TRUE(same_value(g(x), slopes(x))) << n;
  }
  EXPECT_EQ(f.trace_count(), 3u);
  EXPECT_EQ(g.trace_count(), 3u);
}

// spec: TC-13.a
TEST(Relax, TheMostSpecificTraceWins) {
  const auto g = function([](const Tensor& x) { return x + 1.0F; });
  g(ones({5}));
  g(ones({6}));
  const GraphFunction first = g.trace(ones({5}));
  EXPECT_EQ(&first.graph(), &g.traces()[0].graph());
  EXPECT_NE(&g.trace(ones({7})).graph(), &g.traces()[1].graph());
  EXPECT_EQ(g.trace_count(), 2u);
}

// spec: CO-03
TEST(Relax, InnerCallsHaveTheirOwnSizes) {
  const auto inner = function([](const Tensor& x) { return nn::relu(x); });
  inner(ones({2, 4}));
  inner(ones({3, 4}));
  const auto outer = function([&](const Tensor& x) {
    const Tensor y = inner(x);
    return y * static_cast<float>(y.shape()[0]);
  });
  EXPECT_TRUE(same_value(outer(ones({5, 4})), full({5, 4}, 5.0F)));
  EXPECT_EQ(inner.trace_count(), 2u);
}

TEST(Relax, VariablesAndInOutArgumentsKeepTheirPlaces) {
  struct Line {
    Tensor w = zeros({3});
    Tensor b = Tensor(0.0F);
  };
  const auto train = [](Line& line, const Tensor& x, const Tensor& y) {
    const auto [loss, slope] = value_with_gradient(
        [&](const Line& l) { return mean(square(matmul(x, l.w) + l.b - y)); }, line);
    move(line, -0.1F * slope);
    return loss;
  };
  Line eager, staged;
  const auto step = function(train);
  for (const int64_t n : {8, 12, 5, 7, 100, 8, 31}) {
    const Tensor x = random::normal({n, 3}), y = sum(x, {.axis = {1}});
    EXPECT_TRUE(same_value(step(staged, x, y), train(eager, x, y))) << n;
    EXPECT_TRUE(same_value(staged.w, eager.w)) << n;
    EXPECT_TRUE(same_value(staged.b, eager.b)) << n;
  }
  EXPECT_EQ(step.trace_count(), 2u);

  Variable total(0.0);
  const auto add = function([&](const Tensor& x) { return total.assign_add(sum(x)); });
  for (const int64_t n : {2, 3, 4, 5}) add(ones({n}));
  EXPECT_EQ(total.read().item<float>(), 14.0F);
  EXPECT_EQ(add.trace_count(), 2u);
}

TEST(Relax, DerivativesOfInstances) {
  const auto cube = function([](const Tensor& x) { return sum(x * x * x) / 2.0F; });
  for (const int64_t n : {2, 3, 4, 5}) {
    const Tensor x = random::normal({n});
    EXPECT_TRUE(same_value(gradient([&](const Tensor& v) { return cube(v); }, x),
                           gradient([](const Tensor& v) { return sum(v * v * v) / 2.0F; }, x)));
  }
  EXPECT_EQ(cube.trace_count(), 2u);
}

// If batch and width of a model grow in the same way, a third graph distinguishes them.
TEST(Relax, AThirdGraphDecidesBetweenSizes) {
  const auto f = function([](const Tensor& x) { return mean(x, {.axis = {0}}); });
  f(ones({4, 8}));
  f(ones({8, 16}));
  EXPECT_EQ(f.trace_count(), 2u);
  for (const int64_t n : {3, 5, 6}) {
    for (const int64_t m : {4, 7}) {
      const Tensor x = random::normal({n, m});
      EXPECT_TRUE(same_value(f(x), mean(x, {.axis = {0}})));
    }
  }
  EXPECT_LE(f.trace_count(), 3u);
}

}  // namespace
}  // namespace etude
