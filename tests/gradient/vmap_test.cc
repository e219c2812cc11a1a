// SPDX-License-Identifier: Apache-2.0
// vmap on tensors: one batched program for all examples, with gradients inside and outside. The
// rules of ops are checked by the op matrix.
// spec: D38
#include <gtest/gtest.h>

#include "etude/core/graph_calls.h"
#include "etude/etude.h"
#include "etude/runtime/batch.h"
#include "etude/runtime/recording.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using Floats = std::vector<float>;

Tensor square(const Tensor& x) { return x * x; }
Tensor matrix(const Floats& values, std::int64_t rows) {
  const auto columns = static_cast<std::int64_t>(values.size()) / rows;
  return Tensor(values, Shape{rows, columns});
}
std::vector<std::int64_t> sizes(const Tensor& x) { return x.shape().to_vector(); }

TEST(Vmap, OfTheGradientOfASquare) {
  const Tensor x(Floats{1, 2, 3});
  const Tensor g = vmap([](const Tensor& a) { return gradient(square, a); })(x);
  EXPECT_EQ(g.to_vector<float>(), (Floats{2, 4, 6}));
  EXPECT_EQ(sizes(g), (std::vector<std::int64_t>{3}));
  EXPECT_EQ(vmap(gradient(square))(x).to_vector<float>(), (Floats{2, 4, 6}));
  EXPECT_EQ(vmap(gradient(gradient(square)))(x).to_vector<float>(), (Floats{2, 2, 2}));
}

// What waits for examples and is none is not copied for each of them.
TEST(Vmap, LeavesWhatIsTheSameForAllExamples) {
  const Tensor w = ones({2000});
  BatchContext batch(4);
  const Tensor x = batch.example_of(ones({4, 3}));
  const Tensor held = internal::after(w, {&x, 1});
  EXPECT_FALSE(batch.is_example(held));
  EXPECT_EQ(held.data<float>().data(), w.data<float>().data());
  EXPECT_TRUE(batch.is_example(internal::after(x, {&w, 1})));
  EXPECT_TRUE(batch.is_example(held * sum(x)));
}

// One batched program: as many calls for a thousand examples as for two.
TEST(Vmap, RunsTheFunctionOnce) {
  const auto calls = [](std::int64_t n) {
    const Tensor x = ones({n, 4});
    int runs = 0;
    RecordingContext context({&x, 1});
    const Tensor g = vmap([&](const Tensor& a) {
      ++runs;
      return gradient([](const Tensor& b) { return sum(tanh(b) * b); }, a);
    })(x);
    EXPECT_EQ(runs, 1);
    return context.finish({&g, 1}).size();
  };
  EXPECT_EQ(calls(1000), calls(2));
}

struct Dense {
  Tensor weight, bias;
};

TEST(Vmap, GivesGradientsForEachExample) {
  const Dense layer{matrix({1, -2, 3, 0.5F, 2, -1}, 3), Tensor(Floats{0.25F, -0.5F})};
  const Tensor x = matrix({1, 2, 3, -1, 0.5F, 2}, 2), y(Floats{1, -2});
  const auto loss = [](const Dense& m, const Tensor& one, const Tensor& want) {
    const Tensor error = sum(tanh(matmul(one, m.weight) + m.bias)) - want;
    return error * error;
  };
  const auto each = vmap([&](const Tensor& one, const Tensor& want) {
    return gradient([&](const Dense& m) { return loss(m, one, want); }, layer);
  })(x, y);
  EXPECT_EQ(sizes(each.weight), (std::vector<std::int64_t>{2, 3, 2}));
  for (int i = 0; i < 2; ++i) {
    const auto alone = gradient([&](const Dense& m) { return loss(m, x.at(i), y.at(i)); }, layer);
    EXPECT_TRUE(allclose(each.weight.at(i), alone.weight).item<bool>());
    EXPECT_TRUE(allclose(each.bias.at(i), alone.bias).item<bool>());
  }
}

TEST(Vmap, IsDifferentiatedItself) {
  const Tensor x = matrix({1, 2, 3, 4}, 2), w(Floats{2, -1});
  const auto f = [](const Tensor& points, const Tensor& weights) {
    return sum(vmap([&](const Tensor& p) { return sum(p * p * weights); })(points));
  };
  const auto [dx, dw] = gradient(f, x, w);
  EXPECT_EQ(dx.to_vector<float>(), (Floats{4, -4, 12, -8}));
  EXPECT_EQ(dw.to_vector<float>(), (Floats{10, 20}));
  const auto [value, moved] = jvp([&](const Tensor& p) { return f(p, w); }, x, ones({2, 2}));
  EXPECT_EQ(value.item<float>(), 0);
  EXPECT_EQ(moved.item<float>(), 4);
}

