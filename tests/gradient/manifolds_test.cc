// SPDX-License-Identifier: Apache-2.0
// Types with tangents of their own (DifferentiableTraits) that hold tensors: derivatives go through
// their move(), in all operators and modes, and optimisers end in it.
#include <cmath>
#include <vector>

#include "etude/autodiff/custom_gradient.h"
#include "etude/autodiff/gradient.h"
#include "etude/diff/custom_gradient.h"
#include "etude/lazy/lazy.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "etude/optim/adaptive_rules.h"
#include "etude/optim/descent_rules.h"
#include "etude/optim/sgd.h"
#include "etude/stage/function.h"
#include "tests/gradient/expect.h"

namespace etude::manifolds_test {

using Doubles = std::vector<double>;

// A direction: v has the length 1.
struct Sphere {
  Tensor v;
};
// A rotation by its cosine and sine; its tangent is the angle.
struct Turn {
  Tensor c, s;
};
// Numbers and a tensor.
template <class T>
struct Pose {
  T c, s;
  Tensor offset;
};
template <class T>
struct PoseTangent {
  T turn = T(0);
  Tensor offset;
};

}  // namespace etude::manifolds_test

template <>
struct etude::DifferentiableTraits<etude::manifolds_test::Sphere> {
  using Sphere = etude::manifolds_test::Sphere;
  using Tangent = Tensor;
  static Tensor zero(const Sphere& x) { return zeros_like(x.v); }
  static void move(Sphere& x, const Tensor& by) {
    const Tensor t = x.v + by;
    x.v = t / sqrt(sum(t * t));
  }
};
template <>
struct etude::DifferentiableTraits<etude::manifolds_test::Turn> {
  using Turn = etude::manifolds_test::Turn;
  using Tangent = Tensor;
  static Tensor zero(const Turn& x) { return zeros_like(x.c); }
  static void move(Turn& x, const Tensor& by) {
    const Tensor c = x.c * cos(by) - x.s * sin(by);
    x.s = x.s * cos(by) + x.c * sin(by);
    x.c = c;
  }
};
template <class T>
struct etude::DifferentiableTraits<etude::manifolds_test::Pose<T>> {
  using Pose = etude::manifolds_test::Pose<T>;
  using Tangent = etude::manifolds_test::PoseTangent<T>;
  static Tangent zero(const Pose& x) { return {T(0), zeros_like(x.offset)}; }
  static void move(Pose& x, const Tangent& by) {
    using std::cos;
    using std::sin;
    const T c = cos(by.turn), s = sin(by.turn);
    const T old = x.c;
    x.c = x.c * c - x.s * s;
    x.s = x.s * c + old * s;
    x.offset = x.offset + by.offset;
  }
};

