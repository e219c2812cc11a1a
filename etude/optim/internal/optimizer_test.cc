// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include <gtest/gtest.h>

#include "etude/base/error.h"
#include "etude/core/buffer.h"
#include "etude/device/cpu/parallel.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "etude/optim/adam_rules.h"
#include "etude/optim/adaptive_rules.h"
#include "etude/optim/descent_rules.h"
#include "etude/optim/lbfgs.h"
#include "etude/optim/sgd.h"
#include "etude/optim/tensor_rules.h"

namespace etude::optim {
namespace {

using Vector = std::vector<double>;

// An optimiser of any kind, as a function that updates a vector.
using Update = std::function<void(Tensor& w, const Tensor& g)>;
template <class Optimizer>
Update updater(Optimizer optimizer) {
  return [optimizer](Tensor& w, const Tensor& g) mutable { optimizer.update(w, g); };
}

struct Row {
  const char* name;
  std::function<Update()> make;
  Vector expected;
};

// 1000 steps from 0 with a constant gradient.
Vector check_a(Update update, DType dtype) {
  const Vector zero = {0, 0, 0}, slope = {-5, .1, .2};
  const auto make = [&](const Vector& v) {
    return dtype == kFloat64 ? Tensor(v) : Tensor(std::vector<float>(v.begin(), v.end()));
  };
  Tensor w = make(zero);
  const Tensor g = make(slope);
  for (int i = 0; i < 1000; ++i) update(w, g);
  return w.to_vector<double>();
}

// 10 steps downhill on (x-1)^2 + 3 (y-x^2)^2 from (-.5, 1).
Vector check_b(Update update) {
  Tensor w(Vector{-.5, 1});
  for (int i = 0; i < 10; ++i) {
    const Vector at = w.to_vector<double>();
    const double x = at[0], y = at[1], bend = y - x * x;
    update(w, Tensor(Vector{2 * (x - 1) - 12 * x * bend, 6 * bend}));
  }
  return w.to_vector<double>();
}

void expect_near(const Vector& got, const Vector& want, double relative, const std::string& name) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], relative * std::abs(want[i]) + 1e-7) << name << " at " << i;
  }
}

// spec: O1, O5
TEST(Optimizer, CheckA) {
  const auto sgd = [] { return updater(SGD({.lr = 1e-3})); };
  const auto adam = [] { return updater(Adam({.lr = 1e-3, .eps = 1e-7})); };
  expect_near(check_a(sgd(), kFloat64), {5, -.1, -.2}, 1e-9, "O1");
  expect_near(check_a(sgd(), kFloat32), {5.0000668, -.10000112, -.20000224}, 1e-4, "O1 float32");
  expect_near(check_a(adam(), kFloat64), {1, -.999999, -.9999995}, 1e-7, "O5");
  expect_near(check_a(adam(), kFloat32), {.9999906, -.9999898, -.9999905}, 1e-4, "O5 float32");
  expect_near(check_a(updater(Adam({.lr = 1e-3, .eps = 1e-7, .amsgrad = true})), kFloat64),
              {1, -.999999, -.9999995}, 1e-7, "O7");
}

// spec: O2, O3, O4, O6, O8
TEST(Optimizer, CheckAOfRules) {
  const std::vector<Row> rows = {
      {"O2",
       [] { return updater(RMSProp({.lr = 1e-3, .eps = 1e-7})); },
       {1.0091417, -1.0091407, -1.0091412}},
      {"O3",
       [] { return updater(AdaGrad({.lr = 1e-3, .eps = 1e-7})); },
       {.0617959, -.0570954, -.0598723}},
      {"O4",
       [] { return updater(AdaDelta({.lr = 1e-3, .eps = 1e-7})); },
       {.0021518, -.0021515, -.0021517}},
      {"O6", [] { return updater(AdaMax({.lr = 1e-3, .eps = 1e-7})); }, {1, -.999999, -.9999995}},
      {"O8",
       [] { return updater(RAdam({.lr = 1e-3, .eps = 1e-7})); },
       {.4691431, -.4446424, -.4451428}},
  };
  for (const Row& row : rows) {
    expect_near(check_a(row.make(), kFloat64), row.expected, 1e-7, row.name);
    expect_near(check_a(row.make(), kFloat32), row.expected, 1e-4,
                std::string(row.name) + " float32");
  }
}

