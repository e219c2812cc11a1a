// SPDX-License-Identifier: Apache-2.0
// Errors in derivatives of numbers: each text names the call, the actual value, the requirement and
// the next step. After any error or exception no derivative stays active. For numbers that outlive
// a derivative see scalar_lifetimes_test.cc.
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "etude/diff/scalar_expect.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using Map = std::map<std::string, double>;
using tests::expect_error;

void expect_invalid(const std::vector<std::string_view>& parts, const std::function<void()>& f) {
  expect_error(f, ErrorCode::kInvalidArgument, parts);
}

// spec: D23, D24
TEST(ScalarFaults, TangentsThatDoNotFit) {
  const auto pull = pullback(squares, Vector{1, 2});
  expect_invalid({"pullback: ", "the cotangent has 1 numbers", "the result has 2",
                  "Make it with zero_tangent(value)"},
                 [&] { pull({1}); });
  expect_invalid({"pullback: ", "has 3 numbers", "has 2"}, [&] { pull({1, 2, 3}); });
  expect_invalid({"pullback: ", "has 0 numbers", "has 2"}, [&] { pull({}); });
  EXPECT_EQ(pull({1, 1}), Vector({2, 4}));
  expect_invalid({"pullback: ", "has 3 numbers", "has 2"}, [&] {
    vjp(squares, Vector{1, 2}, Vector{1, 2, 3});
  });

  // As many numbers, in other places.
  const auto rows = [](const auto& x) {
    using T = std::decay_t<decltype(x[0])>;
    return std::vector<std::vector<T>>{{x[0]}, {x[1], x[2]}};
  };
  expect_invalid({"pullback: a tangent of length 2 does not fit a value of length 1"}, [&] {
    pullback(rows, Vector{1, 2, 3})({{1, 2}, {3}});
  });
  EXPECT_EQ(pullback(rows, Vector{1, 2, 3})({{1}, {2, 3}}), (Vector{1, 2, 3}));
  const std::vector<std::string_view> lengths = {"jvp: a tangent of length 1",
                                                 "a value of length 2", "Make both equally long"};
  expect_invalid(lengths, [&] { jvp(squares, Vector{1, 2}, {1}); });
  expect_invalid(lengths, [&] { hvp(product, Vector{1, 2}, {1}); });
  expect_invalid(lengths, [&] { differential(squares, Vector{1, 2})({1}); });
  const auto of_two = [](const auto& a, auto b) { return a[0] * b; };
  expect_invalid(lengths, [&] { jvp(of_two, std::tuple{Vector{1, 2}, 3.0}, {{1}, 1}); });
  const auto of_map = [](const auto& m) { return m.at("a") * 2.0; };
  expect_invalid({"no key 'b'", "which its tangent has", "zero_tangent"}, [&] {
    jvp(of_map, Map{{"a", 1}}, {{"b", 1}});
  });
  const auto of_optional = [](const auto& m) { return m ? *m * 2.0 : 0.0; };
  expect_invalid({"do not hold the same alternative", "zero_tangent"},
                 [&] { jvp(of_optional, std::optional<double>(), {1.0}); });
  expect_working();
}

// Values without an entry in the tangent of a map or optional do not move.
TEST(ScalarFaults, TangentsThatLackParts) {
  const auto of_map = [](const auto& m) { return m.at("a") * m.at("b"); };
  EXPECT_EQ(jvp(of_map, Map{{"a", 3}, {"b", 5}}, {{"b", 1}}).second, 3);
  EXPECT_EQ(jvp(of_map, Map{{"a", 3}, {"b", 5}}, {}).second, 0);
  const auto doubled = [](const auto& m) { return *m * 2.0; };
  std::optional<double> none;
  if (five.empty()) none = 1;  // g++ with sanitizers warns of a vector that it knows to be empty
  EXPECT_EQ(jvp(doubled, std::optional<double>(3.0), none).second, 0);
}

// Rules that give `missing` tangents too few, for two numbers.
template <class Missing>
auto misfit(Missing missing) {
  return custom_gradient([missing](const auto& x) {
    return std::pair{x[0] * x[1], [x, missing](const auto& dy) {
                       auto tangent = x;
                       tangent.resize(2 - missing(), dy);
                       return tangent;
                     }};
  });
}

