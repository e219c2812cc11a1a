// SPDX-License-Identifier: Apache-2.0
// Derivatives of all orders have the same bits eagerly, staged and lazily: cotangents that reach a
// value are added in one order (docs/design/0020-order-of-sums.md).
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/same_numbers.h"

namespace etude {
namespace {

using tests::same_numbers;

constexpr int kPoints = 60;

// Points whose numbers have all their digits, so that sums round.
std::vector<Tensor> points() {
  std::vector<Tensor> out;
  for (int i = 1; i <= kPoints; ++i) {
    out.emplace_back(std::vector<double>{i * 0.0217 - 0.65, 0.31 + i * 0.0013, i * 0.017 - 1.1},
                     Shape{3});
  }
  return out;
}

const Tensor& weights() {
  static const Tensor w(std::vector<double>{0.71, -0.43, 1.13}, Shape{3});
  return w;
}

// Derivatives of a function of a tensor to a scalar.
const auto kGradient = [](const auto& f, const Tensor& x) { return gradient(f, x); };
const auto kTangent = [](const auto& f, const Tensor& x) { return jvp(f, x, weights()).second; };
const auto kReverseOverReverse = [](const auto& f, const Tensor& x) {
  return gradient([&](const Tensor& a) { return sum(gradient(f, a) * weights()); }, x);
};
const auto kReverseThrice = [](const auto& f, const Tensor& x) {
  const auto second = [&](const Tensor& a) { return sum(kReverseOverReverse(f, a) * weights()); };
  return gradient(second, x);
};
const auto kForwardOverReverse = [](const auto& f, const Tensor& x) {
  return jvp([&](const Tensor& a) { return gradient(f, a); }, x, weights()).second;
};
// Of forward over reverse mode.
const auto kReverseTwiceOverForward = [](const auto& f, const Tensor& x) {
  const auto second = [&](const Tensor& a) { return sum(kForwardOverReverse(f, a) * weights()); };
  return kReverseOverReverse(second, x);
};
const auto kReverseOverForward = [](const auto& f, const Tensor& x) {
  return gradient([&](const Tensor& a) { return jvp(f, a, weights()).second; }, x);
};

// Compares a derivative of f in all modes, at many points.
template <class D, class F>
void expect_equal_bits(const std::string& name, const D& derivative, const F& f) {
  const auto call = function(f);
  const auto outside = [&](const Tensor& x) { return call(x); };
  const auto inside = function([&](const Tensor& x) { return derivative(f, x); });
  int in_function = 0, of_function = 0, lazily = 0;
  for (const Tensor& x : points()) {
    const Tensor want = derivative(f, x);
    in_function += same_numbers(want, inside(x)) ? 0 : 1;
    of_function += same_numbers(want, derivative(outside, x)) ? 0 : 1;
    const LazyScope lazy;
    lazily += same_numbers(want, derivative(f, x)) ? 0 : 1;
  }
  EXPECT_EQ(in_function, 0) << name << ": points of " << kPoints << " that differ in a function";
  EXPECT_EQ(of_function, 0) << name << ": points of " << kPoints << " that differ of a function";
  EXPECT_EQ(lazily, 0) << name << ": points of " << kPoints << " that differ lazily";
}

template <class F>
void expect_first_order(const std::string& name, const F& f) {
  expect_equal_bits(name + ", gradient", kGradient, f);
  expect_equal_bits(name + ", jvp", kTangent, f);
}

template <class F>
void expect_all_orders(const std::string& name, const F& f) {
  expect_first_order(name, f);
  expect_equal_bits(name + ", reverse over reverse", kReverseOverReverse, f);
  expect_equal_bits(name + ", forward over reverse", kForwardOverReverse, f);
  expect_equal_bits(name + ", reverse over forward", kReverseOverForward, f);
}

TEST(EqualBits, OfPlainCalls) {
  expect_all_orders("x x x", [](const Tensor& x) { return sum(x * x * x); });
  expect_all_orders("m = x x; m x + sin m", [](const Tensor& x) {
    const Tensor m = x * x;
    return sum(m * x) + sum(sin(m));
  });
  expect_all_orders("exp(x) sin(x) x", [](const Tensor& x) { return sum(exp(x) * sin(x) * x); });
  expect_all_orders("softplus(x) / (1 + x x)",
                    [](const Tensor& x) { return sum(nn::softplus(x) / (x * x + 1.0)); });
}

TEST(EqualBits, OfACallBesideOtherReaders) {
  const auto inner = function([](const Tensor& x) { return sin(x) * x + x * x; });
  const auto plain = [](const Tensor& x) { return sin(x) * x + x * x; };
  const auto around = [](const auto& f) {
    return [f](const Tensor& x) { return sum(f(x) * exp(x)) + sum(x * tanh(x)); };
  };
  int first = 0, second = 0;
  for (const Tensor& x : points()) {
    first += same_numbers(gradient(around(plain), x), gradient(around(inner), x)) ? 0 : 1;
    const Tensor want = kReverseOverReverse(around(plain), x);
    second += same_numbers(want, kReverseOverReverse(around(inner), x)) ? 0 : 1;
  }
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 0);
}

TEST(EqualBits, OfFunctionsThatGiveWhatTheyAreGiven) {
  expect_all_orders("an argument, and one value twice", [](const Tensor& x) {
    const auto both = [](const Tensor& a, const Tensor& b) {
      const Tensor n = exp(a * b);
      return std::tuple(a, n, n);
    };
    const auto [a, n, m] = function(both)(x, x * x);
    return sum(a * n * m) + sum(sin(a) * n) + sum(m * m * x);
  });
}

TEST(EqualBits, OfBranches) {
  const auto positive = [](const Tensor& x) { return sum(x) > -100.0; };
  expect_all_orders("cond", [&](const Tensor& x) {
    return cond(
        positive(x),
        [&] {
          const Tensor m = x * x;
          return sum(m * x) + sum(sin(m));
        },
        [&] { return sum(x); });
  });
  expect_all_orders("cond, with readers behind", [&](const Tensor& x) {
    const Tensor m = x * x;
    const Tensor c = cond(
        positive(x), [&] { return m * x; }, [&] { return x; });
    return sum(c * c) + sum(sin(m)) + sum(c * x);
  });
  expect_all_orders("cond that gives what it was given", [&](const Tensor& x) {
    const Tensor c = cond(
        positive(x), [&] { return x; }, [&] { return -x; });
    return sum(sin(x) * c) + sum(c * x * x) + sum(exp(c));
  });
  expect_all_orders("switch_case", [&](const Tensor& x) {
    const Tensor c =
        switch_case(astype(sum(x) > 0.0, kInt32),
                    std::tuple([&] { return tanh(x) * x; }, [&] { return x * x + sin(x); }));
    return sum(c * x) + sum(cos(c));
  });
}

// A value that one derivative has kept is the same value where the next one keeps it.
TEST(EqualBits, OfHigherDerivativesOfBranches) {
  const auto expect_higher = [](const std::string& name, const auto& f) {
    expect_equal_bits(name + ", third", kReverseThrice, f);
    expect_equal_bits(name + ", fourth", kReverseTwiceOverForward, f);
  };
  const auto power = [](const Tensor& x) {
    const Tensor s = exp(x);
    return sum(s * s * s);
  };
  const auto wave = [](const Tensor& x) {
    const Tensor s = sin(x);
    return sum(sin(s * s));
  };
  expect_higher("a branch that keeps more than the other", [=](const Tensor& x) {
    return cond(
        sum(x) > 0.0, [&] { return power(x); }, [&] { return sum(x); });
  });
  expect_higher("branches that keep different values", [=](const Tensor& x) {
    return cond(
        sum(x) > 0.0, [&] { return power(x); }, [&] { return wave(x); });
  });
  expect_higher("a branch in a branch", [=](const Tensor& x) {
    const auto inner = [&] {
      return cond(
          sum(x) > -100.0, [&] { return wave(x) * power(x); }, [&] { return sum(x); });
    };
    return cond(sum(x) > 0.0, inner, [&] { return power(x); });
  });
}

const Tensor& rows() {
  static const Tensor xs(std::vector<double>{0.37, -0.81, 0.59, 1.21, 0.43, -0.29, 0.77, 0.11,
                                             -1.37, 0.91, 0.53, 0.17},
                         Shape{4, 3});
  return xs;
}

TEST(EqualBits, OfScansWhoseStateIsReadTwice) {
  expect_all_orders("a state that is the row", [](const Tensor& w) {
    const auto step = [&](const Tensor& y, const Tensor& x) {
      const Tensor next = y + sin(y * w + x);
      return std::pair(next, next);
    };
    const auto [last, path] = scan(step, w * 0.3, rows());
    return sum(path * path) + sum(cos(last));
  });
  expect_all_orders("the state before as the row", [](const Tensor& w) {
    const auto step = [&](const Tensor& y, const Tensor& x) {
      return std::pair(y * sin(y * w + x), y);
    };
    return sum(square(scan(step, w, rows() * w).second));
  });
  expect_all_orders("rows of what is outside", [](const Tensor& w) {
    const auto step = [&](const Tensor& y, const Tensor& x) {
      return std::pair(tanh(y * w + x), std::pair(w, x));
    };
    const auto [last, all] = scan(step, w, rows() * w);
    return sum(last * w) + sum(sin(all.first)) + sum(square(all.second));
  });
  expect_all_orders("one value in two places of the state", [](const Tensor& w) {
    using State = std::pair<Tensor, Tensor>;
    const auto step = [&](const State& s, const Tensor& x) {
      const Tensor next = sin(s.first * w + x * s.second) + s.first * s.second;
      return std::pair(State(next, next), next);
    };
    const auto [last, path] = scan(step, State(w, w * 0.7), rows());
    return sum(square(path)) + sum(last.first);
  });
}

TEST(EqualBits, OfFourthDerivativesOfFolds) {
  const auto loss = [](const Tensor& w) {
    const auto step = [&](const Tensor& h, const Tensor& x) {
      const Tensor s = exp(h * x * 0.5);
      return s * s * s * w;
    };
    return sum(fold(step, w, rows()));
  };
  const auto slope = [&](const Tensor& w) { return sum(gradient(loss, w) * weights()); };
  expect_equal_bits("a value that three tapes keep", kReverseThrice, slope);
}

TEST(EqualBits, OfFolds) {
  expect_all_orders("rows of what is differentiated", [](const Tensor& w) {
    const auto step = [](const Tensor& h, const Tensor& r) { return tanh(h * r) + r * r; };
    return fold(step, Tensor(w.at(0)), w);
  });
  expect_all_orders("captures", [](const Tensor& w) {
    const Tensor s = sum(w * w);
    const auto step = [&](const Tensor& h, const Tensor& r) { return tanh(h * r * s) + r * s; };
    return fold(step, Tensor(w.at(0)), w) * s;
  });
  expect_all_orders("a state that steps hand on", [](const Tensor& w) {
    using State = std::pair<Tensor, Tensor>;
    const auto step = [&](const State& s, const Tensor& x) {
      return State(s.first * s.second + sin(s.first * x), s.second);
    };
    return sum(fold(step, State(w, w * w), rows()).first);
  });
  expect_all_orders("cond in fold", [](const Tensor& w) {
    const auto step = [&](const Tensor& y, const Tensor& x) {
      return cond(
          sum(x) > 0.0, [&] { return y * w + sin(y); }, [&] { return y - w * w * x; });
    };
    return sum(fold(step, w, rows() * w));
  });
  expect_all_orders("a loop in a loop", [](const Tensor& w) {
    const auto step = [&](const Tensor& y, const Tensor& x) {
      const auto inner = [&](const Tensor& a, const Tensor& b) { return a + sin(a * w) * b; };
      const Tensor next = fold(inner, y, stack({x, x}));
      return std::pair(next, next);
    };
    return sum(square(scan(step, w, rows()).second));
  });
}

TEST(EqualBits, OfLoopsThatReadWhatIsOutsideBesideTheirState) {
  expect_all_orders("q / 4 + w + q in fold", [](const Tensor& w) {
    const auto step = [&](const Tensor& q, const Tensor& x) { return sin(q * 0.25 + w + q) * x; };
    return sum(fold(step, sin(w), rows()));
  });
  expect_all_orders("the same in a function, a branch and a scan", [](const Tensor& w) {
    const auto part = [](const Tensor& q, const Tensor& a) { return sin(q * 0.25 + a + q); };
    const auto step = [&](const Tensor& q, const Tensor& x) {
      const Tensor next = cond(
          sum(x) > 0.0, [&] { return q + w + sin(q * x); }, [&] { return function(part)(q, w); });
      return std::pair(next, next * 0.5);
    };
    return sum(scan(step, w, rows()).second * weights());
  });
  expect_all_orders("a scan in a fold", [](const Tensor& w) {
    const auto step = [&](const Tensor& q, const Tensor& x) {
      const auto inner = [&](const Tensor& s, const Tensor& r) {
        return sin(q * 0.25 + w + s * r + q);
      };
      return fold(inner, q + w, rows()) * x;
    };
    return sum(fold(step, w, rows()));
  });
}

TEST(EqualBits, OfLoopsThatBeginWithAConstant) {
  const auto loss = [](const Tensor& w) {
    const auto step = [&](const Tensor& q, const Tensor& x) { return sin(w + q) * x; };
    return sum(fold(step, weights(), rows()) * weights());
  };
  expect_all_orders("w + q in fold", loss);
  const auto second = [&](const Tensor& w) { return sum(hvp(loss, w, w * 0.5) * weights()); };
  expect_first_order("hvp of the same", second);
}

TEST(EqualBits, OfPullbacksOfLoopsThatOthersFollow) {
  expect_equal_bits("pullback of a fold by its state", kReverseOverReverse, [](const Tensor& w) {
    const auto loop = [w](const Tensor& q) {
      const auto step = [&](const Tensor& s, const Tensor& x) { return square(s * x + w); };
      return fold(step, q, rows());
    };
    return sum(pullback(loop, weights())(weights()));
  });
}

TEST(EqualBits, OfRecomputedSteps) {
  const auto of_steps = [](const auto& f) {
    return [f](const Tensor& w) {
      const auto step = [&](const Tensor& y, const Tensor& x) {
        const Tensor next = f(y * x, w);
        return std::pair(next, next * 0.5);
      };
      const auto [last, path] = scan(step, w, rows());
      return sum(last * weights()) + sum(path);
    };
  };
  expect_all_orders("arguments", of_steps([](const Tensor& y, const Tensor&) {
                      return recompute_grad([](const Tensor& r) { return sin(sin(r) * r); })(y);
                    }));
  expect_all_orders("captures", of_steps([](const Tensor& y, const Tensor& w) {
                      const auto f = [y, w](const Tensor& r) { return r * r * w + sin(y) * w; };
                      return recompute_grad(f)(y) * w;
                    }));
  const auto same = of_steps([](const Tensor& y, const Tensor& w) {
    return recompute_grad([](const Tensor& r) { return r; })(w) * y;
  });
  expect_all_orders("a result that is the argument", same);
  expect_equal_bits("hvp of the same", kGradient,
                    [same](const Tensor& w) { return sum(hvp(same, w, w * 0.5) * weights()); });
  expect_all_orders("one in another", of_steps([](const Tensor& y, const Tensor& w) {
                      return recompute_grad([w](const Tensor& r) {
                        const auto f = [w, r](const Tensor& v) { return v * v * w * r; };
                        return sin(recompute_grad(f)(r) * r);
                      })(y);
                    }));
  expect_all_orders("examples", of_steps([](const Tensor& y, const Tensor& w) {
                      const auto f = [w](const Tensor& r) { return sin(r * w.at(0)) * r; };
                      return vmap([f](const Tensor& e) { return recompute_grad(f)(e); })(y);
                    }));
  expect_all_orders("rows of what is computed again", of_steps([](const Tensor& y, const Tensor&) {
                      const auto f = [](const Tensor& r) { return r * 1.25; };
                      return take(recompute_grad(f)(sin(y)), Tensor({2, 0, 2}), {.axis = 0});
                    }));
  expect_all_orders("a fold in recompute_grad", [](const Tensor& w) {
    const auto f = [w](const Tensor& q) {
      const auto step = [&](const Tensor& y, const Tensor& x) { return sin(y * x + w + q); };
      return fold(step, w, rows());
    };
    return sum(recompute_grad(f)(w) * weights());
  });
}

// Tangents on which the recomputed values do not depend.
TEST(EqualBits, OfRecomputedStepsBesideForwardMode) {
  const auto slope = [](const Tensor& w) {
    const auto product = [&](const Tensor& s) {
      const auto step = [&](const Tensor& y, const Tensor& x) {
        return recompute_grad([w](const Tensor& r) { return sin(r * w) * r; })(y * x);
      };
      return fold(step, w, rows()) * s;
    };
    return sum(jvp(product, w, weights()).second);
  };
  expect_all_orders("jvp of a product with a fold", slope);
}

TEST(EqualBits, OfWhileLoops) {
  const auto loss = [](const Tensor& w) {
    const auto goes_on = [](const Tensor& i, const Tensor&) { return i < 4; };
    const auto step = [&](const Tensor& i, const Tensor& y) {
      return std::tuple(i + 1, y + sin(y * w) + 0.1 * y * y);
    };
    return sum(std::get<1>(while_loop(goes_on, step, std::tuple(Tensor(0), w))));
  };
  expect_first_order("while_loop", loss);
  expect_equal_bits("while_loop, forward over reverse", kForwardOverReverse, loss);
  expect_equal_bits("while_loop, reverse over forward", kReverseOverForward, loss);
}

// float32, and points that are drawn.
TEST(EqualBits, AtRandomPoints) {
  set_seed(11);
  const Tensor rows = random::normal({5, 7});
  const auto loss = [&](const Tensor& w) {
    const auto step = [&](const Tensor& y, const Tensor& x) {
      const Tensor c = cond(
          sum(x * w) > 0.0F, [&] { return y * w + tanh(y); }, [&] { return y - w * x; });
      const Tensor next = c * 0.5F + sin(c * x);
      return std::pair(next, next);
    };
    const auto [last, path] = scan(step, w, rows);
    return sum(path * path) + sum(last * w);
  };
  const auto second = [&](const Tensor& w) { return hvp(loss, w, rows.at(0)); };
  const auto twice = [&](const Tensor& w) {
    return gradient([&](const Tensor& a) { return sum(square(gradient(loss, a))); }, w);
  };
  const auto all = [&](const Tensor& w) {
    return std::tuple(gradient(loss, w), second(w), twice(w));
  };
  const auto staged = function(all);
  int different = 0;
  for (int i = 0; i < 200; ++i) {
    const Tensor w = random::normal({7});
    const auto [a, b, c] = all(w);
    const auto [d, e, f] = staged(w);
    different += same_numbers(a, d) && same_numbers(b, e) && same_numbers(c, f) ? 0 : 1;
  }
  EXPECT_EQ(different, 0) << "points of 200";
}

template <class L>
void expect_equal_gradients(const L& layer) {
  const Tensor x = random::normal({3, 5, 4}), weight = random::normal({3, 5, 6});
  const auto loss = [&](const L& l) { return sum(square(l(x)) * weight); };
  const auto slope = [&](const L& l) { return gradient(loss, l); };
  const auto eager = slope(layer), staged = function(slope)(layer);
  std::vector<Tensor> want, found;
  for_each_leaf<Tensor>(eager, [&](const Tensor& t) { want.push_back(t); });
  for_each_leaf<Tensor>(staged, [&](const Tensor& t) { found.push_back(t); });
  ASSERT_EQ(want.size(), found.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(same_numbers(want[i], found[i])) << "weight " << i;
  }
}

TEST(EqualBits, OfRecurrentLayers) {
  set_seed(3);
  expect_equal_gradients(nn::Recurrent(nn::SimpleRNNCell(4, 6)));
  expect_equal_gradients(nn::Recurrent(nn::LSTMCell(4, 6)));
  expect_equal_gradients(nn::Recurrent(nn::GRUCell(4, 6)));
}

}  // namespace
}  // namespace etude