// spec: O2, O3, O4, O6, O8, O11, O12
TEST(Optimizer, CheckBOfRules) {
  const std::vector<Row> rows = {
      {"O2", [] { return updater(RMSProp({.lr = .1})); }, {.3929819, .0737290}},
      {"O2 centred with momentum",
       [] { return updater(RMSProp({.lr = .01, .momentum = .9, .centered = true})); },
       {-.5680126, .3715780}},
      {"O3", [] { return updater(AdaGrad({.lr = .1})); }, {-.4461503, .5883556}},
      {"O4", [] { return updater(AdaDelta()); }, {-.5434433, .9556640}},
      {"O6", [] { return updater(AdaMax({.lr = .1})); }, {-.4050795, .4306936}},
      {"O8", [] { return updater(RAdam({.lr = .1})); }, {.0063178, -.0238422}},
      {"O11", [] { return updater(NAdam({.lr = .1})); }, {-.1757177, .3420654}},
      {"O12", [] { return updater(Lion({.lr = .1, .weight_decay = .1})); }, {.1367358, -.0517972}},
  };
  for (const Row& row : rows) expect_near(check_b(row.make()), row.expected, 1e-6, row.name);
}

// spec: O1, O5, O7, O10
TEST(Optimizer, CheckB) {
  const std::vector<Row> rows = {
      {"O1", [] { return updater(SGD({.lr = .05})); }, {.0868938, .0937815}},
      {"O1 momentum",
       [] { return updater(SGD({.lr = .05, .momentum = .9})); },
       {.4310145, .8082565}},
      {"O1 nesterov",
       [] { return updater(SGD({.lr = .05, .momentum = .9, .nesterov = true})); },
       {.8169063, .6186095}},
      {"O1 decay", [] { return updater(SGD({.lr = .05, .decay = .1})); }, {-.1856113, .2362492}},
      {"O1 weight decay",
       [] { return updater(SGD({.lr = .05, .weight_decay = .01})); },
       {.0895685, .0927268}},
      {"O5", [] { return updater(Adam({.lr = .1})); }, {-.2740481, .2113586}},
      {"O5 weight decay",
       [] { return updater(Adam({.lr = .1, .weight_decay = .01})); },
       {-.2724074, .2099546}},
      {"O7",
       [] { return updater(Adam({.lr = .1, .beta2 = .5, .amsgrad = true})); },
       {-.3522234, .3265710}},
      {"O5 beta2 .5", [] { return updater(Adam({.lr = .1, .beta2 = .5})); }, {-.3648591, .0195620}},
      {"O10", [] { return updater(AdamW({.lr = .1})); }, {-.2675755, .2049683}},
  };
  for (const Row& row : rows) expect_near(check_b(row.make()), row.expected, 1e-6, row.name);
}

// Those without a value in a row: a script computed them from the papers' formulas in float64.
// spec: O9.b, O13, O14
TEST(Optimizer, CheckBOfMoreRules) {
  const std::vector<Row> rows = {
      {"O9 LARS", [] { return updater(LARS({.lr = 1})); }, {-.5142792, .9562931}},
      {"O13 LAMB", [] { return updater(LAMB({.lr = .1})); }, {-.4257323, .3136920}},
      {"O14 Rprop", [] { return updater(Rprop({.lr = .1})); }, {.0549542, .0381120}},
      {"O14 FTRL", [] { return updater(FTRL({.lr = .1})); }, {-.3042261, .5052184}},
      {"FTRL with l1, l2, beta",
       [] { return updater(FTRL({.lr = .1, .l1 = .5, .l2 = .1, .beta = .2})); },
       {-.161721774, .452429604}},
      {"O14 AdaBelief", [] { return updater(AdaBelief({.lr = .1})); }, {-.1149026, .0977215}},
      {"Yogi", [] { return updater(Yogi({.lr = .1})); }, {-.275016481, .212679598}},
      {"ASGD",
       [] { return updater(ASGD({.lr = .05, .lambda = .1, .start = 4, .weight_decay = .01})); },
       {.099187741, .088463946}},
      {"ScheduleFreeSGD",
       [] { return updater(ScheduleFreeSGD({.lr = .05, .weight_decay = .01})); },
       {-.324290388, .302137959}},
      {"ScheduleFreeAdamW",
       [] { return updater(ScheduleFreeAdamW({.lr = .1, .weight_decay = .01})); },
       {-.408856909, .526009402}},
      {"Adafactor",
       [] { return updater(Adafactor({.lr = .1, .weight_decay = .01})); },
       {-.284158164, .465613987}},
  };
  for (const Row& row : rows) expect_near(check_b(row.make()), row.expected, 1e-6, row.name);
}

