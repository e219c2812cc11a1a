// SPDX-License-Identifier: Apache-2.0
// Rows of control flow and mutation, for every kind of program that is differentiated: each Mode
// calls a generic function in its way (modes.h).
#pragma once

#include <any>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "tests/rows/modes.h"

namespace etude::tests {

template <class Mode>
class ControlFlow : public ::testing::Test, public Mode {};
TYPED_TEST_SUITE_P(ControlFlow);

template <class T>
struct Spring {
  T stiffness, length;
};

// spec: D50.a, D51.a, D52.a, D53.a, D54.a, D55.a
TYPED_TEST_P(ControlFlow, Branches) {
  if constexpr (!TestFixture::kDecides) GTEST_SKIP() << "a graph decides nothing by elements";
  const auto two = [](auto x) { return x > 0 ? x * x : x + x; };
  TestFixture::expect_derivative(two, 4, 16, 8);
  TestFixture::expect_derivative(two, -10, -20, 2);
  const auto third = [](auto x) {
    if (x == -1337) return decltype(x)(0.0);
    return x > 0 ? x * x : x + x;
  };
  TestFixture::expect_derivative(third, -1337, 0, 0);
  const auto choice = [](auto x, auto y) { return x > 0 ? x * y : y - x; };
  TestFixture::expect_gradient(choice, 4, 5, {5, 4});
  TestFixture::expect_gradient(choice, -3, -2, {-1, 1});
  const auto early = [](auto x, auto y) {
    if (!(x > 0)) {
      if (y > 0) return x * y;
      if (x == -1337) return x * x;
      return decltype(x)(0.0);
    }
    return y * y;
  };
  TestFixture::expect_gradient(early, 4, 5, {0, 10});
  TestFixture::expect_gradient(early, -1337, 5, {5, -1337});
  TestFixture::expect_gradient(early, -1337, -5, {-2674, 0});
  TestFixture::expect_gradient(early, -3, 2, {2, -3});
  const auto nested = [](auto x) { return x > 0 ? (x > 10 ? x * x + x : x * x) : x * (-x); };
  EXPECT_EQ(TestFixture::gradient(nested, 11.0), 23);
  EXPECT_EQ(TestFixture::gradient(nested, 4.0), 8);
  EXPECT_EQ(TestFixture::gradient(nested, -10.0), 20);
  const auto deep = [](auto x, auto y) {
    if (x > 0) {
      if (y > 10) {
        const auto z = x * y;
        if (z > 100) return x + z;
        if (y == 20) return z + z;
      } else {
        return x + y;
      }
    }
    return -y;
  };
  TestFixture::expect_gradient(deep, 4, 20, {40, 8});
  TestFixture::expect_gradient(deep, 4, 21, {0, -1});
  TestFixture::expect_gradient(deep, 4, 5, {1, 1});
  TestFixture::expect_gradient(deep, -3, -2, {0, -1});
}

// spec: D56.a
TYPED_TEST_P(ControlFlow, TuplesAndStructsReassigned) {
  if constexpr (!TestFixture::kDecides) GTEST_SKIP() << "a graph decides nothing by elements";
  const auto doubled = [](auto x) {
    using T = decltype(x);
    std::tuple<T, Spring<T>> parts{x, {x, x}};
    if (x > 0) {
      std::get<0>(parts) = x + std::get<1>(parts).length;
    } else if (x == -1337) {
      std::get<1>(parts) = {2 * x, x};
      std::get<0>(parts) = std::get<1>(parts).stiffness;
    } else {
      parts = {x, {3 * x, x}};
      std::get<0>(parts) = std::get<1>(parts).stiffness - std::get<0>(parts);
    }
    return std::get<0>(parts);
  };
  TestFixture::expect_derivative(doubled, 4, 8, 2);
  TestFixture::expect_derivative(doubled, -10, -20, 2);
  TestFixture::expect_derivative(doubled, -1337, -2674, 2);
}

template <class T>
T factorial(T x) {
  return x == 1 ? T(1.0) : x * factorial(T(x - 1));
}
template <class T>
T power(T x, int n) {
  return n == 0 ? T(1.0) : x * power(x, n - 1);
}

// spec: D57.a, D58.a
TYPED_TEST_P(ControlFlow, Recursion) {
  const auto count = [](auto x, int n) { return power(x, n); };
  EXPECT_EQ(TestFixture::gradient(count, 10.0, 3), 300);
  EXPECT_EQ(TestFixture::gradient(count, -10.0, 2), -20);
  EXPECT_EQ(TestFixture::gradient(count, 100.0, 1), 1);
  const double want[] = {0, 1, 5, 26, 154};
  for (int i = 0; i < (TestFixture::kDecides ? 5 : 0); ++i) {
    EXPECT_EQ(TestFixture::gradient([](auto x) { return factorial(x); }, i + 1.0), want[i]);
  }
}

// spec: D59.a, D60.a, D61.a
TYPED_TEST_P(ControlFlow, Loops) {
  const auto by_for = [](auto x) {
    auto r = x;
    for (int i = 0; i < 2; ++i) r *= x;
    return r;
  };
  const auto by_while = [](auto x) {
    auto r = x;
    int i = 0;
    while (i++ < 2) r *= x;
    return r;
  };
  const auto by_do = [](auto x) {
    auto r = x;
    int i = 0;
    do r *= x;
    while (++i < 2);
    return r;
  };
  const auto each = [&](double x, double value, double slope) {
    TestFixture::expect_derivative(by_for, x, value, slope);
    TestFixture::expect_derivative(by_while, x, value, slope);
    TestFixture::expect_derivative(by_do, x, value, slope);
  };
  each(2, 8, 12);
  each(3, 27, 27);
  const auto from_one = [](auto x) {
    decltype(x) r = 1.0;
    for (int i = 0; i < 2; ++i) r *= x;
    return r;
  };
  TestFixture::expect_derivative(from_one, 2, 4, 4);
  TestFixture::expect_derivative(from_one, 3, 9, 6);
  const auto inside = [](auto x) {
    auto r = x;
    for (int i = 0; i < 2; ++i) {
      auto t = x;
      int j = 0;
      while (j++ < 2) t *= x;
      r *= t;
    }
    return r;
  };
  TestFixture::expect_derivative(inside, 2, 128, 448);
  TestFixture::expect_derivative(inside, 3, 2187, 5103);
}

// spec: D62.a, D63.a, D64.a, D66.a
TYPED_TEST_P(ControlFlow, LoopsThatAreLeft) {
  const auto broken = [](auto x) {
    auto r = x;
    int i = 0;
    do {
      if (i == 2) break;
      if (i == 0)
        r *= x;
      else
        r *= r;
      ++i;
    } while (true);
    return r;
  };
  TestFixture::expect_derivative(broken, 2, 16, 32);
  TestFixture::expect_derivative(broken, 3, 81, 108);
  const auto odd = [](auto x) {
    auto r = x;
    for (int i = 1; i < 10; ++i) {
      if (i % 2 == 0) continue;
      r *= x;
    }
    return r;
  };
  TestFixture::expect_derivative(odd, 2, 64, 192);
  TestFixture::expect_derivative(odd, 3, 729, 1458);
  const auto sums = [](auto x) {
    auto o = x;
    for (int i = 0; i < 2; ++i) {
      o *= x;
      for (int j = 0; j < 2; ++j) o += x;
    }
    return o;
  };
  TestFixture::expect_derivative(sums, 2, 20, 22);
  TestFixture::expect_derivative(sums, 4, 104, 66);
  const auto squares = [](auto x) {
    for (int i = 0; i < 2; ++i) x *= x;
    return x;
  };
  TestFixture::expect_derivative(squares, 0, 0, 0);
  TestFixture::expect_derivative(squares, 1, 1, 4);
}

// spec: D65.a
TYPED_TEST_P(ControlFlow, LeavingTwoLoops) {
  if constexpr (!TestFixture::kDecides) GTEST_SKIP() << "a graph decides nothing by elements";
  const double want[][2] = {{6, 5}, {20, 22}, {52, 80}, {24, 28}};
  for (int n = 1; n <= 4; ++n) {
    const auto f = [n](auto x) {
      auto o = x;
      bool leaves = false;
      for (int i = 0; i < n && !leaves; ++i) {
        o *= x;
        auto t = o;
        for (int j = 0; j < n && !leaves; ++j) {
          t += x;
          leaves = TestFixture::whole(t) % 7 == 0;
        }
        if (!leaves) o = t;
      }
      return o;
    };
    TestFixture::expect_derivative(f, 2, want[n - 1][0], want[n - 1][1]);
  }
}

// spec: D67.a, D70.a
TYPED_TEST_P(ControlFlow, VariantsAndExceptions) {
  const std::variant<double, std::pair<double, double>> one = 10.0, two = std::pair(4.0, 5.0);
  for (const auto& [held, want] : {std::pair(one, 10.0), std::pair(two, 20.0)}) {
    const auto f = [&, &h = held](auto x) {
      if (const double* a = std::get_if<double>(&h)) return x * *a;
      const auto& b = std::get<1>(h);
      return x * b.first * b.second;
    };
    EXPECT_EQ(TestFixture::gradient(f, 2.0), want);
  }
  const auto caught = [](auto x) {
    auto y = x;
    try {
      y = x * x * x;
      throw 1;
    } catch (int) {
      y = x * x;
    }
    return y;
  };
  EXPECT_EQ(TestFixture::gradient(caught, 3.0), 6);
  const auto thrown = [](auto x) {
    if (x > 0) throw 1;
    return x * x;
  };
  if (TestFixture::kDecides) {
    EXPECT_THROW(TestFixture::gradient(thrown, 3.0), int);
  }
  EXPECT_EQ(internal::ScalarTape<double>::current(), nullptr);
}

// spec: D71.a, D72.a
TYPED_TEST_P(ControlFlow, ValuesFieldsAndCaptures) {
  TestFixture::expect_derivative(
      [](auto x) {
        auto y = x;
        for (int i = 0; i < 3; ++i) y *= x;
        return y;
      },
      3, 81, 108);
  TestFixture::expect_derivative(
      [](auto x) {
        Spring<decltype(x)> s{x, 1.0};
        for (int i = 0; i < 2; ++i) s.stiffness *= x;
        return s.stiffness;
      },
      3, 27, 27);
  TestFixture::expect_derivative(  // addends that depend on the sum
      [](auto x) {
        auto s = x * x;
        s += x;
        s += 0.5 * s;
        s += s;
        s -= 0.25 * s;
        return s;
      },
      3, 27, 15.75);
  const auto swapped = [](auto a, auto b) {
    std::swap(a, b);
    return std::tuple{a, b};
  };
  EXPECT_EQ(TestFixture::pulled(swapped, std::tuple(3.0, 4.0), 1.0, 2.0), Pair(4, 3));
}

// spec: D75.b, D75.d
TYPED_TEST_P(ControlFlow, LongLoopsAndLoopsThatDoNotRun) {
  const auto f = [](auto x, int n) {
    auto y = x;
    for (int i = 0; i < n; ++i) y = y * 1.0;
    return y;
  };
  for (const int n : {0, TestFixture::kSteps}) {
    EXPECT_EQ(TestFixture::gradient(f, 2.0, n), 1);
    EXPECT_EQ(TestFixture::pulled(f, 1.0, 2.0, n), 1);
  }
}

struct Figure {
  virtual ~Figure() = default;
};
struct Square final : Figure {};

// spec: D69.a, G7
TYPED_TEST_P(ControlFlow, RunTimeTypesAndCallsThatMayThrow) {
  const Square square;
  const Figure* shape = &square;
  const std::any any = std::string("text");
  const auto parse = [](const std::string& text) {
    if (text.empty()) throw std::invalid_argument("empty");
    return std::stod(text);
  };
  const auto f = [&](auto x) {
    if (dynamic_cast<const Square*>(shape) == nullptr) return x * 2.0;
    if (std::any_cast<int>(&any) != nullptr) return x * 3.0;
    static_cast<void>(parse("1.5"));
    return x;
  };
  EXPECT_EQ(TestFixture::pulled(f, 10.0, 4.0), 10);
  TestFixture::expect_derivative(f, 4, 4, 1);
}

REGISTER_TYPED_TEST_SUITE_P(ControlFlow, Branches, TuplesAndStructsReassigned, Recursion, Loops,
                            LoopsThatAreLeft, LeavingTwoLoops, VariantsAndExceptions,
                            ValuesFieldsAndCaptures, LongLoopsAndLoopsThatDoNotRun,
                            RunTimeTypesAndCallsThatMayThrow);

}  // namespace etude::tests
