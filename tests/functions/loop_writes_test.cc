// SPDX-License-Identifier: Apache-2.0
// Writes to parts of a tensor in traced loops: updates of values, which run in the memory of the
// tensor. A second place for a whole tensor would be seen: no step can copy it without one.
#include <gtest/gtest.h>

#include "etude/core/buffer.h"
#include "etude/etude.h"
#include "tests/live_memory.h"

namespace etude {
namespace {

constexpr int64_t kRows = 1 << 16;
constexpr int64_t kBytes = kRows * 4 * 4;

Tensor numbers(const Shape& shape) {
  return reshape(sin(arange(static_cast<double>(shape.count()), {.dtype = kFloat32})),
                 IntList(shape));
}

// The peak memory of f(x), without x; f has run before, so that its plan exists.
template <class F>
int64_t peak_of(const F& f, const Tensor& x) {
  static_cast<void>(f(x));
  trim_memory();
  reset_peak_memory();
  const int64_t before = tests::live_bytes();
  static_cast<void>(f(x));
  return memory_stats().peak_bytes - before;
}

// f and function(f) give the same bits; the staged one has room for its result and little else.
template <class F>
void expect_in_place(const F& f, const Tensor& x, int64_t tensors = 1) {
  const Tensor kept = x * 1.0F;
  const auto staged = function(f);
  EXPECT_TRUE(same_value(staged(x), f(x)));
  EXPECT_LT(peak_of(staged, x), tensors * kBytes + kBytes / 4);
  EXPECT_TRUE(same_value(x, kept)) << "the argument was written";
}

struct Steps {
  Tensor x, i = Tensor(0);
};

// spec: V46.a, V46.b
TEST(LoopWrites, AreInPlaceInAWhileLoop) {
  const Tensor x = numbers({kRows, 4});
  const auto below = [](const Steps& s) { return s.i < 9; };
  expect_in_place(
      [&](const Tensor& start) {
        return while_loop(
                   below,
                   [](Steps& s) {
                     s.x.at(s.i * 7) = astype(s.i, kFloat32) * 0.5F;
                     s.i += 1;
                   },
                   Steps{start})
            .x;
      },
      x);
  // Several writes, and reads of the values before them.
  expect_in_place(
      [&](const Tensor& start) {
        return while_loop(
                   below,
                   [](Steps& s) {
                     const Tensor before = s.x.at(s.i).read();
                     s.x.at(s.i) = s.x.at(s.i + 1).read();
                     s.x.at(s.i + 1) += before * 2.0F;
                     s.x.at(slice(3, 5)) = before;
                     s.i += 1;
                   },
                   Steps{start})
            .x;
      },
      x);
  // No step at all.
  expect_in_place(
      [](const Tensor& start) {
        return while_loop([](const Steps& s) { return s.i < 0; },
                          [](Steps& s) { s.x.at(s.i) = 1.0F; }, Steps{start})
            .x;
      },
      x);
}

// spec: V46.a, V46.b
TEST(LoopWrites, AreInPlaceInFoldAndScan) {
  const Tensor x = numbers({kRows, 4});
  for (const std::vector<int>& at : {std::vector<int>{5}, {5, 0, 5, 9}, {}}) {
    expect_in_place(
        [&](const Tensor& start) {
          return fold([](Tensor& s, const Tensor& i) { s.at(i) = s.at(i).read() * 3.0F; }, start,
                      Tensor(at));
        },
        x);
  }
  expect_in_place(
      [&](const Tensor& start) {
        const auto [last, sums] = scan(
            [](Tensor s, const Tensor& i) {
              s.at(i) += 1.0F;
              const Tensor row = s.at(i).read();
              return std::pair(std::move(s), row);
            },
            start, Tensor({1, 1, 8}));
        return last + 0.0F * sum(sums);
      },
      x, 2);
}

// spec: V46.a, V46.b
TEST(LoopWrites, AreInPlaceInALoopInALoop) {
  expect_in_place(
      [](const Tensor& start) {
        return fold(
            [](const Tensor& s, const Tensor& i) {
              return fold([&](Tensor& t, const Tensor& k) { t.at(i + k) *= 2.0F; }, s,
                          Tensor({1, 2, 3}));
            },
            start, Tensor({1, 5}));
      },
      numbers({kRows, 4}));
}

// spec: V46.a
TEST(LoopWrites, LeaveWhatIsStillRead) {
  const auto f = [](const Tensor& start) {
    struct Pair {
      Tensor now, before;
    };
    return fold(
               [](Pair& s, const Tensor& i) {
                 s.before = s.now;
                 s.now.at(i) = 7.0F;
                 s.now = s.now + sum(s.before);
               },
               Pair{start, start}, Tensor({0, 2, 1}))
        .now;
  };
  const auto swap = [](const Tensor& start) {
    return while_loop([](const Tensor& a, const Tensor&) { return sum(a) < 40.0F; },
                      [](const Tensor& a, Tensor b) {
                        b.at(1) += 5.0F;
                        return std::tuple(b, a);
                      },
                      std::tuple(start, start * 2.0F));
  };
  const Tensor x = numbers({6});
  EXPECT_TRUE(same_value(function(f)(x), f(x)));
  const auto [a, b] = swap(x);
  const auto [staged_a, staged_b] = function(swap)(x);
  EXPECT_TRUE(same_value(a, staged_a));
  EXPECT_TRUE(same_value(b, staged_b));
}

// spec: V46.a
TEST(LoopWrites, OfATensorThatStandsTwiceReadWhatItWas) {
  // Both parts of the state are one value, which the body also captures.
  const auto twice = [](const Tensor& start) {
    const Tensor x = start * 2.0F;
    const auto [a, b] = while_loop([](const Tensor& a, const Tensor&) { return sum(a) < 9.0F; },
                                   [&](Tensor a, Tensor b) {
                                     a.at(0) += 1.0F;
                                     b.at(1) = x.at(0) + a.at(1);
                                     return std::tuple(a, b);
                                   },
                                   std::tuple(x, x));
    return a + b * 10.0F;
  };
  const auto captured = [](const Tensor& start) {
    const Tensor x = start * 2.0F;
    return fold([&](Tensor& s, const Tensor& i) { s.at(i) += x.at(i); }, x, Tensor({1, 1, 0}));
  };
  const auto reversed = [](const Tensor& start) {
    Tensor x = start * 2.0F;
    x.at(slice(std::nullopt, std::nullopt, -1)) = x;
    return x * 3.0F;
  };
  const Tensor x = numbers({6});
  EXPECT_TRUE(same_value(function(twice)(x), twice(x)));
  EXPECT_TRUE(same_value(function(captured)(x), captured(x)));
  EXPECT_TRUE(same_value(function(reversed)(x), reversed(x)));
}

// spec: V46.a
TEST(LoopWrites, HaveTheGradientsOfEager) {
  const auto f = [](const Tensor& start) {
    const Tensor end = fold(
        [](const Tensor& s, const Tensor& i) {
          Tensor next = s;
          next.at(i) = s.at(i) * s.at(i + 1);
          return next;
        },
        start, Tensor({0, 2, 0}));
    return sum(end * end);
  };
  const auto g = function(f);
  const Tensor x = numbers({5});
  EXPECT_TRUE(same_value(gradient([&](const Tensor& v) { return g(v); }, x), gradient(f, x)));
  const Tensor xs = numbers({3, 5});
  EXPECT_TRUE(same_value(vmap([&](const Tensor& v) { return g(v); })(xs), vmap(f)(xs)));
}

// spec: V46.b, V45.b
TEST(LoopWrites, OfWholeSlicesTakeTheMemoryOfAnArgument) {
  Tensor x = numbers({kRows, 4});
  const auto f = function([](Tensor& t) {
    t.at(slice(2, 4)) = 1.0F;
    t.at(7) += 3.0F;
  });
  const void* before = x.data<float>().data();
  f(x);
  EXPECT_EQ(x.data<float>().data(), before);
  EXPECT_EQ(x.at(2, 1).read().item<float>(), 1.0F);
}

// spec: V46.a
TEST(LoopWrites, OutsideOfATensorAreErrorsThatLeaveItAlone) {
  const auto f = function([](const Tensor& start, const Tensor& at) {
    return fold([](Tensor& s, const Tensor& i) { s.at(i) = 1.0F; }, start, at);
  });
  const Tensor x = numbers({4, 4}), kept = x * 1.0F;
  EXPECT_THROW(f(x, Tensor({1, 4})), Error);
  EXPECT_TRUE(same_value(x, kept));
  EXPECT_TRUE(same_value(f(x, Tensor({1, 3})).at(1), ones({4})));
}

// spec: V49.b
TEST(LoopWrites, OfABodyShowNowhereElse) {
  const auto f = [](const Tensor& x) {
    const Tensor looped = while_loop([](const Tensor& s) { return sum(s) < 30.0F; },
                                     [](Tensor s) {
                                       s.at(0) += 10.0F;
                                       s *= 2.0F;
                                       return s;
                                     },
                                     x);
    const Tensor chosen = cond(
        sum(x) > 0.0F,
        [](Tensor a) {
          a += 100.0F;
          return a;
        },
        [](const Tensor& a) { return a; }, x);
    return stack({x, looped, chosen});
  };
  const Tensor x(std::vector<float>{1, 2});
  for (const Tensor& y : {f(x), function(f)(x)}) {
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 2, 64, 8, 101, 102}));
  }
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace etude