// The evaluation points of optimisers that average weights, from the same script.
// spec: O14
TEST(Optimizer, AveragesOfWeights) {
  ASGD asgd({.lr = .05, .lambda = .1, .start = 4, .weight_decay = .01});
  ScheduleFreeSGD free({.lr = .05, .weight_decay = .01});
  check_b([&](Tensor& w, const Tensor& g) { asgd.update(w, g); });
  check_b([&](Tensor& w, const Tensor& g) { free.update(w, g); });
  const Tensor any(Vector{0, 0});
  expect_near(asgd.averaged(any, "average").to_vector<double>(), {-.092805113, .184654417}, 1e-6,
              "ASGD");
  expect_near(free.averaged(any, "average").to_vector<double>(), {-.358146436, .336076496}, 1e-6,
              "ScheduleFreeSGD");
}

// Steps of Muon and Adafactor do not depend on the size of the gradient; steps of Adafactor grow
// with the parameter. Steps of Shampoo grow with the root of the gradient, and do not depend on its
// size if eps grows with its square.
TEST(Optimizer, MatricesWhereSquaresLeaveTheRange) {
  const Tensor unit(std::vector<float>{.5F, -.2F, .3F, .1F, .4F, -.6F}, {2, 3});
  const Tensor start(std::vector<float>{.1F, .2F, -.3F, .4F, .5F, -.6F}, {2, 3});
  const auto step = [&](auto optimizer, float g, float w = 1) {
    Tensor at = start * w;
    optimizer.update(at, unit * g);
    return ((at - start * w) / w).template to_vector<double>();
  };
  for (const float g : {1e10F, 1e19F, 1e30F, 3e38F}) {
    expect_near(step(Muon(), g), step(Muon(), 1), 1e-4, "Muon " + std::to_string(g));
  }
  for (const float g : {1e10F, 1e15F, 1e18F}) {
    expect_near(step(Adafactor(), g), step(Adafactor(), 1), 1e-4, "Adafactor");
    expect_near(step(Shampoo({.eps = .1 * g * g}), g), step(Shampoo({.eps = .1}), 1), 1e-3,
                "Shampoo " + std::to_string(g));
  }
  for (const float w : {1e10F, 1e20F, 1e30F}) {
    expect_near(step(Adafactor(), 1, w), step(Adafactor(), 1), 1e-4, "a large parameter");
  }
}

Tensor random_filter() {
  std::vector<float> values;
  for (int i = 0; i < 72; ++i) values.push_back(std::sin(static_cast<float>(i * i + 3 * i)));
  return Tensor(values, {3, 3, 2, 4});
}

// Five steps of a 2 by 3 matrix w with the gradient sin(3 i + 5 j + t) + w / 10.
template <class Optimizer>
Vector matrix_steps(Optimizer optimizer) {
  Tensor w(Vector{.5, -.2, .3, .1, .4, -.6}, {2, 3});
  const Tensor phase(Vector{0, 5, 10, 3, 8, 13}, {2, 3});
  for (int t = 1; t <= 5; ++t) optimizer.update(w, sin(phase + t) + .1 * w);
  return w.to_vector<double>();
}

// spec: O14
TEST(Optimizer, MatricesAsWholes) {
  expect_near(matrix_steps(Adafactor({.lr = .1})),
              {.4946968173, -.2585093890, .2487673642, .1044105705, .4481054064, -.5532137792},
              1e-8, "Adafactor");
  expect_near(matrix_steps(Muon({.lr = .02, .weight_decay = .1})),
              {.4584120267, -.2443478784, .2567067260, .1062089246, .3887821340, -.6377362379},
              1e-8, "Muon");
  // With roots by eigenvalues, from NumPy.
  expect_near(matrix_steps(Shampoo()),
              {.399701, -.28809227, .26400006, .11270094, .39935799, -.61750594}, 1e-7, "Shampoo");
  // A matrix keeps n + m numbers, and a filter is a matrix too.
  Adafactor adafactor;
  Tensor w = ones({4, 6});
  adafactor.update(w, w);
  EXPECT_EQ(adafactor.state().at("rows/").shape(), Shape({4, 1}));
  EXPECT_EQ(adafactor.state().at("columns/").shape(), Shape({1, 6}));
  EXPECT_FALSE(adafactor.state().contains("variance/"));
  Muon muon;
  Tensor filter = random_filter();
  const Tensor before = filter;
  muon.update(filter, before);
  const Tensor moved = reshape(before - filter, {18, 4}) / .02;
  // Its columns are nearly orthonormal: singular values of five steps lie in about 0.7 to 1.2.
  const Tensor gram = matmul(moved, moved, {.transpose_x = true});
  for (const float off : (gram - eye(4)).to_vector<float>()) EXPECT_LT(std::abs(off), .55F);
}