// spec: D31
TEST(ScalarFaults, RulesThatDoNotFit) {
  const auto few = misfit([] { return 1; });
  const auto many = misfit([] { return -1; });
  const Vector x = {3, 5};
  expect_invalid({"the pullback of a rule", "gave 1 numbers", "which have 2",
                  "Make them with zero_tangent(x)"},
                 [&] { gradient(few, x); });
  expect_invalid({"the pullback of a rule", "gave 1 numbers", "which have 2"},
                 [&] { jvp(few, x, x); });
  expect_invalid({"the pullback of a rule", "gave 3 numbers", "which have 2"},
                 [&] { gradient(many, x); });
  expect_invalid({"the pullback of a rule", "gave 3 numbers", "which have 2"},
                 [&] { jvp(many, x, x); });
  expect_working();
}

struct NotLinear {
  int which;
  template <class T>
  T operator()(const T& x) const {
    switch (which) {
      case 0:
        return x * x;
      case 1:
        return 1.0 / x;
      case 2:
        return x + 1.0;
      case 3:
        return sin(x);
      default:
        return x > 0 ? x : -x;
    }
  }
};

// spec: D26, D35, D38
TEST(ScalarFaults, FunctionsThatCannotBeCalled) {
  const char* const calls_of[] = {"'operator*'", "'operator/'", "'operator+'", "'sin'",
                                  "a comparison"};
  for (int i = 0; i < 5; ++i) {
    expect_invalid({"transpose: ", "not linear", calls_of[i], "Use pullback"},
                   [&] { transpose(NotLinear{i}, 1.0)(1.0); });
  }
  const DifferentiableFunction<double(double)> empty;
  const auto calls = [&](auto x) { return empty(x); };
  for (const auto& call : {std::function<void()>([&] { empty(1.0); }),
                           std::function<void()>([&] { gradient(calls, 1.0); }),
                           std::function<void()>([&] { empty.vjp(1.0); })}) {
    expect_error(call, ErrorCode::kFailedPrecondition,
                 {"an empty DifferentiableFunction was called", "Assign a function to it first"});
  }
  expect_invalid({"vmap: ", "batches of 2 and of 1", "equally many"}, [] {
    vmap([](double a, double b) { return a * b; })(Vector{1, 2}, Vector{1});
  });
  expect_working();
}

// A moved-from number is lost: using its derivative is an error until the number is written again.
// A number that is also held elsewhere may be moved.
TEST(ScalarFaults, NumbersThatWereMoved) {
  const std::initializer_list<std::string_view> parts = {"gradient: ", "used after std::move",
                                                         "Copy it instead of moving it"};
  using Use = Real (*)(Real & y, const Real& z);
  const auto moved = [](Use use) {
    return [use](const std::vector<Real>& x) {
      Real y = x[0] * x[1];
      const Real z = std::move(y);
      return use(y, z);
    };
  };
  const auto each = [&](Use use) {
    expect_invalid(parts, [&] { gradient(moved(use), five); });
    expect_working();
  };
  each([](Real& y, const Real& z) { return y + z; });
  each([](Real& y, const Real& z) { return y * z; });
  each([](Real& y, const Real& z) { return z - sin(y); });
  each([](Real& y, const Real&) { return y; });
  each([](Real& y, const Real&) { return y += 1.0; });
  each([](Real& y, const Real& z) { return recompute_grad([](auto v) { return v * v; })(y) + z; });
  const auto again = [](Real& y, const Real& z) {
    y = z;
    y *= z;
    std::swap(y, y);
    return y;
  };
  EXPECT_EQ(gradient(moved(again), five), Vector({8, 4, 0, 0, 0}));
}

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// spec: D70.a, D74.b
TEST(ScalarFaults, ExceptionsThatLeaveTheFunction) {
  std::vector<Real> kept;
  const auto fails = [&](const std::vector<Real>& x) {
    kept.push_back(x[0] * x[1]);
    const Real partly = sin(x[2]) + kept.back();
    if (partly < 1e9) throw Failure("in the middle");
    return partly;
  };
  const auto inner_fails = [&](const auto& x) {
    try {
      gradient(fails, five);
    } catch (const Failure&) {
      return x[0] * x[1];  // recorded where the inner derivative was
    }
    return x[2];
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(gradient(fails, five), Failure);
    EXPECT_THROW(pullback(fails, five), Failure);
    expect_working();
    EXPECT_EQ(gradient(inner_fails, five), Vector({2, 1, 0, 0, 0}));
    const auto thrown = [](const auto& x) -> std::decay_t<decltype(x[0])> {
      throw Failure("at once");
    };
    EXPECT_THROW(jvp(thrown, five, five), Failure);
    EXPECT_THROW(hvp(thrown, five, five), Failure);
  }
  // No derivative is being taken: these are plain, and constants to the next one.
  for (Real& number : kept) {
    EXPECT_FALSE(number.varies());
    number = number * number + 1.0;
    EXPECT_EQ(number.value(), 5);
    EXPECT_FALSE(number.varies());
  }
  const auto uses = [&](const std::vector<Real>& x) { return product(x) * kept[0] + kept[1]; };
  EXPECT_EQ(gradient(uses, five), Vector({600, 300, 200, 150, 120}));
}

