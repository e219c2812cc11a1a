// SPDX-License-Identifier: Apache-2.0
// Derivatives of functions of tensors and numbers together, against formulas.
#include <cmath>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <vector>

#include "etude/autodiff/gradient.h"
#include "etude/core/buffer.h"
#include "etude/ops.h"
#include "tests/gradient/expect.h"

namespace etude {
namespace {

using std::vector;
using tests::expect_error;

template <class T>
struct Scaled {
  Tensor weight;
  T gain;
  vector<T> knots;
  int steps = 1;
};

vector<double> numbers(const Tensor& x) { return x.to_vector<double>(); }
const Tensor kWeight(vector<double>{1, 2, 3});

// spec: D20 any number of arguments, mixed scalars, structs, containers and tensors
TEST(Mixed, TensorTimesNumber) {
  const auto f = [](const Tensor& w, auto x) { return sum(w * w * x); };
  const auto [value, grads] = value_with_gradient(f, kWeight, 3.0);
  EXPECT_EQ(value.item<double>(), 42);
  EXPECT_EQ(numbers(std::get<0>(grads)), (vector<double>{6, 12, 18}));
  EXPECT_EQ(std::get<1>(grads), 14);
}

// The way that is taken does not change the language: few numbers go into tensors as many do.
TEST(Mixed, TensorsMadeOfFewNumbers) {
  const auto f = [](auto x) { return sum(kWeight * x * x).template item<decltype(x)>(); };
  EXPECT_EQ(gradient(f, 2.0), 24);
  EXPECT_EQ(value_with_gradient(f, 2.0), std::pair(24.0, 24.0));
  const auto g = [](auto x, auto y) {
    using T = decltype(x);
    const Tensor rows = stack({Tensor(x * y), Tensor(y)});
    return sum(rows * rows).template item<T>() + x;
  };
  EXPECT_EQ(gradient(g, 2.0, 3.0), std::tuple(37, 30));
}

// spec: D20 D3
TEST(Mixed, StructOfTensorsAndNumbers) {
  const Scaled<double> at{kWeight, 0.5, {2.0, 3.0}};
  const auto f = [](const auto& m) {
    using T = std::decay_t<decltype(m.gain)>;
    const T from_tensor = sum(m.weight * m.gain).template item<T>();
    return from_tensor * m.knots[0] + sin(m.knots[1]);
  };
  const auto [value, grads] = value_with_gradient(f, at);
  EXPECT_DOUBLE_EQ(value, 6 + std::sin(3.0));
  EXPECT_EQ(numbers(grads[&Scaled<double>::weight]), (vector<double>{1, 1, 1}));
  EXPECT_EQ(grads[&Scaled<double>::gain], 12);
  EXPECT_EQ(grads[&Scaled<double>::knots], (vector<double>{3, std::cos(3.0)}));
}

struct Plain {
  Tensor weight;
  Real gain;
};

// Structs and functions on Real need no template.
TEST(Mixed, StructOfReal) {
  const auto f = [](const Plain& m) { return exp(sum(m.weight).item<Real>() * m.gain); };
  const Plain at{Tensor(vector<double>{0.25, 0.25}), 2.0};
  const auto grads = gradient(f, at);
  EXPECT_NEAR(grads.gain.value(), 0.5 * std::exp(1.0), 1e-15);
  EXPECT_NEAR(numbers(grads.weight)[1], 2 * std::exp(1.0), 1e-15);
}

// Back and forth, with the slots of numbers taken over in between.
TEST(Mixed, ManyCrossings) {
  const auto f = [](const Tensor& w, auto x) {
    using T = decltype(x);
    using std::sin;
    T s = x * x;
    Tensor t = w;
    for (int i = 0; i < 5; ++i) {
      t = t * s + w;
      s = s * 0.5 + sin(sum(t).template item<T>());
      s += x * s;
    }
    return sum(t).template item<T>() * s;
  };
  const auto plain = [&](double w0, double x) { return f(Tensor(vector<double>{w0, -0.2}), x); };
  const auto [value, grads] = value_with_gradient(f, Tensor(vector<double>{0.3, -0.2}), 0.7);
  EXPECT_DOUBLE_EQ(value, plain(0.3, 0.7));
  const double h = 1e-6;
  EXPECT_NEAR(std::get<1>(grads), (plain(0.3, 0.7 + h) - plain(0.3, 0.7 - h)) / (2 * h), 1e-6);
  EXPECT_NEAR(numbers(std::get<0>(grads))[0], (plain(0.3 + h, 0.7) - plain(0.3 - h, 0.7)) / (2 * h),
              1e-6);
}

// Numbers alone are differentiated, and tensors are used on the way.
TEST(Mixed, TensorsBetweenNumbers) {
  const auto f = [](const auto& v) {
    using T = typename std::decay_t<decltype(v)>::value_type;
    const Tensor all(v);
    const vector<T> squares = (all * all).template to_vector<T>();
    T total = 0;
    for (const T& s : squares) total += s * v[0];
    return total;
  };
  const vector<double> at = {1, 2, 3, 4, 5};
  EXPECT_EQ(gradient(f, at), (vector<double>{55 + 2, 4, 6, 8, 10}));
  const auto pull = pullback(f, at);
  EXPECT_EQ(pull(1.0), (vector<double>{57, 4, 6, 8, 10}));
  EXPECT_EQ(pull(2.0), (vector<double>{114, 8, 12, 16, 20}));
}

// Tensors alone are differentiated, and numbers are used on the way: by an operator and by a tape.
TEST(Mixed, NumbersBetweenTensors) {
  const auto f = [](const Tensor& w) {
    const Real s = w.at(0).item<Real>() * w.at(1).item<Real>();
    return sum(w * sin(s));
  };
  const double s = 2, total = 6;
  const vector<double> want = {std::sin(s) + total * std::cos(s) * 2,
                               std::sin(s) + total * std::cos(s), std::sin(s)};
  const Tensor by_operator = gradient(f, kWeight);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(numbers(by_operator)[i], want[i], 1e-14);

  GradientTape tape;
  tape.watch(kWeight);
  const Tensor y = f(kWeight);
  EXPECT_EQ(numbers(tape.gradient(y, kWeight)), numbers(by_operator));

  // After the tape has stopped numbers are plain, and recording may begin again.
  GradientTape again({.persistent = true});
  again.watch(kWeight);
  const Real inside = sum(kWeight).item<Real>();
  again.stop();
  const Real outside = sum(kWeight).item<Real>();
  EXPECT_FALSE(outside.varies());
  again.start();
  const Tensor z = Tensor(inside * inside);
  again.stop();
  EXPECT_EQ(numbers(again.gradient(z, kWeight)), (vector<double>{12, 12, 12}));
  EXPECT_EQ(numbers(again.gradient(z, kWeight)), (vector<double>{12, 12, 12}));
}

// spec: D23 pullbacks of several results, again and on other threads
TEST(Mixed, Pullback) {
  const auto f = [](const Tensor& w, auto x) { return std::pair(w * x, x * x); };
  auto [value, pull] = value_with_pullback(f, kWeight, 3.0);
  EXPECT_EQ(numbers(value.first), (vector<double>{3, 6, 9}));
  EXPECT_EQ(value.second, 9);
  const Tensor ones(vector<double>{1, 1, 1}), none(vector<double>{0, 0, 0});
  const auto [dw, dx] = pull({ones, 10.0});
  EXPECT_EQ(numbers(dw), (vector<double>{3, 3, 3}));
  EXPECT_EQ(dx, 6 + 60);
  std::thread([&pull = pull, &none] {
    const auto [dw2, dx2] = pull({none, 1.0});
    EXPECT_EQ(numbers(dw2), (vector<double>{0, 0, 0}));
    EXPECT_EQ(dx2, 6);
  }).join();
  EXPECT_EQ(std::get<1>(pull({ones, 10.0})), 66);
  const auto both = vjp(f, std::tuple(kWeight, 3.0), std::pair(ones, 10.0));
  EXPECT_EQ(std::get<1>(both.second), 66);
}

// spec: D24 forward mode
TEST(Mixed, ForwardMode) {
  const auto f = [](const auto& m) {
    using T = std::decay_t<decltype(m.gain)>;
    return sum(m.weight * m.gain).template item<T>() * m.knots[0];
  };
  const Scaled<double> at{kWeight, 0.5, {2.0}};
  auto by = zero_tangent(at);
  by[&Scaled<double>::weight] = Tensor(vector<double>{1, 0, 0});
  by[&Scaled<double>::gain] = 10;
  by[&Scaled<double>::knots] = {100};
  const auto [value, tangent] = jvp(f, at, by);
  EXPECT_EQ(value, 6);
  EXPECT_EQ(tangent, 0.5 * 2 + 6 * 10 * 2 + 3 * 100);
  const auto g = [](const Tensor& w, auto x) { return w * x; };
  const auto [v, t] = jvp(g, std::tuple(kWeight, 3.0), {Tensor(vector<double>{1, 1, 1}), 2.0});
  EXPECT_EQ(numbers(t), (vector<double>{5, 7, 9}));
}

// spec: D34.a what is kept out
TEST(Mixed, KeptOut) {
  const auto f = [](const Tensor& w, auto x, auto y) { return sum(w * x * y); };
  EXPECT_EQ(gradient(f, no_derivative(kWeight), 3.0, no_derivative(2.0)), 12);
  EXPECT_EQ(numbers(gradient(f, kWeight, no_derivative(3.0), no_derivative(2.0))),
            (vector<double>{6, 6, 6}));
}

TEST(Mixed, DtypesFollowThoseOfNumbers) {
  const Tensor single({1.0F, 2.0F});
  const auto f = [](const Tensor& w, auto x) {
    EXPECT_EQ((w * x).dtype(), kFloat32);  // as w * 2.0
    EXPECT_EQ(Tensor(x).dtype(), kFloat32);
    EXPECT_EQ(Tensor({x, x * x}).dtype(), kFloat32);
    EXPECT_EQ(Tensor(vector{x, x}).dtype(), kFloat64);
    return sum(w * x) + sum(Tensor({x, x * x}));
  };
  const auto grads = gradient(f, single, 3.0);
  EXPECT_EQ(std::get<0>(grads).dtype(), kFloat32);
  EXPECT_EQ(std::get<1>(grads), 3 + 1 + 6);
}

// spec: V35.b nothing is left behind, also after an exception
TEST(Mixed, NothingIsLeft) {
  const auto f = [](const Tensor& w, auto x) {
    const auto y = (w * x).at(0).template item<decltype(x)>();
    if (y > 2.0) throw std::runtime_error("too much");
    return y * y;
  };
  static_cast<void>(gradient(f, kWeight, 1.0));
  const MemoryScope memory;
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(gradient(f, kWeight, 3.0), std::runtime_error);
    EXPECT_EQ(std::get<1>(gradient(f, kWeight, 2.0)), 4);
  }
  EXPECT_EQ(memory.stats().live_tensors, 0);
  EXPECT_EQ(sum(kWeight).item<Real>().varies(), false);
}

// spec: D21 the curried form
TEST(Mixed, Curried) {
  const auto slope = gradient([](const Tensor& w, auto x) { return sum(w * x * x); });
  EXPECT_EQ(std::get<1>(slope(kWeight, 3.0)), 36);
}

TEST(Mixed, ErrorsNameTheWayOut) {
  const auto inner = [](const Tensor& w, auto x) {
    return sum(w).template item<decltype(x)>() * x;
  };
  expect_error(
      [&] {
        gradient([&](const Tensor& w) { return sum(w) * std::get<1>(gradient(inner, w, 2.0)); },
                 kWeight);
      },
      ErrorCode::kUnimplemented,
      {"numbers of a tensor: numbers that are read from a tensor are followed by one derivative, "
       "and this tensor belongs to another one as well. Stay with tensors where derivatives nest",
       "mixed_test.cc"});
  const auto apart = [&](const Tensor& w) {
    const auto of_numbers = [&](const auto& v) {
      using T = std::decay_t<decltype(v[0])>;
      return sum(w).template item<T>() * v[0];
    };
    return sum(w) * gradient(of_numbers, vector<double>(9, 1.0))[0];
  };
  expect_error([&] { gradient(apart, kWeight); }, ErrorCode::kUnimplemented,
               {"the tensor belongs to one derivative and the numbers around it to another. Give "
                "both to one operator, as in gradient(f, tensor, number)"});
  const auto forward = [](auto x) { return sum(kWeight * x).template item<decltype(x)>(); };
  expect_error(
      [&] { jvp(forward, 1.0, 1.0); }, ErrorCode::kUnimplemented,
      {"forward mode over numbers alone does not follow tensors that are made of them. Use "
       "pullback(f, x...)"});
  expect_error([&] { gradient([](const Tensor& w, auto x) { return w * x; }, kWeight, 2.0); },
               ErrorCode::kInvalidArgument,
               {"gradient: gradient needs a scalar result, this one has shape [3]"});
}

}  // namespace
}  // namespace etude