struct Curve {
  Tensor x, y;
};

// spec: O14
TEST(Lbfgs, FindsTheLeastOfValleys) {
  Curve at{Tensor(Vector{-.5}), Tensor(Vector{1})};
  const auto bent = [](const Curve& c) {
    return sum(square(c.x - 1.0) + 3.0 * square(c.y - c.x * c.x));
  };
  const LBFGSResult result = lbfgs(at, bent);
  EXPECT_TRUE(result.has_converged) << result.why;
  EXPECT_LT(result.evaluations, 40);
  EXPECT_NEAR(at.x.item<double>(), 1, 1e-6);
  EXPECT_NEAR(at.y.item<double>(), 1, 1e-6);
  // Rosenbrock's function of ten numbers, whose valley is long.
  Tensor w(Vector{-1.2, 1, -1.2, 1, -1.2, 1, -1.2, 1, -1.2, 1});
  const auto rosenbrock = [](const Tensor& v) {
    const Tensor head = slice(v, {0}, {9}), tail = slice(v, {1}, {10});
    return sum(100.0 * square(tail - square(head)) + square(1.0 - head));
  };
  const LBFGSResult valley = lbfgs(w, rosenbrock, {.iterations = 300});
  EXPECT_TRUE(valley.has_converged) << valley.why;
  EXPECT_LT(valley.evaluations, 150);
  for (const double v : w.to_vector<double>()) EXPECT_NEAR(v, 1, 1e-5);
}

// Of a quadratic form of n numbers with exact slopes, n steps are nearly enough.
// spec: O14
TEST(Lbfgs, ConvergesFastAndStopsForAReason) {
  const Tensor scale(Vector{1, 10, 100, 1000}), middle(Vector{1, -2, 3, -4});
  const auto bowl = [&](const Tensor& v) { return sum(scale * square(v - middle)); };
  Tensor w(Vector{0, 0, 0, 0});
  const LBFGSResult result = lbfgs(w, bowl);
  EXPECT_TRUE(result.has_converged);
  EXPECT_LE(result.iterations, 25);
  expect_near(w.to_vector<double>(), middle.to_vector<double>(), 1e-6, "bowl");
  EXPECT_EQ(lbfgs(w, bowl).iterations, 0);  // it is there already
  Tensor short_of(Vector{0, 0, 0, 0});
  EXPECT_EQ(lbfgs(short_of, bowl, {.iterations = 2}).why, "2 iterations were done");
  EXPECT_LT(bowl(short_of).item<double>(), bowl(Tensor(Vector{0, 0, 0, 0})).item<double>());
  // Beyond a wall the function is no number: the search turns back.
  Tensor near_wall(Vector{.5});
  lbfgs(near_wall, [](const Tensor& v) { return sum(v - log(v)); });
  EXPECT_NEAR(near_wall.item<double>(), 1, 1e-6);
}

// v = g at the first update in spite of dampening, then v = momentum v + (1 - dampening) g.
// spec: O1
TEST(Optimizer, Dampening) {
  SGD sgd({.lr = 1, .momentum = .5, .dampening = .75});
  Tensor w(Vector{0});
  const Tensor g(Vector{1});
  const Vector expected = {-1, -1.75, -2.375};  // v = 1, .75, .625
  for (const double want : expected) {
    sgd.update(w, g);
    EXPECT_DOUBLE_EQ(w.item<double>(), want);
  }
}

struct Line {
  Tensor w, b;
};

