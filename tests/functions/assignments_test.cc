// SPDX-License-Identifier: Apache-2.0
// Derivatives of programs that assign Variables, in all modes. No derivative passes through an
// assignment; a read after an assignment is a new source, whose gradient is the gradient of the
// Variable. Expected values follow from the definition, by hand.
#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "etude/etude.h"

namespace etude {
namespace {

using Body = std::function<Tensor(const Tensor&)>;

double number(const Tensor& x) { return x.has_value() ? x.item<double>() : NAN; }

// The derivatives of body(x) at x = 2; an absent one is none.
struct Wanted {
  double value = 0;
  std::optional<double> by_x, by_v;
};

class Assignments : public ::testing::Test {
 protected:
  static constexpr float kX = 2, kV = 4;

  static void expect(const char* mode, const Tensor& found, std::optional<double> wanted) {
    EXPECT_EQ(found.has_value(), wanted.has_value()) << mode;
    if (found.has_value() && wanted) {
      EXPECT_NEAR(number(found), *wanted, 1e-5) << mode;
    }
  }

  // A tape around the call.
  void expect_outside(const char* mode, const Body& f, const Wanted& wanted) {
    v.assign(kV);
    const Tensor x(kX);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = f(x);
    const auto [by_x, by_v] = tape.gradient(y, std::tie(x, v));
    EXPECT_NEAR(number(y), wanted.value, 1e-5) << mode;
    expect(mode, by_x, wanted.by_x);
    expect(mode, by_v, wanted.by_v);
  }

  // A tape in a staged function, around f.
  void expect_inside(const char* mode, const Body& f, const Wanted& wanted) {
    v.assign(kV);
    const auto slopes = function([&](const Tensor& x) {
      GradientTape tape;
      tape.watch(x);
      const Tensor y = f(x);
      const auto [by_x, by_v] =
          tape.gradient(y, std::tie(x, v), {.unconnected = Unconnected::kZero});
      return std::tuple(y, by_x, by_v);
    });
    const auto [y, by_x, by_v] = slopes(Tensor(kX));
    EXPECT_NEAR(number(y), wanted.value, 1e-5) << mode;
    expect(mode, by_x, wanted.by_x.value_or(0));
    expect(mode, by_v, wanted.by_v.value_or(0));
  }

  void expect_forward(const char* mode, const Body& f, const Wanted& wanted) {
    v.assign(kV);
    const auto [y, t] = jvp(f, Tensor(kX), Tensor(1.0F));
    EXPECT_NEAR(number(y), wanted.value, 1e-5) << mode;
    EXPECT_NEAR(number(t), wanted.by_x.value_or(0), 1e-5) << mode;
  }

  void expect_in_all_modes(const Body& f, const Wanted& wanted) {
    const auto staged = function([&](const Tensor& x) { return f(x); });
    const auto nested = function([&](const Tensor& x) { return staged(x); });
    expect_outside("eagerly", f, wanted);
    expect_outside("staged", staged, wanted);
    expect_outside("staged twice", nested, wanted);
    {
      const LazyScope lazy;
      expect_outside("lazily", f, wanted);
      expect_outside("staged, lazily", staged, wanted);
      expect_forward("forward, lazily", f, wanted);
    }
    expect_inside("in a function", f, wanted);
    expect_inside("in a function, around another", staged, wanted);
    expect_forward("forward", f, wanted);
    expect_forward("forward, staged", staged, wanted);
    v.assign(kV);
    const auto forward = function([&](const Tensor& x) { return jvp(f, x, Tensor(1.0F)).second; });
    EXPECT_NEAR(number(forward(Tensor(kX))), wanted.by_x.value_or(0), 1e-5)
        << "forward, in a function";
  }

