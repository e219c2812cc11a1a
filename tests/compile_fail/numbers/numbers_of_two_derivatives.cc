// SPDX-License-Identifier: Apache-2.0
// An inner function that captures a number of an outer derivative, and whose own argument is plain:
// one sentence for each two numbers that meet, in whatever modes, and nothing else.
// spec: D27.h
// error: etude: a number of an outer derivative is used in an inner one whose own argument is plain
// error: etude: a number of an outer derivative is used in an inner one whose own argument is plain
// error: etude: a number of an outer derivative is used in an inner one whose own argument is plain
// error: etude: a number of an outer derivative is used in an inner one whose own argument is plain
// error: etude: a number of an outer derivative is used in an inner one whose own argument is plain
// error: etude: a number of an outer derivative is used in an inner one whose own argument is plain
// expect: decltype(x)(1.0) for 1.0
#include <array>
#include <cmath>
#include <vector>

#include "etude/diff.h"

using namespace etude;

auto forward =
    gradient([](auto x) { return x * gradient([&](auto y) { return x * y + y * x; }, 1.0); }, 2.0);
auto inner_in_reverse = gradient(
    [](auto x) {
      const auto inner = [&](const auto& y) { return x * y[0] * y[1]; };
      return x * gradient(inner, std::vector{1.0, 2.0})[0];
    },
    2.0);
auto outer_in_reverse = gradient(
    [](const auto& v) { return v[0] * gradient([&](auto y) { return std::pow(y, v[0]); }, 1.0); },
    std::vector{2.0});
auto second = derivative(
    [](auto x) {
      return hessian([&](const auto& y) { return x * y[0] * y[0]; }, std::array{1.0, 2.0})[0][0];
    },
    2.0);
auto pulled =
    derivative([](auto x) { return x * pullback([&](auto y) { return x * y; }, 1.0)(1.0); }, 2.0);
auto added = derivative(
    [](auto x) {
      return jvp(
                 [&](auto y) {
                   auto s = y;
                   s += x;
                   return s * s;
                 },
                 1.0, 1.0)
          .second;
    },
    2.0);