// The first step after which weight and bias of y = w x + b are that near to y = x + 1.
template <class Optimizer>
int steps_to_fit(Optimizer optimizer, double near = 1e-2, int most = 1000) {
  Line line{Tensor(Vector{.8}), Tensor(Vector{.8})}, slope;
  for (int step = 1; step <= most; ++step) {
    const double w = line.w.item<double>(), b = line.b.item<double>();
    double dw = 0, db = 0;
    for (int i = -100; i <= 100; ++i) {
      const double x = i * .01, off = w * x + b - (x + 1);
      dw += 2 * off * x / 201;
      db += 2 * off / 201;
    }
    slope.w = Tensor(Vector{dw});
    slope.b = Tensor(Vector{db});
    optimizer.update(line, slope);
    if (std::abs(line.w.item<double>() - 1) < near && std::abs(line.b.item<double>() - 1) < near) {
      return step;
    }
  }
  return -1;
}

// spec: O16.a, O16.b
TEST(Optimizer, FitsALineAsFastAsItShould) {
  EXPECT_EQ(steps_to_fit(SGD()), 444);
  EXPECT_EQ(steps_to_fit(Adam()), 349);
  EXPECT_EQ(steps_to_fit(Adam({.amsgrad = true})), 352);
  EXPECT_EQ(steps_to_fit(AdamW()), 358);
  EXPECT_EQ(steps_to_fit(RMSProp()), 205);
  EXPECT_EQ(steps_to_fit(AdaGrad({.lr = .01})), 394);
  EXPECT_EQ(steps_to_fit(AdaDelta()), 99);
  EXPECT_EQ(steps_to_fit(AdaMax()), 236);
  EXPECT_EQ(steps_to_fit(RAdam()), 910);
  EXPECT_NE(steps_to_fit(RAdam(), 2e-4, 1400), -1);
  EXPECT_EQ(steps_to_fit(NAdam()), 369);
  EXPECT_EQ(steps_to_fit(Lion({.lr = 1e-3})), 190);
  EXPECT_EQ(steps_to_fit(LAMB()), 214);
}

struct Model {
  Tensor large, small;
  std::vector<Tensor> more;
};

Tensor ramp(int64_t n, float scale) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = scale * (static_cast<float>(i % 97) - 40.0f);
  }
  return Tensor(values);
}

Model model(float scale) { return {ramp(100'000, scale), ramp(3, scale), {ramp(70'001, scale)}}; }

std::vector<const void*> addresses(const Model& m) {
  return {TensorAccess::data(m.large), TensorAccess::data(m.small), TensorAccess::data(m.more[0])};
}

template <class Optimizer>
void expect_in_place(Optimizer optimizer) {
  Model m = model(1);
  const Model g = model(.1f);
  optimizer.update(m, g);
  const auto before = addresses(m);
  const MemoryScope scope;
  for (int i = 0; i < 3; ++i) optimizer.update(m, g);
  EXPECT_EQ(addresses(m), before);
  EXPECT_LT(scope.stats().peak_bytes, 4096);  // the rates and list of results only
  EXPECT_EQ(scope.stats().deep_copies, 0);
}

// spec: V23.a, V23.b
TEST(Optimizer, UpdatesInPlaceWithoutAllocating) {
  expect_in_place(SGD());
  expect_in_place(SGD({.momentum = .9}));
  expect_in_place(Adam());
  expect_in_place(AdamW({.amsgrad = true}));
  expect_in_place(AdaGrad());
  expect_in_place(NAdam());
  expect_in_place(RMSProp({.momentum = .9, .centered = true}));
}

// spec: V32.a
TEST(Optimizer, ACopyOfTheModelKeepsItsValues) {
  Model m = model(1);
  const Model g = model(.1f), kept = m;
  AdamW optimizer;
  optimizer.update(m, g);
  EXPECT_TRUE(same_value(kept.large, model(1).large));
  EXPECT_FALSE(same_value(m.large, kept.large));
}

// spec: V56.a, V30.c
TEST(Optimizer, ACopyGoesOnByItself) {
  Model a = model(1);
  const Model g = model(.1f);
  Adam optimizer({.lr = .1});
  optimizer.update(a, g);
  Model b = a;
  Adam twin = optimizer;
  for (int i = 0; i < 3; ++i) optimizer.update(a, g);
  for (int i = 0; i < 3; ++i) twin.update(b, g);
  EXPECT_TRUE(same_value(a.large, b.large));
  EXPECT_TRUE(same_value(a.more[0], b.more[0]));
  EXPECT_EQ(twin.updates(), 4);
}

TEST(Optimizer, AbsentGradientsLeaveTheirParameter) {
  Model m = model(1);
  Model g = model(.1f);
  g.large = Tensor();
  AdamW optimizer;
  optimizer.update(m, g);
  EXPECT_TRUE(same_value(m.large, model(1).large));
  EXPECT_FALSE(same_value(m.small, model(1).small));
}