  Variable v = Variable(kV);
};

// spec: TP-17.a, TP-17.b
TEST_F(Assignments, EndTheChain) {
  expect_in_all_modes(
      [&](const Tensor& x) {
        v.assign(x * 2.0F);
        return v * 3.0F;
      },
      {12, {}, 3});
  expect_in_all_modes(
      [&](const Tensor& x) {
        v.assign_add(x);  // 6
        return v * x;
      },
      {12, 6, 2});
  expect_in_all_modes(
      [&](const Tensor& x) {
        v.assign_sub(x * x);  // 0
        return v * x + x;
      },
      {2, 1, 2});
  // The result of an assignment is no read.
  expect_in_all_modes([&](const Tensor& x) { return v.assign(x * 2.0F) * x; }, {8, 4, {}});
}

// spec: TP-17.b, FB-03
TEST_F(Assignments, MakeNewSourcesOfReads) {
  expect_in_all_modes(
      [&](const Tensor& x) {
        v.assign(v * 2.0F);  // 8
        return v * x;
      },
      {16, 8, 2});
  expect_in_all_modes(
      [&](const Tensor& x) {
        const Tensor before = v * x;       // 8
        v.assign(v * 0.5F);                // 2
        const Tensor between = v * v * x;  // 8
        v.assign(x * x);                   // 4
        return before + between + v * 10.0F;
      },
      {56, 8, 20});
  // Nothing is read after the assignment.
  expect_in_all_modes(
      [&](const Tensor& x) {
        const Tensor y = v * x;
        v.assign(x * 5.0F);
        return y;
      },
      {8, 4, 2});
}

// spec: TP-17.b, VR-05
TEST_F(Assignments, OfPartsEndTheChain) {
  Variable w(Tensor({1.0, 2.0, 3.0}));
  expect_in_all_modes(
      [&](const Tensor& x) {
        w.assign(Tensor({1.0, 2.0, 3.0}));
        w.at(0) = x * 5.0F;
        w.at(slice(1, 3)).assign_add(x * v);  // [10, 10, 11]
        return sum(w * w) * 0.0F + sum(w) * x;
      },
      {62, 31, {}});
  const auto staged = function([&](const Tensor& x) {
    w.at(0) = x;
    return sum(w * w);
  });
  w.assign(Tensor({1.0, 2.0, 3.0}));
  GradientTape tape;
  EXPECT_EQ(staged(Tensor(7.0F)).item<float>(), 62);
  w.assign(Tensor({1.0, 2.0, 3.0}));
  const Tensor y = staged(Tensor(7.0F));
  EXPECT_TRUE(same_value(tape.gradient(y, w), Tensor({14.0, 4.0, 6.0})));
}

// spec: TP-17.b
TEST_F(Assignments, InBranchesEndTheChain) {
  const auto in_a_branch = [&](const Tensor& x) {
    cond(
        x > 0.0F, [&] { v.assign(x * 2.0F); }, [&] { v.assign(x); });
    return v * x;
  };
  expect_in_all_modes(in_a_branch, {8, 4, 2});
  const auto read_in_the_branch = [&](const Tensor& x) {
    return cond(
        x > 0.0F,
        [&] {
          v.assign(x * 10.0F);
          return v * 2.0F;
        },
        [&] { return v * 7.0F; });
  };
  expect_in_all_modes(read_in_the_branch, {40, {}, 2});
  const auto in_one_branch_only = [&](const Tensor& x) {
    cond(
        x < 0.0F, [&] { v.assign(x * 2.0F); }, [] {});
    return v * x;
  };
  expect_in_all_modes(in_one_branch_only, {8, 4, 2});
}

// spec: TP-17.b
TEST_F(Assignments, InLoopsEndTheChain) {
  const Tensor rows({2.0F, 3.0F});
  const auto folded = [&](const Tensor& x) {
    return fold(
        [&](const Tensor& s, const Tensor& r) {
          v.assign(s * r);
          return s + v;
        },
        x, rows);  // 2 + 4, 6 + 18
  };
  expect_in_all_modes(folded, {24, 1, 2});
  const auto read_from_the_step_before = [&](const Tensor& x) {
    return fold(
        [&](const Tensor& s, const Tensor& r) {
          const Tensor next = s + v * r;
          v.assign(x * r);
          return next;
        },
        x, rows);  // 2 + 4 * 2, 10 + 4 * 3
  };
  expect_in_all_modes(read_from_the_step_before, {22, 1, 5});
  const auto while_small = [&](const Tensor& x) {
    return while_loop([](const Tensor& s) { return s < 10.0F; },
                      [&](const Tensor& s) {
                        v.assign(s * 2.0F);
                        return s + v;
                      },
                      x);  // 2 + 4, 6 + 12
  };
  expect_in_all_modes(while_small, {18, 1, 2});
  const auto read_behind = [&](const Tensor& x) {
    fold(
        [&](const Tensor& s, const Tensor& r) {
          v.assign_add(x * r);
          return s + r;
        },
        Tensor(0.0F), rows);  // 4 + 4 + 6
    return v * x;
  };
  expect_in_all_modes(read_behind, {28, 14, 2});
  const auto scanned = [&](const Tensor& x) {
    const auto [last, all] = scan(
        [&](const Tensor& s, const Tensor& r) {
          v.assign_add(r);  // 6, 9
          const Tensor next = s * v;
          return std::pair(next, next + v);
        },
        x, rows);            // 12, 108
    return last + sum(all);  // 108 + 18 + 117
  };
  // Of the two reads a = 6 and b = 9 of v it is 2 x a b + x a + a + b.
  expect_in_all_modes(scanned, {243, 114, 64});
}

// A network that follows another: the loss has gradients of both, not through the update.
TEST_F(Assignments, OfATargetNetworkEndTheChain) {
  Variable target(1.0, {.name = "target", .trainable = false});
  const auto loss = [&](const Tensor& x) {
    target.assign(Tensor(1.0F));
    target.assign(target * 0.5F + v * 0.5F);  // 2.5
    const Tensor d = v * x - target * x;      // 3
    return d * d;
  };
  expect_in_all_modes(loss, {9, 9, 12});
}

}  // namespace
}  // namespace etude