TEST(Vmap, CarriesForwardModeInside) {
  const Tensor x(Floats{0.5F, 1});
  const auto f = vmap(
      [](const Tensor& a) { return derivative([](const Tensor& b) { return b * sin(b); }, a); });
  const Floats got = f(x).to_vector<float>();
  EXPECT_NEAR(got[0], std::sin(0.5) + 0.5 * std::cos(0.5), 1e-6);
  EXPECT_NEAR(got[1], std::sin(1.0) + std::cos(1.0), 1e-6);
}

TEST(Vmap, Nests) {
  const Tensor x(Floats{1, 2, 3}), y(Floats{10, 20});
  const Tensor table =
      vmap([&](const Tensor& a) { return vmap([&](const Tensor& b) { return a * b; })(y); })(x);
  EXPECT_EQ(sizes(table), (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(table.to_vector<float>(), (Floats{10, 20, 20, 40, 30, 60}));
  // The hessian of each example: the gradient of each element of the gradient.
  const Tensor points = matrix({1, 2, 3, 4}, 2);
  const Tensor h = vmap([](const Tensor& p) {
    const auto cube = [](const Tensor& a) { return sum(a * a * a); };
    const auto back = pullback([&](const Tensor& a) { return gradient(cube, a); }, p);
    return vmap([&](const Tensor& unit) { return back(unit); })(eye(2));
  })(points);
  EXPECT_EQ(h.to_vector<float>(), (Floats{6, 0, 0, 12, 18, 0, 0, 24}));
}

TEST(Vmap, OfStructures) {
  const std::pair<Tensor, Tensor> both{matrix({1, 2, 3, 4}, 2), Tensor(Floats{10, 20})};
  const auto [total, same] = vmap([](const std::pair<Tensor, Tensor>& p) {
    return std::pair{sum(p.first) + p.second, Tensor(7.0F)};
  })(both);
  EXPECT_EQ(total.to_vector<float>(), (Floats{13, 27}));
  EXPECT_EQ(same.to_vector<float>(), (Floats{7, 7}));  // does not depend on the example
}

TEST(Vmap, WritesAndReadsByIndexPerExample) {
  const Tensor x = matrix({1, 2, 3, 4, 5, 6}, 2);
  const Tensor which(std::vector<std::int64_t>{2, 0});
  const auto f = [](const Tensor& row, const Tensor& i) {
    Tensor y = row;
    y.at(i) = 0.0;
    y.at(0) += 100.0;
    return std::pair{y, take(row, i)};
  };
  const auto [written, picked] = vmap(f)(x, which);
  EXPECT_EQ(written.to_vector<float>(), (Floats{101, 2, 0, 100, 5, 6}));
  EXPECT_EQ(picked.to_vector<float>(), (Floats{3, 4}));
  // Sparse gradients become dense, example by example.
  const auto g = vmap([](const Tensor& row, const Tensor& i) {
    return gradient([&](const Tensor& a) { return sum(square(take(a, i))); }, row);
  })(x, which);
  EXPECT_EQ(g.to_vector<float>(), (Floats{0, 0, 6, 8, 0, 0}));
}

TEST(Vmap, OfCallsWithManyOperands) {
  const Tensor x(Floats{1, 2, 3}), fixed(7.0F);
  const auto f = [&](const Tensor& a) {
    std::vector<Tensor> parts;
    for (int i = 0; i < 100; ++i) parts.push_back(i % 3 == 0 ? fixed : a * static_cast<float>(i));
    return stack(parts).at(Slice(64, 68));
  };
  EXPECT_EQ(vmap(f)(x).to_vector<float>(),
            (Floats{64, 65, 7, 67, 128, 130, 7, 134, 192, 195, 7, 201}));
}

TEST(Vmap, NamesWhatIsWrong) {
  using tests::expect_error;
  constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
  const auto f = [](const Tensor& a, const Tensor& b) { return a * b; };
  expect_error([&] { vmap(f)(ones({2}), ones({3})); }, kInvalid,
               {"vmap: ", "2 examples along axis 0", "another has 3"});
  expect_error([&] { vmap(f)(ones({2}), Tensor(1.0F)); }, kInvalid,
               {"vmap: ", "a scalar", "capture"});
  expect_error([&] { vmap(f)(ones({0}), ones({0})); }, kInvalid, {"vmap: ", "no examples"});
  expect_error(
      [&] {
        vmap([](const Tensor& a) { return a + ones({3}); })(ones({5, 2}));
      },
      kInvalid, {"add: ", "[2] and [3] do not broadcast", "vmap_test.cc"});
  expect_error(
      [] { vmap([](const Tensor& a) { return a.item<float>() > 0 ? a : -a; })(ones({5})); },
      ErrorCode::kFailedPrecondition, {"one example of a vmap", "where("});
  const auto positive = [](const Tensor& a) { return boolean_mask(a, a > 0.0F); };
  expect_error(
      [&] {
        vmap(positive)(matrix({1, 2, 3, -4}, 2));
      },
      kInvalid, {"the result has shape [2] for example 0 and [1] for example 1"});
}

}  // namespace
}  // namespace etude
