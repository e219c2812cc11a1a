// SPDX-License-Identifier: Apache-2.0
// Operators make values of a user's types by copying and moving existing values: initialisers of
// members, which draw random numbers or have other effects, never run again.

#include "etude/autodiff/custom_gradient.h"
#include "etude/autodiff/gradient.h"
#include "etude/core/context/ambient.h"
#include "etude/data/loader.h"
#include "etude/diff/any_differentiable.h"
#include "etude/diff/custom_gradient.h"
#include "etude/diff/scan.h"
#include "etude/io/checkpoint/checkpoint.h"
#include "etude/nn/fit/fit.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/sequential.h"
#include "etude/nn/losses/losses.h"
#include "etude/nn/summary.h"
#include "etude/ops.h"
#include "etude/ops/random.h"
#include "etude/optim/adam.h"
#include "etude/optim/adaptive_rules.h"
#include "etude/optim/descent_rules.h"
#include "etude/optim/sgd.h"
#include "tests/gradient/expect.h"
#include "tests/temp_folder.h"

namespace etude {
namespace {

using tests::expect_values;

int drawn = 0;  // initialisers that ran
Tensor draw(const Shape& shape) {
  ++drawn;
  return random::normal(shape);
}
double count(double x) {
  ++drawn;
  return x;
}

// Is its own tangent.
struct Part {
  Tensor w = draw({3});
};
// A class that can only be constructed from a value, and counts how it is made.
class Counted {
 public:
  explicit Counted(Tensor given) : w(std::move(given)) {}
  Counted(const Counted& other) : w(other.w) { ++copies; }
  Counted(Counted&& other) noexcept : w(std::move(other.w)) { ++moves; }
  Counted& operator=(const Counted&) = default;
  Counted& operator=(Counted&&) = default;
  ~Counted() = default;
  Tensor w;
  static inline int copies = 0, moves = 0;
  ETUDE_FIELDS(Counted, w);
};
// A tangent is this struct again.
struct Own {
  Part part;
  std::array<Part, 2> parts;
  Tensor b = draw({3});
  Tensor operator()(const Tensor& x) const {
    return x * part.w * parts[0].w + parts[1].w * square(b);
  }
};
// A tangent is a Tangent<Model>, some slots of which are such structs.
struct Model {
  Counted counted{draw({3})};
  Own own;
  std::vector<Part> list = std::vector<Part>(2);
  std::map<std::string, Part> map = {{"a", {}}};
  std::optional<Part> maybe = Part();
  std::variant<Part, Own> either = Own();
  std::pair<Part, int> pair;
  Freezable<Part> freezable;
  NoDerivative<Part> fixed;
  int steps = static_cast<int>(count(3));
  Tensor operator()(const Tensor& x, CallSite = CallSite::here()) const {
    Tensor y = own(x) * counted.w + list[0].w * list[1].w + map.at("a").w + maybe->w;
    y = y + std::get<Own>(either)(x) * pair.first.w + freezable.value.w * fixed.value.w;
    return y * (1.0 / steps);
  }
};

// Fails if an initialiser or default constructor runs within fn.
template <class Fn>
void expect_untouched(const char* what, const Fn& fn) {
  SCOPED_TRACE(what);
  const int before = drawn;
  const Generator generator = ambient().generator;
  fn();
  EXPECT_EQ(drawn, before) << "an initialiser of a member ran";
  EXPECT_EQ(ambient().generator, generator) << "random numbers were drawn";
}

struct Setting {
  Model model;
  Tensor x = Tensor({{1.0F, 2.0F, 3.0F}, {4.0F, 5.0F, 6.0F}});
  std::function<Tensor(const Model&)> loss = [x = x](const Model& m) { return mean(m(x)); };
  static Tensor run(const Model& m, const Tensor& x) { return m(x); }
};

TEST(Construction, TangentsAreMadeOfTheirParts) {
  const Setting s;
  const Tangent<Model> t = zero_tangent(s.model);
  expect_untouched("zero_tangent", [&] { zero_tangent(s.model); });
  expect_untouched("zero_tangent of its own tangent", [&] { zero_tangent(s.model.own); });
  expect_untouched("zero_tangent of a tangent", [&] { zero_tangent(t); });
  expect_untouched("vector_view", [&] { static_cast<void>(vector_view(s.model)); });
  expect_untouched("a copy that moves", [&] {
    Model m = s.model;
    move(m, -0.1 * (t + t) - t);
  });
  expect_untouched("AnyDifferentiable", [&] {
    AnyDifferentiable any(s.model);
    any.move_along(any.zero() + AnyTangent(t));
  });
  expect_untouched("freeze", [&] {
    Model m = s.model;
    EXPECT_EQ(freeze(m, "freezable"), 1u);
    zero_tangent(m);
  });
}

TEST(Construction, ReverseModeMakesNothingAnew) {
  const Setting s;
  expect_untouched("gradient", [&] { gradient(s.loss, s.model); });
  expect_untouched("value_with_gradient", [&] { value_with_gradient(s.loss, s.model); });
  expect_untouched("gradient of its own tangent", [&] {
    const Own slope = gradient([&](const Own& m) { return sum(m(s.x)); }, s.model.own);
    const Tensor want = 2.0 * square(s.model.own.b);  // of two examples
    EXPECT_TRUE(same_value(slope.parts[1].w, want)) << slope.parts[1].w.to_string();
  });
  expect_untouched("gradient of several arguments", [&] {
    gradient([](const Model& m, const Own& o, const Tensor& x) { return sum(m(x) * o(x)); },
             s.model, s.model.own, s.x);
  });
  expect_untouched("pullback", [&] {
    const auto [y, pull] = value_with_pullback([&](const Model& m) { return m(s.x); }, s.model);
    pull(ones(y.shape()));
  });
  expect_untouched("a pullback of a model as result", [&] {
    const auto pull = pullback([](const Own& m) { return m; }, s.model.own);
    const Own back = pull(s.model.own);
    EXPECT_TRUE(same_value(back.b, s.model.own.b));
  });
  expect_untouched("vjp", [&] { vjp([&](const Model& m) { return sum(m(s.x)); }, s.model, 1.0F); });
  expect_untouched("GradientTape", [&] {
    GradientTape tape;
    tape.watch(s.model);
    tape.gradient(s.loss(s.model), s.model);
  });
  expect_untouched("recompute_grad", [&] {
    gradient([&](const Model& m) { return mean(recompute_grad(&Setting::run)(m, s.x)); }, s.model);
  });
  expect_untouched("custom_gradient", [&] {
    const auto half = custom_gradient([](const Own& m) {
      return std::pair{m.b, [m](const Tensor& dy) {
                         Own slope = m;
                         slope.b = 0.5 * dy;
                         return slope;
                       }};
    });
    gradient([&](const Own& m) { return sum(half(m)); }, s.model.own);
  });
  expect_untouched("stop_gradient", [&] { static_cast<void>(stop_gradient(s.model)); });
}

TEST(Construction, OtherModesMakeNothingAnew) {
  const Setting s;
  const Tangent<Model> t = zero_tangent(s.model);
  expect_untouched("jvp", [&] { jvp(s.loss, s.model, t); });
  expect_untouched("differential", [&] { differential(s.loss, s.model)(t); });
  expect_untouched("hvp", [&] { hvp(s.loss, s.model, t); });
  expect_untouched("gradient of gradient", [&] {
    gradient([&](const Model& m) { return norm(gradient(s.loss, m)); }, s.model);
  });
  expect_untouched("vmap", [&] {
    const Own batch = vmap([](const Own& m) {
      Own out = m;
      out.b = 2.0 * m.b;
      return out;
    })(s.model.own);
    EXPECT_TRUE(same_value(batch.b, 2.0 * s.model.own.b));
  });
  expect_untouched("gradients for each example", [&] {
    vmap([&](const Tensor& x) {
      return gradient([&](const Own& m) { return sum(m(x)); }, s.model.own);
    })(s.x);
  });
}

TEST(Construction, ListedClassesAreOnlyCopiedAndMoved) {
  const Counted c(Tensor({1.0F, 2.0F}));
  Counted::copies = 0;
  const auto slope = gradient([](const Counted& m) { return sum(square(m.w)); }, c);
  EXPECT_EQ(Counted::copies, 1);  // the watched copy
  expect_values(slope.w, {2, 4});
  Counted::copies = 0;
  Counted moved = c;
  move(moved, slope);
  EXPECT_EQ(Counted::copies, 1);
  expect_values(moved.w, {3, 6});
}

// Numbers: of up to four and of more, with scalars exchanged.
template <class T>
struct Numbers {
  T x = T(count(1)), y = T(count(2));
};
template <class T>
struct ManyNumbers {
  Numbers<T> a, b, c;
  std::variant<Numbers<T>, T> either = Numbers<T>();
};
TEST(Construction, NumbersAreMadeOfTheirParts) {
  const Numbers<double> few;
  const ManyNumbers<double> many;
  const auto of_few = [](const auto& v) { return v.x * v.x * v.y; };
  const auto of_many = [](const auto& v) {
    return v.a.x * v.b.y * v.c.x * std::get<0>(v.either).y;
  };
  expect_untouched("gradient of two", [&] { EXPECT_EQ(gradient(of_few, few).x, 4); });
  expect_untouched("gradient of eight", [&] { EXPECT_EQ(gradient(of_many, many).a.x, 4); });
  expect_untouched("pullback", [&] { EXPECT_EQ(pullback(of_many, many)(1.0).a.x, 4); });
  expect_untouched("jvp", [&] { jvp(of_few, few, few); });
  expect_untouched("hvp", [&] { hvp(of_few, few, few); });
  expect_untouched("gradient of gradient",
                   [&] { gradient([&](const auto& v) { return gradient(of_few, v).y; }, few); });
  expect_untouched("zero_tangent", [&] { zero_tangent(many); });
}

struct Body {
  template <class S, class P>
  constexpr S operator()(const S& s, const P& p) const {
    return S{s.x * p.x, s.y + s.x};
  }
};
TEST(Construction, ScansMakeNoStates) {
  const Numbers<double> few;
  expect_untouched("scan", [&] {
    const auto f = [](const auto& v) { return scan(3, v, v, Body{}).y; };
    EXPECT_EQ(gradient(f, few).y, 1);
    EXPECT_EQ(pullback(f, few)(1.0).x, 6);
  });
}

template <class Optimizer>
void check_optimizer(const char* name) {
  const Setting s;
  Model model = s.model;
  const auto grads = gradient(s.loss, model);
  expect_untouched(name, [&] {
    Optimizer optimizer;
    optimizer.update(model, grads);
    Optimizer other;
    other.restore(optimizer.state());
    other.update(model, grads);
  });
}
TEST(Construction, OptimisersMakeNothingAnew) {
  check_optimizer<optim::SGD>("SGD");
  check_optimizer<optim::Adam>("Adam");
  check_optimizer<optim::AdamW>("AdamW");
  check_optimizer<optim::RMSProp>("RMSProp");
  check_optimizer<optim::Lion>("Lion");
}

TEST(Construction, TrainingMakesNothingAnew) {
  Setting s;
  const data::Samples samples{random::normal({8, 3}), random::normal({8, 3})};
  data::Loader<data::Samples> data(samples, {.batch = 4});
  optim::SGD optimizer;
  const auto loss = [](const Tensor& y, const Tensor& want) { return mean(square(y - want)); };
  expect_untouched("fit", [&] { nn::fit(s.model, optimizer, data, loss, {.epochs = 2}); });
  expect_untouched("evaluate", [&] { nn::evaluate(s.model, data::batches(samples, 4), loss); });
  expect_untouched("infer", [&] { nn::infer(s.model, samples.inputs); });
  expect_untouched("summary", [&] { nn::summary(s.model, {4, 3}); });
  const internal::TempFolder folder;
  const std::string file = (folder.path() / "checkpoint").string();
  expect_untouched("a checkpoint", [&] {
    io::save_checkpoint(file, s.model, optimizer, data);
    io::load_checkpoint(file, s.model, optimizer, data);
  });
}

}  // namespace
}  // namespace etude
