// SPDX-License-Identifier: Apache-2.0
// Custom rules in every mode and every nesting of two: forward mode uses the rule, and so does a
// gradient around a vmap.
#include "etude/autodiff/custom_gradient.h"
#include "etude/base/warning.h"
#include "etude/core/buffer.h"
#include "etude/ops.h"
#include "tests/gradient/expect.h"
#include "tests/live_memory.h"

namespace etude {
namespace {

using tests::expect_error;
using tests::expect_values;

// Rules with wrong derivatives, so that a mode that ignores the rule is detected.
const auto kRound = custom_gradient([](const Tensor& x) {  // straight through: slope 1
  return std::pair{round(x), [](const Tensor& dy) { return dy; }};
});
const auto kSquare = custom_gradient([](const Tensor& x) {  // slope 3x, second slope 3
  return std::pair{x * x, [x](const Tensor& dy) { return 3.0F * dy * x; }};
});
const auto kProduct = custom_gradient([](const Tensor& x, const Tensor& w) {  // 5 w and 7 x
  return std::pair{x * w, [=](const Tensor& dy) {
                     return std::tuple{5.0F * dy * w, 7.0F * dy * x};
                   }};
});
const auto kTwo = custom_gradient([](const Tensor& x) {  // (x, 2x) with slopes 10 and 100
  return std::pair{std::tuple(x * 1.0F, 2.0F * x),
                   [](const Tensor& da, const Tensor& db) { return 10.0F * da + 100.0F * db; }};
});
const Tensor kX(1.25F), kXs = Tensor({1.25F, 2.0F, 3.0F}), kOnes = Tensor({1.0F, 1.0F, 1.0F});

template <class F>
auto slope(const F& f) {
  return [f](const Tensor& x) { return gradient([&](const Tensor& t) { return f(t); }, x); };
}
template <class F>
auto forward(const F& f) {
  return [f](const Tensor& x) { return jvp(f, x, ones(x.shape())).second; };
}
template <class F>
auto summed(const F& f) {
  return [f](const Tensor& x) { return sum(vmap(f)(x)); };
}

TEST(CustomModes, ReverseMode) {
  expect_values(slope(kRound)(kX), {1});
  expect_values(slope(kSquare)(kX), {3.75});
}

TEST(CustomModes, RulesGiveWhatFitsTheInput) {
  const int line = __LINE__ + 1;
  const auto long_rule = custom_gradient([](const Tensor& x) {
    return std::pair{sum(x), [](const Tensor& dy) { return dy * ones({7}); }};
  });
  const auto wide_rule = custom_gradient([](const Tensor& x) {
    return std::pair{sum(x), [](const Tensor& dy) {
                       return astype(dy, kFloat64) * ones({3}, {.dtype = kFloat64});
                     }};
  });
  const std::string at = "custom_modes_test.cc:" + std::to_string(line);
  const auto expect_refusal = [&](const auto& run) {
    expect_error(
        run, ErrorCode::kInvalidArgument,
        {"custom_gradient", "returned a gradient float32[7]", "input 0, which is float32[3]",
         "Return one of the shape and dtype of the input", at});
  };
  expect_refusal([&] { gradient(long_rule, kXs); });
  expect_refusal([&] { jvp(long_rule, kXs, kOnes); });
  expect_refusal([&] { gradient([&](const Tensor& x) { return long_rule(x) + sum(x); }, kXs); });
  expect_error([&] { gradient(wide_rule, kXs); }, ErrorCode::kInvalidArgument,
               {"returned a gradient float64[3]", "which is float32[3]"});
  expect_error(
      [&] {
        vmap([&](const Tensor& x) { return gradient(long_rule, x); })(ones({2, 3}));
      },
      ErrorCode::kInvalidArgument, {"returned a gradient", "input 0, which is"});
  const auto hook = [](const Tensor& x) {
    return with_derivative(x, [](const Tensor& dy) { return sum(dy); });
  };
  expect_error([&] { gradient([&](const Tensor& x) { return sum(hook(x)); }, kXs); },
               ErrorCode::kInvalidArgument,
               {"returned a gradient float32[]", "custom_modes_test.cc"});
  // A sum over examples for an argument that all examples share, and a gradient of a sparse
  // argument.
  const Tensor w(2.0F);
  const auto shared = [&](const Tensor& v) {
    return sum(vmap([&](const Tensor& e) { return kProduct(e, v); })(kXs));
  };
  expect_values(gradient(shared, w), {7 * 6.25});
}

TEST(CustomModes, AValueOutlivesItsPullback) {
  const auto square = [](const Tensor& x) {
    return value_with_pullback([](const Tensor& t) { return t * t; }, x).first;
  };
  expect_values(slope(square)(kX), {2.5});
  expect_values(vmap(slope(square))(kXs), {2.5, 4, 6});
}

TEST(CustomModes, ForwardModeGoesByTheRule) {
  const auto [y, t] = jvp(kRound, kX, Tensor(2.0F));
  expect_values(y, {1});
  expect_values(t, {2});
  expect_values(forward(kSquare)(kX), {3.75});
  expect_values(
      jvp(kProduct, std::tuple(Tensor(2.0F), Tensor(3.0F)), {Tensor(1.0F), Tensor(0.0F)}).second,
      {15});
  expect_values(
      jvp(kProduct, std::tuple(Tensor(2.0F), Tensor(3.0F)), {Tensor(1.0F), Tensor(10.0F)}).second,
      {15 + 140});
  const auto [values, tangents] = jvp(kTwo, kX, Tensor(1.0F));
  expect_values(std::get<0>(tangents), {10});
  expect_values(std::get<1>(tangents), {100});
  // Of matrices: the transpose of the pullback, not the pullback.
  const auto twice = custom_gradient([](const Tensor& x, const Tensor& w) {
    return std::pair{
        matmul(x, w), [=](const Tensor& dy) {
          return std::tuple{2.0F * matmul(dy, w, {.transpose_y = true}), zeros(w.shape())};
        }};
  });
  const Tensor x({{1.0F, 2.0F}}), w({{1.0F, 2.0F, 3.0F}, {4.0F, 5.0F, 6.0F}});
  const Tensor moved =
      jvp([&](const Tensor& v) { return twice(v, w); }, x, Tensor({{1.0F, 10.0F}})).second;
  expect_values(moved, {82, 104, 126});
}

TEST(CustomModes, NestedTwice) {
  expect_values(slope(slope(kSquare))(kX), {3});
  expect_values(forward(forward(kSquare))(kX), {3});
  expect_values(forward(slope(kSquare))(kX), {3});
  expect_values(slope(forward(kSquare))(kX), {3});
  expect_values(slope(slope(kRound))(kX), {0});
  expect_values(forward(slope(kRound))(kX), {0});
  expect_values(slope(forward(kRound))(kX), {0});
  expect_values(hvp(kSquare, kX, Tensor(2.0F)), {6});
  expect_values(hessian([](const Tensor& x) { return sum(kSquare(x)); }, kXs),
                {3, 0, 0, 0, 3, 0, 0, 0, 3});
  expect_values(jacobian([](const Tensor& x) { return kSquare(x); }, kXs),
                {3.75, 0, 0, 0, 6, 0, 0, 0, 9});
}

TEST(CustomModes, WithVmap) {
  expect_values(vmap(kRound)(kXs), {1, 2, 3});
  expect_values(vmap(slope(kSquare))(kXs), {3.75, 6, 9});
  expect_values(vmap(forward(kSquare))(kXs), {3.75, 6, 9});
  expect_values(slope(summed(kRound))(kXs), {1, 1, 1});
  expect_values(slope(summed(kSquare))(kXs), {3.75, 6, 9});
  expect_values(forward(vmap(kSquare))(kXs), {3.75, 6, 9});
  expect_values(slope(summed(slope(kSquare)))(kXs), {3, 3, 3});
  expect_values(slope(summed(forward(kSquare)))(kXs), {3, 3, 3});
  expect_values(forward(vmap(slope(kSquare)))(kXs), {3, 3, 3});
  expect_values(vmap(slope(slope(kSquare)))(kXs), {3, 3, 3});
  expect_values(hvp(summed(kSquare), kXs, kOnes), {3, 3, 3});
  const Tensor matrix({{1.25F, 2.0F}, {3.0F, 4.0F}});
  const auto nested = [](const Tensor& x) {
    return sum(vmap([](const Tensor& row) { return vmap(kSquare)(row); })(x));
  };
  expect_values(slope(nested)(matrix), {3.75, 6, 9, 12});
  expect_values(forward([&](const Tensor& x) { return nested(x); })(matrix), {3.75 + 6 + 9 + 12});
}

TEST(CustomModes, WithVmapAndWhatIsTheSameForAllExamples) {
  const Tensor w(2.0F);
  const auto loss = [](const Tensor& x, const Tensor& v) {
    return sum(vmap([&](const Tensor& e) { return kProduct(e, v); })(x));
  };
  const auto [dx, dw] = gradient(loss, kXs, w);
  expect_values(dx, {10, 10, 10});
  expect_values(dw, {7 * 6.25});
  expect_values(jvp([&](const Tensor& v) { return loss(kXs, v); }, w, Tensor(1.0F)).second,
                {7 * 6.25});
  // A rule that captures a value of the vmap around it.
  const auto captured = [](const Tensor& x) {
    return sum(vmap([](const Tensor& e) {
      const Tensor scale = 2.0F * e;
      return custom_gradient([scale](const Tensor& t) {
        return std::pair{t * 1.0F, [scale](const Tensor& dy) { return dy * scale; }};
      })(e);
    })(x));
  };
  expect_values(slope(captured)(kXs), {2.5, 4, 6});
  // A result that is the same for all examples.
  const auto constant = custom_gradient([](const Tensor& x) {
    return std::pair{Tensor(4.0F), [x](const Tensor& dy) { return dy * x; }};
  });
  expect_values(vmap(constant)(kXs), {4, 4, 4});
  expect_values(slope([&](const Tensor& x) {
                  return sum(vmap(constant)(x) * Tensor({1.0F, 2.0F, 3.0F}));
                })(kXs),
                {1.25, 4, 9});
  const auto two = [](const Tensor& x) {
    const auto [a, b] = vmap(kTwo)(x);
    return sum(a) + sum(b);
  };
  expect_values(slope(two)(kXs), {110, 110, 110});
}

TEST(CustomModes, TapesByHand) {
  GradientTape outer({.persistent = true});
  outer.watch(kXs);
  const Tensor y = vmap(kSquare)(kXs);
  expect_values(outer.gradient(y, kXs), {3.75, 6, 9});
  expect_values(outer.jacobian(y, kXs), {3.75, 0, 0, 0, 6, 0, 0, 0, 9});
  const auto [value, pull] =
      value_with_pullback([](const Tensor& x) { return vmap(kSquare)(x); }, kXs);
  expect_values(pull(kOnes), {3.75, 6, 9});
  expect_values(pull(kXs), {1.25 * 3.75, 12, 27});
  expect_values(vmap([&](const Tensor& ct) { return pull(ct); })(stack({kOnes, kXs})),
                {3.75, 6, 9, 1.25 * 3.75, 12, 27});
}

TEST(CustomModes, PullbacksThatAreNotLinearHaveNoForwardMode) {
  const auto clipped = [](const Tensor& x) {
    return with_derivative(x, [](const Tensor& dy) { return minimum(maximum(dy, -1.0F), 1.0F); });
  };
  expect_values(slope([&](const Tensor& x) { return 5.0F * clipped(x); })(kX), {1});
  expect_values(slope([&](const Tensor& x) { return sum(5.0F * vmap(clipped)(x)); })(kXs),
                {1, 1, 1});
  expect_error([&] { forward(clipped)(kX); }, ErrorCode::kInvalidArgument,
               {"custom_gradient: forward mode needs a pullback that is linear in its cotangents, "
                "but maximum at ",
                "is not. Take the derivative in reverse mode, or make the pullback of calls that "
                "are linear in dy"});
  expect_error([&] { hvp([&](const Tensor& x) { return sum(square(clipped(x))); }, kX, kX); },
               ErrorCode::kInvalidArgument, {"custom_gradient: forward mode needs"});
  const auto outside = [](const Tensor& x) {
    return with_derivative(x, [](const Tensor& dy) { return Tensor(2 * dy.item<float>()); });
  };
  expect_values(slope(outside)(kX), {2});
  expect_error([&] { forward(outside)(kX); }, ErrorCode::kInvalidArgument,
               {"but it computes outside of tensors or adds a constant"});
  const auto none = custom_gradient([](const Tensor& x) {
    return std::pair{x * x, [](const Tensor& dy) { return zeros(dy.shape()); }};
  });
  expect_values(forward(none)(kX), {0});
  const auto wrong = custom_gradient([](const Tensor& x, const Tensor& y) {
    return std::pair{x * y, [](const Tensor& dy) { return dy; }};
  });
  expect_error([&] { jvp([&](const Tensor& x) { return wrong(x, x); }, kX, kX); },
               ErrorCode::kInvalidArgument, {"custom_gradient", "1 gradients for 2 inputs"});
  expect_error(
      [&] {
        gradient(
            [&](const Tensor& x) {
              return sum(vmap([&](const Tensor& e) { return wrong(e, e); })(x));
            },
            kXs);
      },
      ErrorCode::kInvalidArgument, {"custom_gradient", "1 gradients for 2 inputs"});
}

TEST(CustomModes, RecomputedFunctionsHaveTheirOwnDerivatives) {
  int runs = 0;
  const auto cube = recompute_grad([&](const Tensor& x) { return ++runs, x * x * x; });
  const auto expect_runs = [&](int want) { EXPECT_EQ(std::exchange(runs, 0), want); };
  expect_values(slope(cube)(Tensor(2.0F)), {12});
  expect_runs(2);
  expect_values(forward(cube)(Tensor(2.0F)), {12});
  expect_runs(1);
  expect_values(slope(slope(cube))(Tensor(2.0F)), {12});
  expect_values(forward(forward(cube))(Tensor(2.0F)), {12});
  expect_values(forward(slope(cube))(Tensor(2.0F)), {12});
  expect_values(slope(forward(cube))(Tensor(2.0F)), {12});
  expect_values(vmap(slope(cube))(kXs), {3 * 1.5625, 12, 27});
  expect_values(vmap(forward(cube))(kXs), {3 * 1.5625, 12, 27});
  runs = 0;
  expect_values(slope(summed(cube))(kXs), {3 * 1.5625, 12, 27});
  expect_runs(2);
  expect_values(forward(vmap(cube))(kXs), {3 * 1.5625, 12, 27});
  expect_runs(1);
  expect_values(hvp(summed(cube), kXs, kOnes), {7.5, 12, 18});
  expect_values(slope(summed(forward(cube)))(kXs), {7.5, 12, 18});
  expect_values(slope(summed(slope(cube)))(kXs), {7.5, 12, 18});
  const auto scaled = [](const Tensor& x, const Tensor& w) {
    return sum(vmap([&](const Tensor& e) {
      return recompute_grad([](const Tensor& a, const Tensor& b) { return a * b * b; })(e, w);
    })(x));
  };
  const auto [dx, dw] = gradient(scaled, kXs, Tensor(3.0F));
  expect_values(dx, {9, 9, 9});
  expect_values(dw, {6 * 6.25});
}

TEST(CustomModes, RecomputingInAVmapKeepsNoCalls) {
  const auto deep = [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 10; ++i) y = exp(y * 0.1F);
    return y;
  };
  GradientTape tape;
  tape.watch(kXs);
  const int64_t before = tests::live_tensors();
  const Tensor y = vmap(recompute_grad(deep))(kXs);
  EXPECT_LE(tape.size(), 1u);
  EXPECT_LE(tests::live_tensors(), before + 4);
  const Tensor want = gradient([&](const Tensor& x) { return sum(deep(x)); }, kXs);
  EXPECT_TRUE(same_value(tape.gradient(y, kXs), want));
}

}  // namespace
}  // namespace etude
