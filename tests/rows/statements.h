// SPDX-License-Identifier: Apache-2.0
// Rows of methods, setters, alternatives, literals and lists that shrink, for every kind of program
// that is differentiated (modes.h).
#pragma once

#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "tests/rows/modes.h"

namespace etude::tests {

template <class Mode>
class Statements : public ::testing::Test, public Mode {};
TYPED_TEST_SUITE_P(Statements);

template <class T>
class Power {
 public:
  explicit Power(const T& x) : value_(x) {}
  void square_twice() {
    for (int i = 0; i < 2; ++i) value_ *= value_;
  }
  void set_root(const T& root) { value_ = root * root; }
  const T& value() const { return value_; }

 private:
  T value_;
};

// spec: D66.b, D73.a
TYPED_TEST_P(Statements, MethodsAndSetters) {
  const auto looped = [](auto x) {
    Power<decltype(x)> p(x);
    p.square_twice();
    return p.value();
  };
  TestFixture::expect_derivative(looped, 0, 0, 0);
  TestFixture::expect_derivative(looped, 1, 1, 4);
  const auto set = [](auto x) {
    Power<decltype(x)> p(x);
    p.set_root(x);
    return p.value();
  };
  TestFixture::expect_derivative(set, 3, 9, 6);
}

// spec: D67.b
TYPED_TEST_P(Statements, VisitAndSwitch) {
  const std::variant<double, std::pair<double, double>> one = 10.0, two = std::pair(4.0, 5.0);
  for (const auto& [held, want] : {std::pair(one, 10.0), std::pair(two, 20.0)}) {
    const auto visited = [&h = held](auto x) {
      using T = decltype(x);
      struct Visitor {
        T at;
        T operator()(double a) const { return at * a; }
        T operator()(const std::pair<double, double>& b) const { return at * b.first * b.second; }
      };
      return std::visit(Visitor{x}, h);
    };
    const auto switched = [&h = held](auto x) {
      switch (h.index()) {
        case 0:
          return decltype(x)(x * std::get<0>(h));
        default:
          return decltype(x)(x * std::get<1>(h).first * std::get<1>(h).second);
      }
    };
    EXPECT_EQ(TestFixture::gradient(visited, 2.0), want);
    EXPECT_EQ(TestFixture::gradient(switched, 2.0), want);
  }
}

// spec: D71.b
TYPED_TEST_P(Statements, ElementsOfTuples) {
  TestFixture::expect_derivative(
      [](auto x) {
        std::tuple parts{x, 1};
        for (int i = 0; i < 2; ++i) std::get<0>(parts) *= x;
        return std::get<0>(parts);
      },
      3, 27, 27);
}

// spec: D75.a, D75.c
TYPED_TEST_P(Statements, LiteralsAndValuesOverwritten) {
  TestFixture::expect_derivative(
      [](auto x) {
        if (true) x = x * x;
        if (false) x = x * 100.0;
        return true ? x : x * 100.0;
      },
      3, 9, 6);
  TestFixture::expect_derivative(
      [](auto x) {
        auto y = x * 100.0;
        int i = 0;
        do y = x * x;
        while (++i < 3);
        return y;
      },
      3, 9, 6);
}

// spec: D84.b, D87.b
TYPED_TEST_P(Statements, ListsThatShrinkAndElementsByValue) {
  const auto popped = [](auto a) {
    a.pop_back();
    return a;
  };
  EXPECT_EQ(TestFixture::pulled(popped, Doubles{1, 2}, Doubles{1, 1, 1}), (Doubles{1, 2, 0}));
  const auto erased = [](auto a) {
    a.erase(a.begin() + 1);
    return a;
  };
  EXPECT_EQ(TestFixture::pulled(erased, Doubles{1, 2}, Doubles{1, 1, 1}), (Doubles{1, 0, 2}));
  const auto resized = [](auto a) {
    a.resize(1);
    return a;
  };
  EXPECT_EQ(TestFixture::pulled(resized, Doubles{5}, Doubles{1, 1, 1}), (Doubles{5, 0, 0}));
  const auto squares = [](const auto& v) {
    std::remove_cvref_t<decltype(v[0])> sum = 0.0;
    for (auto e : v) sum += e * e;
    return sum;
  };
  EXPECT_EQ(TestFixture::gradient(squares, Doubles{1, 2, 3}), (Doubles{2, 4, 6}));
}

REGISTER_TYPED_TEST_SUITE_P(Statements, MethodsAndSetters, VisitAndSwitch, ElementsOfTuples,
                            LiteralsAndValuesOverwritten, ListsThatShrinkAndElementsByValue);

}  // namespace etude::tests