namespace etude::manifolds_test {
namespace {

using tests::expect_error;
using tests::expect_values;

struct Model {
  Sphere sphere{Tensor(Doubles{1, 0, 0})};
  Tensor factor = Tensor(std::vector<double>{2}, Shape{});
};
const Tensor kTarget(Doubles{0, .6, .8});
const Tensor kUp(Doubles{0, 1, 0});

Tensor loss_of(const Model& m) { return sum(m.sphere.v * kTarget) * m.factor; }

tangent_t<Model> along_up(const Model& m) {
  tangent_t<Model> t = zero_tangent(m);
  t[&Model::sphere] = kUp;
  return t;
}
// By the factor 2 the projection of the target: 2 (target - v (v . target)).
void expect_gradient(const tangent_t<Model>& g) {
  expect_values(g[&Model::sphere], {0, 1.2, 1.6});
  expect_values(g[&Model::factor], {0});
}

// spec: D17.a
TEST(Manifolds, GradientsGoThroughMove) {
  const Model m;
  expect_gradient(gradient(loss_of, m));
  expect_gradient(pullback(loss_of, m)(Tensor(Doubles{1}, Shape{})));
  GradientTape tape;
  tape.watch(m);
  expect_gradient(tape.gradient(loss_of(m), m));
  const auto alone = gradient([](const Sphere& x) { return sum(x.v * kTarget); }, m.sphere);
  expect_values(alone, {0, .6, .8});
  const auto listed = gradient(
      [](const std::vector<Sphere>& x) { return sum(x[0].v * kTarget) - sum(x[1].v * kTarget); },
      std::vector<Sphere>{m.sphere, m.sphere});
  expect_values(listed[1], {0, -.6, -.8});
}

// spec: D17.a
TEST(Manifolds, GradientsAreThoseInAllModes) {
  const Model m;
  const auto staged = function([](const Model& x) { return gradient(loss_of, x); });
  for (int i = 0; i < 2; ++i) expect_gradient(staged(m));
  expect_gradient(gradient(function(loss_of), m));
  {
    const LazyScope lazy;
    expect_gradient(gradient(loss_of, m));
  }
  expect_gradient(gradient(recompute_grad(loss_of), m));
}

TEST(Manifolds, ForwardModeGoesThroughMove) {
  const Model m;
  expect_values(jvp(loss_of, m, along_up(m)).second, {1.2});
  const double step = 1e-6;
  Model ahead = m, behind = m;
  move(ahead, step * along_up(m));
  move(behind, -step * along_up(m));
  const auto slopes = hvp(loss_of, m, along_up(m));
  const auto a = gradient(loss_of, ahead), b = gradient(loss_of, behind);
  const Tensor difference = (a[&Model::sphere] - b[&Model::sphere]) / (2 * step);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(slopes[&Model::sphere].to_vector<double>()[i], difference.to_vector<double>()[i],
                1e-8);
  }
  expect_values(slopes[&Model::factor], {.6});
}

TEST(Manifolds, SecondDerivativesAreThoseOfTheAngle) {
  // c(a) = cos a, so the second derivative of c^2 is -2 cos 2a; at cos a = .8, -.56.
  const Turn turn{Tensor(Doubles{.8}), Tensor(Doubles{.6})};
  const auto f = [](const Turn& t) { return sum(t.c * t.c); };
  expect_values(gradient(f, turn), {-.96});
  const auto slope = [&](const Turn& t) { return sum(gradient(f, t)); };
  EXPECT_NEAR(gradient(slope, turn).item<double>(), -.56, 1e-12);
}

TEST(Manifolds, ExamplesHaveTheirOwn) {
  Model many;
  many.sphere.v = Tensor({{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}});
  many.factor = Tensor(Doubles{2, 1});
  const auto of_each = vmap([](const Model& m) { return gradient(loss_of, m); })(many);
  expect_values(of_each[&Model::sphere], {0, 1.2, 1.6, 0, 0, .8});
}

TEST(Manifolds, StopGradientStopsThem) {
  const auto g =
      gradient([](const Model& m) { return loss_of(stop_gradient(m)) + m.factor; }, Model());
  expect_values(g[&Model::sphere], {0, 0, 0});
  expect_values(g[&Model::factor], {1});
}

TEST(Manifolds, NumbersStandBesideTensors) {
  const auto f = [](const auto& p) { return sum(p.offset * p.offset) * p.s + p.c; };
  const Pose<double> pose{.6, .8, Tensor(Doubles{1, 2})};
  const auto g = gradient(f, pose);
  EXPECT_NEAR(g.turn, 5 * .6 - .8, 1e-12);
  expect_values(g.offset, {1.6, 3.2});
  const PoseTangent<double> by{1, Tensor(Doubles{.5, 0})};
  EXPECT_NEAR(jvp(f, pose, by).second.template item<double>(), 2.2 + .8, 1e-12);
}

// An angle by optimisers: turns stay turns.
struct Robot {
  Turn joint{Tensor(Doubles{1}), Tensor(Doubles{0})};
  Tensor reach = Tensor(Doubles{2});
};
double length_of(const Robot& r) {
  return std::hypot(r.joint.c.item<double>(), r.joint.s.item<double>());
}
// The hand at (reach cos, reach sin) is to be at (0, 3).
Tensor miss(const Robot& r) {
  return sum(square(r.joint.c * r.reach)) + sum(square(r.joint.s * r.reach - 3.0));
}

// spec: D17.b
TEST(Manifolds, AnOptimizerStepEndsInMove) {
  Robot r;
  tangent_t<Robot> g = zero_tangent(r);
  g[&Robot::joint] = Tensor(Doubles{-.5});
  optim::SGD sgd({.lr = 1, .weight_decay = .1});
  sgd.update(r, g);
  EXPECT_NEAR(r.joint.c.item<double>(), std::cos(.5), 1e-15);
  EXPECT_NEAR(r.joint.s.item<double>(), std::sin(.5), 1e-15);
  EXPECT_NEAR(r.reach.item<double>(), 1.8, 1e-15);  // by its decay alone
}

template <class Optimizer>
void expect_arrival(const Optimizer& fresh) {
  const auto step = [](Robot& r, Optimizer& o) { o.update(r, gradient(miss, r)); };
  Robot eager, staged, lazy;
  Optimizer a = fresh, b = fresh, c = fresh;
  const auto in_graph = function([&](Robot& r, Optimizer& o) { return step(r, o), r.reach; });
  for (int i = 0; i < 400; ++i) {
    step(eager, a);
    in_graph(staged, b);
    const LazyScope scope;
    step(lazy, c);
  }
  EXPECT_NEAR(length_of(eager), 1, 1e-12);
  EXPECT_NEAR(eager.joint.s.item<double>(), 1, 1e-3);
  EXPECT_NEAR(eager.reach.item<double>(), 3, 1e-3);
  for (const Robot* other : {&staged, &lazy}) {
    EXPECT_TRUE(same_value(other->joint.c, eager.joint.c));
    EXPECT_TRUE(same_value(other->joint.s, eager.joint.s));
    EXPECT_TRUE(same_value(other->reach, eager.reach));
  }
}

// spec: D17.b
TEST(Manifolds, OptimizersArriveInAllModes) {
  expect_arrival(optim::SGD({.lr = .05}));
  expect_arrival(optim::SGD({.lr = .02, .momentum = .8}));
  expect_arrival(optim::Adam({.lr = .03}));
  optim::Adam every_second({.lr = .05});
  every_second.add({optim::accumulate(2), optim::clip_by_global_norm(10)});
  expect_arrival(every_second);
}

TEST(Manifolds, StatesHaveThePathOfThePart) {
  Robot r;
  optim::Adam adam;
  adam.update(r, gradient(miss, r));
  EXPECT_TRUE(adam.state().contains("mean/joint"));
  optim::Adam other;
  other.restore(adam.state());
  other.update(r, gradient(miss, r));
  EXPECT_EQ(other.updates(), 2);
}

TEST(Manifolds, FrozenOnesStay) {
  struct Held {
    Freezable<Robot> robot;
    Tensor w = Tensor(Doubles{1});
  } held;
  freeze(held);
  const Turn was = held.robot.value.joint;
  optim::SGD sgd({.lr = .1, .weight_decay = .1});
  sgd.update(held, gradient([](const Held& h) { return miss(h.robot.value) * sum(h.w); }, held));
  EXPECT_TRUE(same_value(held.robot.value.joint.c, was.c));
  EXPECT_TRUE(same_value(held.robot.value.joint.s, was.s));
}

TEST(Manifolds, WhatAveragesWeightsRefusesThem) {
  Robot r;
  const auto g = gradient(miss, r);
  optim::SGD averaging;
  averaging.add(optim::ema(.9));
  expect_error([&] { averaging.update(r, g); }, ErrorCode::kInvalidArgument,
               {"SGD::update: parameter 'joint' moves by its own rule (DifferentiableTraits)"});
  optim::FTRL ftrl;
  expect_error([&] { ftrl.update(r, g); }, ErrorCode::kInvalidArgument,
               {"FTRL::update: parameter 'joint' moves by its own rule (DifferentiableTraits)"});
  optim::ScheduleFreeSGD free;
  expect_error([&] { free.update(r, g); }, ErrorCode::kInvalidArgument,
               {"'joint' moves by its own"});
}

}  // namespace
}  // namespace etude::manifolds_test
