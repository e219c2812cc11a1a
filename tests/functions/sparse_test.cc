// SPDX-License-Identifier: Apache-2.0
// Sparse gradients of staged functions: rows stay rows into and out of a graph, with the bits of
// eager calls.
#include <gtest/gtest.h>

#include "etude/core/buffer.h"
#include "etude/etude.h"
#include "tests/expect_error.h"
#include "tests/live_memory.h"

namespace etude::sparse_test {
namespace {

using tests::expect_error;
using Ints = std::vector<int>;

Tensor wave(const Shape& shape, float by = 1.3F) {
  return reshape(sin(arange(static_cast<double>(shape.count()), {.dtype = kFloat32}) * by),
                 IntList(shape));
}
Tensor table() { return wave({6, 3}); }
Tensor ids() { return Tensor({4, 1, 4, 0, 4}); }

// Both sparse, with the same rows in the same order; or both dense.
void expect_same(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.has_value(), want.has_value());
  if (!want.has_value()) return;
  const auto a = got.slices(), b = want.slices();
  ASSERT_EQ(a.has_value(), b.has_value());
  if (b) {
    EXPECT_TRUE(same_value(a->indices, b->indices)) << a->indices << b->indices;
    EXPECT_TRUE(same_value(a->values, b->values)) << a->values << b->values;
    EXPECT_EQ(a->dense_shape, b->dense_shape);
  }
  EXPECT_TRUE(same_value(got, want)) << got << want;
}

// A loss with several reads of the table.
Tensor loss(const Tensor& x, const Tensor& at) {
  return sum(exp(take(x, at))) + sum(take(x, Tensor({4, 2})) * 3.0F);
}

// spec: FB-08.a
TEST(SparseFunctions, TheGradientOfATakeInsideStaysSparse) {
  const auto staged = function(loss);
  const Tensor x = table(), at = ids();
  const auto slope = [&](auto& f) {
    return gradient([&](const Tensor& v) { return f(v, at); }, x);
  };
  const Tensor want = slope(loss);
  ASSERT_TRUE(want.slices().has_value());
  expect_same(slope(staged), want);
  expect_same(slope(staged), want);
  // In a function that takes the gradient, and in one around that.
  const auto inside = function([&](const Tensor& v, const Tensor& i) -> Tensor {
    return gradient([&](const Tensor& u) { return staged(u, i); }, v);
  });
  expect_same(inside(x, at), want);
  const auto around = function([&](const Tensor& v, const Tensor& i) { return inside(v, i); });
  expect_same(around(x, at), want);
  // A tape around two calls, and one around a call of a call.
  const auto twice = [&](auto& f) {
    return gradient([&](const Tensor& v) { return f(v, at) + f(v * 2.0F, at); }, x);
  };
  expect_same(twice(staged), twice(loss));
  const auto nested =
      function([&](const Tensor& v, const Tensor& i) { return staged(-v, i) * 2.0F; });
  const auto plain = [&](const Tensor& v, const Tensor& i) { return loss(-v, i) * 2.0F; };
  expect_same(slope(nested), slope(plain));
  // With a dense cotangent the sum is dense, with the same bits.
  const auto mixed = [](const Tensor& v, const Tensor& i) { return sum(v * v) + loss(v, i); };
  const auto staged_mixed = function(mixed);
  EXPECT_FALSE(slope(mixed).slices().has_value());
  expect_same(slope(staged_mixed), slope(mixed));
}

// spec: FB-08.b
TEST(SparseFunctions, RowsPassInAndOut) {
  struct Slopes {
    Tensor embedding, bias;
  };
  const auto scale = [](const Slopes& s, const Tensor& by) {
    return Slopes{-s.embedding * by, s.bias * by};
  };
  const auto staged = function(scale);
  const Slopes given{make_slices({Tensor({3, 1, 3}),
                                  Tensor({{1.0F, 2.0F}, {3.0F, 4.0F}, {5.0F, 6.0F}}), Shape{9, 2}}),
                     Tensor({1.0F, 2.0F})};
  for (int i = 0; i < 2; ++i) {
    const Slopes got = staged(given, Tensor(0.3F)), want = scale(given, Tensor(0.3F));
    ASSERT_TRUE(want.embedding.slices().has_value());
    expect_same(got.embedding, want.embedding);
    expect_same(got.bias, want.bias);
  }
  EXPECT_EQ(staged.trace_count(), 1U);
  // Of another shape they are other arguments; and so are dense ones.
  Slopes wide = given;
  wide.embedding = make_slices({Tensor({8}), Tensor({{1.0F, 2.0F}}), Shape{10, 2}});
  expect_same(staged(wide, Tensor(0.3F)).embedding, scale(wide, Tensor(0.3F)).embedding);
  const Slopes dense{to_dense(given.embedding), given.bias};
  expect_same(staged(dense, Tensor(0.3F)).embedding, scale(dense, Tensor(0.3F)).embedding);
  EXPECT_EQ(staged.trace_count(), 3U);
  EXPECT_NE(staged.explain().find("arg0/embedding/values: float32[3,2]"), std::string::npos)
      << staged.explain();
  // A size that is not known stays so.
  const auto negate = function([](const Tensor& x) { return -x; });
  const Tensor open = make_slices({Tensor({0}), Tensor({{1.0F, 2.0F}}), Shape{kAny, 2}});
  EXPECT_EQ(negate(open).slices()->dense_shape, (Shape{kAny, 2}));
}

// spec: FB-08.b
TEST(SparseFunctions, InOutArgumentsTakeRows) {
  const auto halve = function([](Tensor& g) { g *= 0.5F; });
  Tensor g = make_slices({Tensor({2, 0}), Tensor({{1.0F}, {3.0F}}), Shape{4, 1}});
  const Tensor copy = g;
  halve(g);
  halve(g);
  EXPECT_EQ(halve.trace_count(), 1U);
  expect_same(g, make_slices({Tensor({2, 0}), Tensor({{0.25F}, {0.75F}}), Shape{4, 1}}));
  EXPECT_EQ(copy.slices()->values.to_vector<float>(), (std::vector<float>{1, 3}));
  // Dense becomes sparse, and sparse dense.
  const auto slope_of = [](Tensor& s, const Tensor& x) {
    s = gradient([](const Tensor& v) { return sum(take(v, Tensor({1, 1}))); }, x);
  };
  const auto staged_slope = function(slope_of);
  for (const int64_t rows : {4, 5, 6, 7}) {
    Tensor a = Tensor(0.0F), b = a;
    const Tensor x = ones({rows, 2});
    slope_of(a, x);
    staged_slope(b, x);
    expect_same(b, a);
  }
  const auto spread = function([](Tensor& s) { s += 1.0F; });
  spread(g);
  EXPECT_EQ(g.to_vector<float>(), (std::vector<float>{1.75F, 1, 1.25F, 1}));
  expect_error([&] { function([](Tensor& a, const Tensor& b) { a = a * b; })(g = copy, g); },
               ErrorCode::kInvalidArgument, {"are the same object"});
}

// spec: FB-08.a
TEST(SparseFunctions, RowsOfAFamilyKnowTheirShape) {
  const auto slope_of = [](const Tensor& x, const Tensor& at) -> Tensor {
    return gradient([&](const Tensor& v) { return sum(exp(take(v, at))); }, x);
  };
  const auto staged = function(slope_of);
  for (const int64_t n : {5, 6, 7, 8, 9}) {
    const Tensor x = wave({n, 3}, 2.7F), at = arange(static_cast<double>(n - 2));
    expect_same(staged(x, astype(at, kInt32)), slope_of(x, astype(at, kInt32)));
  }
  EXPECT_EQ(staged.trace_count(), 2U) << staged.explain();
  // With a signature sparse results stay sparse, too; arguments have the dense types of the
  // signature.
  const auto sized = function(
      slope_of, {.signature = Signature{TensorSpec{{kAny, 3}}, TensorSpec{{kAny}, kInt32}}});
  for (const int64_t n : {4, 5}) {
    const Tensor x = wave({n, 3}, 2.7F);
    expect_same(sized(x, Tensor({2, 2})), slope_of(x, Tensor({2, 2})));
  }
  const auto plus = function([](const Tensor& x) { return x + 1.0F; },
                             {.signature = Signature{TensorSpec{{4, 1}}}});
  const Tensor rows = make_slices({Tensor({2, 0}), Tensor({{1.0F}, {3.0F}}), Shape{4, 1}});
  EXPECT_EQ(plus(rows).to_vector<float>(), (std::vector<float>{4, 1, 2, 1}));
}

// spec: FB-08.a
TEST(SparseFunctions, OtherDerivativesHaveTheBitsOfEager) {
  const auto staged = function(loss);
  const Tensor x = table(), at = ids(), t = wave({6, 3}, 3.7F);
  const auto of = [&](auto& f) { return [&](const Tensor& v) { return f(v, at); }; };
  EXPECT_TRUE(same_value(jvp(of(staged), x, t).second, jvp(of(loss), x, t).second));
  EXPECT_TRUE(same_value(hvp(of(staged), x, t), hvp(of(loss), x, t)));
  EXPECT_TRUE(same_value(hessian(of(staged), x), hessian(of(loss), x)));
  const auto second = [&](auto& f) -> Tensor {
    return gradient(
        [&](const Tensor& v) -> Tensor {
          const Tensor g = gradient(of(f), v);
          return sum(g * g);
        },
        x);
  };
  // An absent cotangent is absent eagerly, but zeros in a graph: there may be additional rows of
  // zeros.
  EXPECT_TRUE(second(staged).slices().has_value());
  EXPECT_TRUE(same_value(second(staged), second(loss)));
  const Tensor xs = wave({2, 6, 3}, 4.7F);
  const auto each = [&](auto& f) {
    return vmap([&](const Tensor& v) -> Tensor { return gradient(of(f), v); })(xs);
  };
  EXPECT_TRUE(same_value(each(staged), each(loss)));
  const Tensor many({{0, 1}, {5, 5}});
  const auto each_index = [&](auto& f) {
    return vmap([&](const Tensor& i) -> Tensor {
      return gradient([&](const Tensor& v) { return f(v, i); }, x);
    })(many);
  };
  EXPECT_TRUE(same_value(each_index(staged), each_index(loss)));
}

TEST(SparseFunctions, StepsOfOptimisersHaveTheBitsOfEager) {
  const auto by_hand = [](Tensor& x, const Tensor& at) {
    move(x, -0.1F * gradient([&](const Tensor& v) { return loss(v, at); }, x));
  };
  const auto by = [](Tensor& x, auto& optimizer, const Tensor& at) {
    optimizer.update(x, gradient([&](const Tensor& v) { return loss(v, at); }, x));
  };
  const auto by_sgd = [&](Tensor& x, optim::SGD& o, const Tensor& at) { by(x, o, at); };
  const auto by_adam = [&](Tensor& x, optim::Adam& o, const Tensor& at) { by(x, o, at); };
  const auto staged_hand = function(by_hand);
  const auto staged_sgd = function(by_sgd);
  const auto staged_adam = function(by_adam);
  Tensor eager[3] = {table(), table(), table()}, staged[3] = {table(), table(), table()};
  optim::SGD sgd[2] = {optim::SGD({.lr = 0.1, .momentum = 0.9}),
                       optim::SGD({.lr = 0.1, .momentum = 0.9})};
  optim::Adam adam[2] = {optim::Adam({.lr = 0.1}), optim::Adam({.lr = 0.1})};
  for (int i = 0; i < 5; ++i) {
    const Tensor at = ids() + (i % 2);
    by_hand(eager[0], at);
    staged_hand(staged[0], at);
    by_sgd(eager[1], sgd[0], at);
    staged_sgd(staged[1], sgd[1], at);
    by_adam(eager[2], adam[0], at);
    staged_adam(staged[2], adam[1], at);
    for (int k = 0; k < 3; ++k) EXPECT_TRUE(same_value(eager[k], staged[k])) << k;
  }
}

// Rows are read in branches and loops, before them and after them; dense reads may come first.
template <bool kIsDenseFirst, class Inner>
Tensor around(const Tensor& x, const Tensor& at, const Inner& inner) {
  // Cotangents come from the end.
  const Tensor before = kIsDenseFirst ? Tensor(0.0F) : sum(x * x);
  const Tensor first = sum(exp(take(x, at)));
  const Tensor middle = inner(x, at);
  const Tensor last = sum(tanh(take(x, at)));
  return before + first + middle + last + (kIsDenseFirst ? sum(x * x) : Tensor(0.0F));
}

// spec: FB-02.a
TEST(SparseFunctions, BranchesAndLoopsAddRowsInTheOrderOfEager) {
  const auto in_fold = [](const Tensor& x, const Tensor& at) {
    return fold([&](const Tensor& s, const Tensor& i) { return s + sum(sin(take(x, at) * i)); },
                Tensor(0.0F), Tensor({0.3F, 0.7F, 1.9F}));
  };
  const auto in_while = [](const Tensor& x, const Tensor& at) {
    return while_loop([](const Tensor& s) { return s < 30.0F; },
                      [&](const Tensor& s) { return s + 8.0F + sum(sin(take(x, at) * s)); },
                      Tensor(0.1F));
  };
  const auto in_cond = [](const Tensor& x, const Tensor& at) {
    return cond(
        sum(x) > -100.0F, [&] { return sum(sin(take(x, at)) + cos(take(x, at))); },
        [] { return Tensor(0.0F); });
  };
  const Tensor x = table(), at = ids();
  const auto check = [&](const auto& inner) {
    const auto compare = [&](const auto& f) {
      const auto staged = function(f);
      const auto slope = [&](const auto& g) {
        return to_dense(gradient([&](const Tensor& v) { return g(v, at); }, x));
      };
      EXPECT_TRUE(same_value(slope(staged), slope(f))) << slope(staged) << slope(f);
    };
    compare([&](const Tensor& v, const Tensor& i) { return inner(v, i); });
    compare([&](const Tensor& v, const Tensor& i) { return around<true>(v, i, inner); });
    compare([&](const Tensor& v, const Tensor& i) { return around<false>(v, i, inner); });
  };
  check(in_fold);
  check(in_while);
  check(in_cond);
}

constexpr int64_t kRows = 1'000'000;

// The peak memory of f above the memory that was in use before.
template <class F>
int64_t peak_of(const F& f) {
  reset_peak_memory();
  const int64_t before = tests::live_bytes();
  f();
  return memory_stats().peak_bytes - before;
}

// spec: FB-08.a, FB-08.b
TEST(SparseFunctions, NothingOfTheSizeOfTheTableIsMade) {
  Tensor x = zeros({kRows, 8});
  const Tensor at({5, 999'999, 5});
  const auto staged = function(loss);
  const auto slope = [&] { return gradient([&](const Tensor& v) { return staged(v, at); }, x); };
  Tensor g = slope();
  EXPECT_LT(peak_of([&] { g = slope(); }), int64_t{1} << 20);
  EXPECT_TRUE(g.slices().has_value());
  const auto scale = function([](const Tensor& s) { return s * -0.5F; });
  EXPECT_LT(peak_of([&] { g = scale(g); }), int64_t{1} << 20);
  const auto step = function([](Tensor& v, const Tensor& i) {
    move(v, -0.1F * gradient([&](const Tensor& u) { return loss(u, i); }, v));
  });
  step(x, at);
  // The new table, since an index may turn out to be outside when a part of it is written.
  EXPECT_LT(peak_of([&] { step(x, at); }), x.nbytes() + (int64_t{1} << 20));
}

}  // namespace
}  // namespace etude::sparse_test