struct Broken {
  bool in_rule;
  template <class T>
  auto operator()(const T& x) const {
    if (in_rule) throw Failure("in the rule");
    return std::pair{x * x, [](const T&) -> T { throw Failure("in the pullback"); }};
  }
};
struct WithBrokenRule {
  bool in_rule = false;
  template <class X>
  auto operator()(const X& x) const {
    auto y = x[0] * x[1];
    y += custom_gradient(Broken{in_rule})(x[2] * x[3]);
    return y * x[4];
  }
};

// spec: D31, D70.a
TEST(ScalarFaults, ExceptionsInRules) {
  const WithBrokenRule in_rule{true}, in_pullback{false};
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(gradient(in_rule, five), Failure);
    EXPECT_THROW(pullback(in_rule, five), Failure);
    EXPECT_THROW(jvp(in_rule, five, five), Failure);
    EXPECT_THROW(hvp(in_rule, five, five), Failure);
    EXPECT_THROW(gradient(in_pullback, five), Failure);
    EXPECT_THROW(jvp(in_pullback, five, five), Failure);
    EXPECT_THROW(hvp(in_pullback, five, five), Failure);
    expect_working();
  }
  // The value is there; the pullback fails whenever the rule is reached, and only then.
  const auto both = [](const auto& x) { return std::pair{WithBrokenRule()(x), x[0] * x[0]}; };
  const auto [value, pull] = value_with_pullback(both, five);
  EXPECT_EQ(value, std::pair(730.0, 1.0));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(pull({1, 0}), Failure);
    EXPECT_EQ(pull({0, 1}), Vector({2, 0, 0, 0, 0}));
  }
  const auto caught = [](const auto& x) {
    auto y = product(x);
    try {
      y *= custom_gradient(Broken{true})(y);
    } catch (const Failure&) {
      y += x[0];
    }
    return y;
  };
  EXPECT_EQ(gradient(caught, five), Vector({121, 60, 40, 30, 24}));
}

// spec: D27.h
TEST(ScalarFaults, NumbersOfTwoDerivatives) {
  const auto once = [](Real x) { return gradient([](Real y) { return y * y; }, x); };
  expect_invalid({"gradient: ", "belongs to an outer derivative", "functions on Real",
                  "Make the inner function generic"},
                 [&] { gradient(once, 2.0); });
  const std::initializer_list<std::string_view> mixed = {
      "gradient: ", "a number of an outer derivative", "whose own argument is plain",
      "decltype(x)(1.0)"};
  using Use = Real (*)(const Real& x, const Real& y);
  const auto computes = [](Use use) {
    return [use](const std::vector<Real>& x) {
      return gradient([&](const std::vector<Real>& y) { return use(x[0], y[0]); }, five)[0] + x[1];
    };
  };
  const auto each = [&](Use use) {
    expect_invalid(mixed, [&] { gradient(computes(use), five); });
    expect_working();
  };
  each([](const Real& x, const Real& y) { return x * y; });
  each([](const Real& x, const Real& y) { return y - x; });
  each([](const Real& x, const Real&) { return sin(x); });
  each([](const Real& x, const Real& y) { return x + 1.0 < y ? y : -y; });
  each([](const Real& x, const Real&) { return x; });
}

}  // namespace
}  // namespace etude