// Bits do not depend on the number of threads.
TEST(Optimizer, SameBitsForEveryThreadCount) {
  std::vector<Model> results;
  for (const int threads : {1, 2, 7}) {
    set_thread_count(threads);
    Model m = model(1);
    const Model g = model(.1f);
    AdamW optimizer({.lr = .1, .amsgrad = true});
    for (int i = 0; i < 3; ++i) optimizer.update(m, g);
    results.push_back(m);
  }
  set_thread_count(0);
  for (const Model& m : results) {
    EXPECT_TRUE(same_value(m.large, results[0].large));
    EXPECT_TRUE(same_value(m.more[0], results[0].more[0]));
  }
}

template <class Optimizer>
void expect_resumed(Optimizer optimizer, const Optimizer& fresh) {
  Model m = model(1);
  const Model g = model(.1f);
  for (int i = 0; i < 7; ++i) optimizer.update(m, g);
  Optimizer other = fresh;
  other.restore(optimizer.state());
  Model n = m;
  optimizer.update(m, g);
  other.update(n, g);
  EXPECT_TRUE(same_value(m.large, n.large));
  EXPECT_TRUE(same_value(m.more[0], n.more[0]));
}

// spec: K3.c
TEST(Optimizer, EveryRuleRestoresExactly) {
  expect_resumed(RMSProp({.momentum = .9, .centered = true}),
                 RMSProp({.momentum = .9, .centered = true}));
  expect_resumed(AdaGrad(), AdaGrad());
  expect_resumed(AdaDelta(), AdaDelta());
  expect_resumed(AdaMax(), AdaMax());
  expect_resumed(RAdam(), RAdam());
  expect_resumed(NAdam(), NAdam());
  expect_resumed(Lion(), Lion());
}

// spec: K3.c, V56.c
TEST(Optimizer, StateIsNamedAfterTheModelAndRestoresExactly) {
  Model m = model(1);
  const Model g = model(.1f);
  Adam optimizer({.lr = .1});
  for (int i = 0; i < 3; ++i) optimizer.update(m, g);
  const State state = optimizer.state();
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"mean/large", "mean/more/0", "mean/small", "updates",
                                      "variance/large", "variance/more/0", "variance/small"}));
  Adam other({.lr = .1});
  other.restore(state);
  EXPECT_EQ(other.state().size(), state.size());
  Model n = m;
  optimizer.update(m, g);
  other.update(n, g);
  EXPECT_TRUE(same_value(m.large, n.large));
  EXPECT_EQ(other.updates(), 4);
}

template <class Fn>
std::string failure(Fn fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(Optimizer, MistakesAreNamed) {
  Model m = model(1), g = model(1);
  g.more[0] = Tensor({1.0, 2.0});
  Adam adam;
  EXPECT_NE(failure([&] {
              adam.update(m, g);
            }).find("parameter 'more/0' is float32[70001], but its gradient is float32[2]"),
            std::string::npos);
  g.more.clear();
  EXPECT_NE(failure([&] { adam.update(m, g); }).find("3 tensors, but the gradients have 2"),
            std::string::npos);
  EXPECT_NE(failure([] { SGD({.nesterov = true}); }).find("nesterov needs a momentum"),
            std::string::npos);
  EXPECT_NE(failure([] { RMSProp({.rho = 1}); }).find("RMSProp: rho is 1"), std::string::npos);
  EXPECT_NE(failure([] { AdaGrad({.initial_accumulator = -1}); }).find("initial_accumulator is -1"),
            std::string::npos);
  EXPECT_NE(failure([] { Adam({.beta1 = 1}); }).find("beta1 is 1"), std::string::npos);
  SGD sgd({.momentum = .9});
  EXPECT_NE(failure([&] {
              sgd.restore({{"updates", Tensor(1)}, {"mean/w", Tensor(1.0)}});
            }).find("'mean/w', but this optimiser keeps only velocity"),
            std::string::npos);
  EXPECT_NE(failure([&] { sgd.restore({}); }).find("no entry 'updates'"), std::string::npos);
  sgd.restore({{"updates", Tensor(1)}, {"velocity/w", Tensor(1.0)}});
  Model n = model(1);
  EXPECT_NE(failure([&] { sgd.update(n, model(1)); }).find("'velocity/w', but the model has no"),
            std::string::npos);
}

}  // namespace
}  // namespace etude::optim
